/**
 * The rules of a dual write, one against the other, on slots of four chunks: every image that two
 * writes in a row may leave at a cut, and what each rule makes of it (crash-model 3.2).
 */

interface Rule {
  readonly name: string
  readonly copies: number
  /** Copies that are durable when a write is acknowledged. */
  readonly acknowledged: number
  /** Are the copies stored in epochs of their own? */
  readonly fenced: boolean
  /** Does the next write wait for all copies of this one? */
  readonly waits: boolean
  readonly decides: 'first whole' | 'equal' | 'majority'
  readonly mediaError: boolean
  /** What is said of the rule: what is lost by name, and what is given out though it is old. */
  readonly fails: boolean
  readonly stale: boolean
}

interface RuleFound {
  readonly states: number
  readonly lost: number
  readonly stale: number
  /** Mixtures that were taken for a record. */
  readonly torn: number
}

const CHUNKS = 4
const WRITES = 2
const SOUND = { fails: false, stale: false }
const PLAIN = { fenced: true, waits: true, decides: 'first whole', mediaError: false } as const

export const RULES: readonly Rule[] = [
  {
    ...PLAIN,
    name: 'rule 0: issue order only, and equality counts',
    copies: 2,
    acknowledged: 2,
    fenced: false,
    decides: 'equal',
    fails: true,
    stale: false,
  },
  { ...PLAIN, ...SOUND, name: 'rule 1: acknowledged after A', copies: 2, acknowledged: 1 },
  {
    ...PLAIN,
    name: 'rule 2: as rule 1, and the next write does not wait',
    copies: 2,
    acknowledged: 1,
    waits: false,
    fails: true,
    stale: true,
  },
  { ...PLAIN, ...SOUND, name: 'rule 3: acknowledged after both', copies: 2, acknowledged: 2 },
  {
    ...PLAIN,
    name: 'rule 1, and a media error',
    copies: 2,
    acknowledged: 1,
    mediaError: true,
    fails: true,
    stale: true,
  },
  {
    ...PLAIN,
    name: 'rule 3, and a media error',
    copies: 2,
    acknowledged: 2,
    mediaError: true,
    fails: true,
    stale: false,
  },
  { ...PLAIN, ...SOUND, name: 'three copies, after one', copies: 3, acknowledged: 1 },
  {
    ...PLAIN,
    name: 'three copies, after one, and a media error',
    copies: 3,
    acknowledged: 1,
    mediaError: true,
    fails: true,
    stale: true,
  },
  {
    ...PLAIN,
    ...SOUND,
    name: 'three copies, after two, and a media error',
    copies: 3,
    acknowledged: 2,
    mediaError: true,
  },
  {
    ...PLAIN,
    name: 'three copies, after one, by majority',
    copies: 3,
    acknowledged: 1,
    decides: 'majority',
    fails: true,
    stale: true,
  },
  {
    ...PLAIN,
    name: 'three copies, after two, by majority',
    copies: 3,
    acknowledged: 2,
    decides: 'majority',
    fails: true,
    stale: false,
  },
]

interface Store {
  readonly copy: number
  readonly version: number
}

/** Stores between two fences, and what is acknowledged before and behind them. */
interface Epoch {
  readonly stores: readonly Store[]
  readonly acknowledged: number
}

function epochsOf({ copies, acknowledged, fenced, waits }: Rule): Epoch[] {
  const epochs: Epoch[] = []
  let said = 0
  let owed: Store[] = []
  for (let version = 1; version <= WRITES; version++) {
    const stores = Array.from({ length: copies }, (_, copy) => ({ copy, version }))
    const groups = fenced ? stores.map((store) => [store]) : [stores]
    groups.forEach((group, i) => {
      const isOwed = !waits && i >= acknowledged && version < WRITES
      if (isOwed) {
        owed.push(...group)
        return
      }
      epochs.push({ stores: [...owed, ...group], acknowledged: said })
      owed = []
      if (!fenced || i + 1 === acknowledged) said = version
    })
  }
  epochs.push({ stores: [], acknowledged: said })
  return epochs
}

/** A slot: which version each chunk is of. */
type Slot = readonly number[]

function mixturesOf(slot: Slot, version: number): Slot[] {
  return Array.from({ length: 2 ** CHUNKS }, (_, bits) => {
    return slot.map((chunk, i) => (((bits >> i) & 1) === 1 ? version : chunk))
  })
}

function isWhole(slot: Slot | null): slot is Slot {
  return slot?.every((chunk) => chunk === slot[0]) ?? false
}

function same(one: Slot | null, other: Slot | null): boolean {
  return one !== null && other !== null && one.join() === other.join()
}

/** The version that the rule gives out, -1 for none, NaN for a mixture. */
function decided({ decides }: Rule, slots: readonly (Slot | null)[]): number {
  if (decides === 'equal' && same(slots[0]!, slots[1]!)) {
    return isWhole(slots[0]!) ? slots[0]![0]! : Number.NaN
  }
  if (decides === 'majority') {
    const agreed = slots.find((slot, c) => {
      return isWhole(slot) && slots.some((other, d) => d !== c && same(slot, other))
    })
    return agreed?.[0] ?? -1
  }
  const whole = slots.find(isWhole)
  return whole?.[0] ?? -1
}

export function judgeRule(rule: Rule): RuleFound {
  const seen = new Set<string>()
  const found = { states: 0, lost: 0, stale: 0, torn: 0 }
  const visit = (slots: readonly (Slot | null)[], acknowledged: number): void => {
    const name = `${slots.map((slot) => slot?.join('') ?? 'x').join()} ${acknowledged}`
    if (seen.has(name)) return
    seen.add(name)
    const version = decided(rule, slots)
    if (Number.isNaN(version)) found.torn += 1
    else if (version < 0) found.lost += 1
    else if (version < acknowledged) found.stale += 1
  }
  let slots: Slot[] = Array.from({ length: rule.copies }, () => new Array<number>(CHUNKS).fill(0))
  for (const { stores, acknowledged } of epochsOf(rule)) {
    let images: Slot[][] = [slots]
    for (const { copy, version } of stores) {
      images = images.flatMap((image) => {
        return mixturesOf(image[copy]!, version).map((slot) => image.with(copy, slot))
      })
    }
    for (const image of images) {
      visit(image, acknowledged)
      if (!rule.mediaError) continue
      image.forEach((_, copy) => {
        visit((image as (Slot | null)[]).with(copy, null), acknowledged)
      })
    }
    for (const { copy, version } of stores) {
      slots = slots.with(copy, new Array<number>(CHUNKS).fill(version))
    }
  }
  return { ...found, states: seen.size }
}

/** What is not as it is said to be, or null. */
export function complaintOf(rule: Rule, found: RuleFound): string | null {
  const fails = found.lost + found.stale + found.torn > 0
  if (fails !== rule.fails) return `${rule.name}: ${fails ? 'fails' : 'does not fail'}`
  if (found.stale > 0 === rule.stale) return null
  return `${rule.name}: ${found.stale} old records are given out`
}
