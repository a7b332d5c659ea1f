/**
 * One operation of the bundle in QuickJS, stopped wherever it wants memory: at every limit until it
 * goes through, and from every one of its board calls on. Likewise for stack, and for time.
 *
 * Invariant: lack of memory is a crash with a name. What had left by then is durable, and a
 * card that starts on what is on the medium finds everything that was acknowledged.
 */

import { FirmwareStopped, type StopReason } from '../../../boards/emulator/run/engine.ts'
import type { EmulatedMachine } from '../../../boards/emulator/run/machine.ts'
import type { Operation } from './operations.ts'
import { NOTHING_MORE, type Squeezed, type Taken } from './squeeze.ts'
import type { Counts, Judged, PartWorld } from './world.ts'

export interface Squash {
  /** Why it stopped, or null: it went through. */
  readonly reason: StopReason | null
  readonly complaints: readonly string[]
  readonly counts: Counts
  /** Board calls of the operation. */
  readonly lists: number
}

/** Plays the operation once, with less than it has otherwise. */
export function squeeze(
  operation: Operation,
  squeezed: Squeezed,
  how: Taken | null,
  judged: Judged,
): Squash {
  const world = operation.begin(judged) as PartWorld
  world.starter = squeezed
  const complaints: string[] = []
  let reason: StopReason | null = null
  let lists = 0
  squeezed.beforeStart = () => {}
  const attach = (machine: EmulatedMachine): void => {
    lists = 0
    const run = machine.run.bind(machine)
    machine.run = (count) => {
      if (how?.kind === 'from' && how.call === lists) squeezed.limit = NOTHING_MORE
      lists += 1
      return run(count)
    }
    const take = (): void => {
      if (how !== null) squeezed.take(how)
    }
    // A start begins with everything put back.
    if (world.card === null) squeezed.beforeStart = take
    else take()
  }
  try {
    world.play(attach)
  } catch (error) {
    if (error instanceof FirmwareStopped) reason = error.reason
    else complaints.push(`it throws: ${String(error)}`)
  }
  const wanted = how === null ? null : REASONS[how.kind]
  if (reason !== null && reason !== wanted) complaints.push(`it stops: ${reason}, not ${wanted}`)
  try {
    complaints.push(...world.judge(false, false))
  } catch (error) {
    complaints.push(`afterwards it throws: ${String(error)}`)
  }
  return { reason, complaints, counts: world.counts, lists }
}

const REASONS: Readonly<Record<Taken['kind'], StopReason>> = {
  memory: 'memory',
  from: 'memory',
  stack: 'stack',
  time: 'hung',
}

/** As text and back: argument of a replay. */
export function textOf(how: Taken): string {
  if (how.kind === 'memory') return `memory ${how.more}`
  if (how.kind === 'from') return `from ${how.call}`
  return how.kind === 'stack' ? `stack ${how.bytes}` : `time ${how.asked}`
}

export function squeezeOf(text: string): Taken {
  const [kind, number] = text.split(' ')
  const value = Number(number)
  if (kind === 'memory') return { kind, more: value }
  if (kind === 'from') return { kind, call: value }
  if (kind === 'stack') return { kind, bytes: value }
  if (kind === 'time') return { kind, asked: value }
  throw new Error(`nothing is squeezed by ${text}`)
}
