/** What tighten.mjs gives; see there. */
export function varsForLocals(text: string): string
export function literalsForConstants(text: string): string
