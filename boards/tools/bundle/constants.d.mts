/** What constants.mjs gives; see there. */
export function constsForVars(text: string): string
