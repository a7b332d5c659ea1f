/** What the commands that flash have in common: what they say, and a restart of the card. */

import { setTimeout } from 'node:timers/promises'
import { PerdureError } from '../../base/errors.ts'
import type { FlashTarget, Slot } from '../../flash/card.ts'
import type { Output } from '../base/output.ts'
import { shortHash } from './signing-key.ts'

/** How long a card may take from a reset until it answers again, ms, and between two looks. */
export const RESTART_MS = 60_000
export const LOOK_MS = 200

/** A stage that is done, for people or for programs. */
export function stage(output: Output, name: string, text: string, fields: object = {}): void {
  if (output.json) output.printJson({ stage: name, ...fields })
  else output.print(`${name.padEnd(9)} ${text}`)
}

export function told(slot: Slot): string {
  const flags = (['active', 'confirmed', 'pending', 'permanent'] as const).filter(
    (one) => slot[one],
  )
  return `${slot.version.padEnd(10)} ${shortHash(slot.hash)}  ${flags.join(' ')}`.trimEnd()
}

export function slotFields({ hash, ...rest }: Slot): object {
  return { ...rest, hash: Buffer.from(hash).toString('hex') }
}

export function running(slots: readonly Slot[]): Slot | undefined {
  return slots.find(({ active }) => active)
}

/** What runs on trial. */
export function trialOf(slots: readonly Slot[]): Slot | undefined {
  return slots.find(({ active, confirmed }) => active && !confirmed)
}

export function isSame(one: Uint8Array, other: Uint8Array): boolean {
  return Buffer.compare(one, other) === 0
}

/** Resets the card, and waits until it answers again. */
export async function restart(card: FlashTarget, output: Output): Promise<void> {
  await card.reset()
  const from = performance.now()
  // It still answers until it is down.
  await setTimeout(LOOK_MS)
  while (!(await card.answers())) {
    if (performance.now() - from > RESTART_MS) {
      const words = `the card does not answer ${RESTART_MS / 1000} s after its reset`
      throw new PerdureError('PERDURE_UNREACHABLE', `${words}. See its console.`)
    }
    await setTimeout(LOOK_MS)
  }
  const seconds = (performance.now() - from) / 1000
  stage(output, 'restart', `answers after ${seconds.toFixed(1)} s`, { seconds })
}
