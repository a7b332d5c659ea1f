/**
 * The product's behaviours, and which of them no test names.
 *
 * A behaviour is one numbered promise: `P1-26` is the twenty-sixth of source 1, `D-4` the fourth
 * decision, `X-1` the first invariant of all sources together. A test asserts it by its name.
 */

/** How many behaviours each group has: `P1-1` to `P1-31`, and so on. */
const GROUPS: Readonly<Record<string, number>> = {
  ...{ P1: 31, P2: 28, P3: 28, P4: 14, P5: 30 },
  ...{ G2: 5, D: 15, X: 7 },
}

/** Every behaviour's id. */
export const BEHAVIOURS: readonly string[] = Object.entries(GROUPS).flatMap(([group, count]) =>
  Array.from({ length: count }, (_, i) => `${group}-${i + 1}`),
)

/** Every id that a name has, ranges too: `P1-14 to P1-18` stands for five. */
function idsOf(name: string): string[] {
  const ranges = [...name.matchAll(/\b([A-Z]\d?)-(\d+)(?: to | ?– ?)\1-(\d+)/g)]
  const within = ranges.flatMap(([, group, first, last]) => {
    const count = Number(last) - Number(first) + 1
    return Array.from({ length: count }, (_, i) => `${group}-${Number(first) + i}`)
  })
  return [...within, ...(name.match(/\b[A-Z]\d?-\d+\b/g) ?? [])]
}

/** The behaviours that none of these names of tests has. */
export function unasserted(names: readonly string[]): string[] {
  const named = new Set(names.flatMap(idsOf))
  return BEHAVIOURS.filter((id) => !named.has(id))
}
