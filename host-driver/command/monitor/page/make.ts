/** What all parts of the page are made with. */

/** An element with a text in it. */
export function make<K extends keyof HTMLElementTagNameMap>(
  name: K,
  text = '',
): HTMLElementTagNameMap[K] {
  const element = document.createElement(name)
  element.textContent = text
  return element
}

/** A time of the day, where the browser is. */
export function clockText(at: Date): string {
  const two = (value: number): string => String(value).padStart(2, '0')
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(':')
}
