/** Is a text XML? Enough of an answer for the drawings of the benches. */

/** What is wrong with the nesting or the attributes of an XML text; empty if nothing is. */
export function wellFormed(xml: string): string {
  const open: string[] = []
  const outside = xml.replaceAll(
    /<(\/?)([a-z]+)((?: [a-zA-Z-]+="[^"<&]*")*)\s*(\/?)>/g,
    (_all, end: string, name: string, _attributes: string, empty: string) => {
      if (end !== '' && open.pop() !== name) open.push(`</${name}>`)
      else if (end === '' && empty === '') open.push(name)
      return ''
    },
  )
  if (/[<>]|&(?!(amp|lt|gt);)/.test(outside)) return outside
  return open.join(' ')
}
