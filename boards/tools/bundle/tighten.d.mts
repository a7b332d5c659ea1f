/** What tighten.mjs gives; see there. */
export function tightened(text: string): string
