/**
 * The console of `perdure emulate`: lines of standard input that switch card and host, each by
 * itself, as two machines are.
 *
 * Invariant: a line that is not understood changes nothing, and is told what there is;
 * lines are obeyed one after the other, in their order.
 */

import { createInterface } from 'node:readline'
import { ArgumentError } from '../../base/errors.ts'

/** Who has a power supply; `both` lose it in the same instant. */
export type Party = 'card' | 'host' | 'both'

export type Order =
  | { readonly kind: 'power'; readonly party: Party; readonly to: 'off' | 'on' | 'reset' }
  /** DMA writes go to the host's caches, or past them, from its next start on. */
  | { readonly kind: 'ddio'; readonly on: boolean }
  /** The next write of the card into the host's persistent memory is lost on its way. */
  | { readonly kind: 'lose' }

/** What a console understands, in one line. */
export const ORDERS: string =
  'host off | on | reset, card off | on | reset, both off | on | reset, ' +
  'host ddio on | off (from its next start on), host lose (the next write to its memory)'

/** What the line says. Throws ArgumentError. */
export function orderOf(line: string): Order {
  const words = line.trim().toLowerCase().replaceAll(/\s+/g, ' ')
  const power = /^(card|host|both) (off|on|reset)$/.exec(words)
  if (power !== null) {
    return { kind: 'power', party: power[1] as Party, to: power[2] as 'off' | 'on' | 'reset' }
  }
  const ddio = /^host ddio (on|off)$/.exec(words)
  if (ddio !== null) return { kind: 'ddio', on: ddio[1] === 'on' }
  if (words === 'host lose') return { kind: 'lose' }
  throw new ArgumentError(`'${line.trim()}' is no command of this console: ${ORDERS}`)
}

/** Hands every line of standard input to `take`; returns what ends that. */
export function readConsole(take: (line: string) => void): () => void {
  const lines = createInterface({ input: process.stdin })
  lines.on('line', (line) => {
    if (line.trim() !== '') take(line)
  })
  return () => lines.close()
}
