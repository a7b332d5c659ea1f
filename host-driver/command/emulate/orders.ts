/**
 * What may be ordered of `perdure emulate` while it serves: power, and faults to try with. A line
 * of its console says it, or `--order` before it serves.
 *
 * Invariant: a line that is not understood changes nothing, and is told where to read what there
 * is.
 */

import { createInterface } from 'node:readline'
import { ArgumentError } from '../../base/errors.ts'

/** Who has a power supply; `both` lose it in the same instant. */
export type Party = 'card' | 'host' | 'both'

/** A copy of a record, 0 the first; null: every copy. */
export interface Damaged {
  readonly region: string
  readonly record: number
  readonly copy: number | null
}

/** What becomes of a line of the medium. */
export type Damage = 'media' | 'stuck' | 'rot'

/** What happens to the card's medium, or will happen to its power. */
export type FaultOrder =
  | ({ readonly kind: 'damage'; readonly how: Damage } & Damaged)
  | { readonly kind: 'heal' }
  | { readonly kind: 'energy'; readonly armed: boolean }
  | { readonly kind: 'save'; readonly failed: boolean }
  | { readonly kind: 'fences'; readonly count: number }
  | { readonly kind: 'cut'; readonly unit: 'record' | 'command'; readonly count: number }

type Switch = 'off' | 'on' | 'reset'

export type Order =
  | { readonly kind: 'help' }
  | { readonly kind: 'power'; readonly party: Party; readonly to: Switch }
  /** DMA writes go to the host's caches, or past them, from its next start on. */
  | { readonly kind: 'ddio'; readonly on: boolean }
  /** The next write of the card into the host's persistent memory is lost on its way. */
  | { readonly kind: 'lose' }
  | FaultOrder

/** How an order is said, what it does, and how it is read. */
interface Row {
  readonly form: string
  readonly does: string
  readonly said: RegExp
  make(words: readonly string[]): Order
}

/** Orders counted from now: at most so many. */
const COUNT_MAX = 2 ** 31

function countOf(text: string): number {
  const count = Number(text)
  if (count >= 1 && count <= COUNT_MAX) return count
  throw new ArgumentError(`${text}: 1 to ${COUNT_MAX}`)
}

function lower(word: string | undefined): string {
  return (word ?? '').toLowerCase()
}

const DAMAGE = String.raw` (.+):(\d+)(?: (?:copy (\d+)|(every copy)))?`

function damage(how: Damage, does: string): Row {
  return {
    form: `${how} REGION:RECORD [copy N | every copy]`,
    does,
    said: new RegExp(`^${how}${DAMAGE}$`, 'i'),
    make: ([, region, record, copy, every]) => {
      const which = every === undefined ? Number(copy ?? 0) : null
      return { kind: 'damage', how, region: region!, record: Number(record), copy: which }
    },
  }
}

const ROWS: readonly Row[] = [
  {
    form: 'card off | on | reset',
    does: 'the power of the card; host and both: of a host inside, of the two at once',
    said: /^(card|host|both) (off|on|reset)$/i,
    make: ([, party, to]) => {
      return { kind: 'power', party: lower(party) as Party, to: lower(to) as Switch }
    },
  },
  {
    form: 'cut record N',
    does: 'the power goes inside the commit of the Nth record from now',
    said: /^cut record (\d+)$/i,
    make: ([, count]) => ({ kind: 'cut', unit: 'record', count: countOf(count!) }),
  },
  {
    form: 'cut command N',
    does: 'the power goes before the Nth command of the firmware to its board from now',
    said: /^cut command (\d+)$/i,
    make: ([, count]) => ({ kind: 'cut', unit: 'command', count: countOf(count!) }),
  },
  damage('media', 'an uncorrectable error: copy N of the record, 0 is the first, cannot be read'),
  damage('stuck', 'that copy takes no store any more'),
  damage('rot', 'a bit of that copy flips'),
  {
    form: 'heal',
    does: 'lines that these orders have damaged take stores again, which end their errors',
    said: /^heal$/i,
    make: () => ({ kind: 'heal' }),
  },
  {
    form: 'energy gone | back',
    does: 'the energy to save the part with: without it nothing becomes durable',
    said: /^energy (gone|back)$/i,
    make: ([, which]) => ({ kind: 'energy', armed: lower(which) === 'back' }),
  },
  {
    form: 'save failed | good',
    does: 'the last save of the part, as its health says it',
    said: /^save (failed|good)$/i,
    make: ([, which]) => ({ kind: 'save', failed: lower(which) === 'failed' }),
  },
  {
    form: 'fences fail N',
    does: 'the next N fences fail',
    said: /^fences fail (\d+)$/i,
    make: ([, count]) => ({ kind: 'fences', count: countOf(count!) }),
  },
  {
    form: 'host ddio on | off',
    does: 'whether writes go to the caches of the host inside, from its next start on',
    said: /^host ddio (on|off)$/i,
    make: ([, which]) => ({ kind: 'ddio', on: lower(which) === 'on' }),
  },
  {
    form: 'host lose',
    does: 'the next write into the memory of the host inside gets lost',
    said: /^host lose$/i,
    make: () => ({ kind: 'lose' }),
  },
]

/** How wide the forms are in the help. */
const FORM_WIDTH = 42

/** What there is to order, a line each. */
export function orderHelp(): string[] {
  return ROWS.map(({ form, does }) => `  ${form.padEnd(FORM_WIDTH)} ${does}`)
}

/** What the line says. Throws ArgumentError. */
export function orderOf(line: string): Order {
  const text = line.trim().replaceAll(/\s+/g, ' ')
  if (text.toLowerCase() === 'help') return { kind: 'help' }
  for (const { said, make } of ROWS) {
    const words = said.exec(text)
    if (words !== null) return make(words)
  }
  throw new ArgumentError(`'${text}' is no order: 'help' says which there are`)
}

/** Hands every line of standard input to `take`; returns what ends that. */
export function readConsole(take: (line: string) => void): () => void {
  const lines = createInterface({ input: process.stdin })
  lines.on('line', (line) => {
    if (line.trim() !== '') take(line)
  })
  return () => lines.close()
}
