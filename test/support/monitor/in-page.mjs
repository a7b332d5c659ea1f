/**
 * What tests ask of a page from within: these functions run in the browser, each by itself, with
 * nothing of this file around them.
 */

/** Whether anything is drawn on a canvas. */
export function isDrawn(canvas) {
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height)
  return data.some((value) => value !== 0)
}

/** Words whose contrast with what is behind them is below 4.5 to 1 (WCAG 2.2, 1.4.3). */
export function lowContrast() {
  const channels = (colour) => (colour.match(/[\d.]+/g) ?? []).map(Number)
  const light = (colour) => {
    const [r, g, b] = channels(colour).map((value) => {
      const part = value / 255
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4
    })
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  const behind = (element) => {
    for (let one = element; one !== null; one = one.parentElement) {
      const { backgroundColor } = getComputedStyle(one)
      if ((channels(backgroundColor)[3] ?? 1) === 1) return backgroundColor
    }
    return 'rgb(255, 255, 255)'
  }
  const found = []
  for (const element of document.body.querySelectorAll('*')) {
    const text = [...element.childNodes].find((node) => node.nodeType === 3)?.textContent.trim()
    if (text === undefined || text === '') continue
    const [words, back] = [light(getComputedStyle(element).color), light(behind(element))]
    const ratio = (Math.max(words, back) + 0.05) / (Math.min(words, back) + 0.05)
    if (ratio < 4.5) found.push(`${text}: ${ratio.toFixed(2)}`)
  }
  return found
}
