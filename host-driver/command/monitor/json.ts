/**
 * Looks and events as objects for programs. `time` is ISO 8601, in UTC; an event has `event`, and a
 * look has `up`.
 */

import type { HealthEvent, Look } from './look.ts'
import type { Sample } from './sample.ts'

export function eventJson({ atMs, ...event }: HealthEvent): object {
  return { time: new Date(atMs).toISOString(), ...event }
}

export function lookJson(look: Look): object {
  const { target, atMs, up } = look
  const head = { time: new Date(atMs).toISOString(), target, up }
  if (!look.up) {
    const { reason, code, sinceMs } = look
    return { ...head, code, reason, since: new Date(sinceMs).toISOString() }
  }
  const { sample, rates } = look
  const { faults, figures, queues, regions, recovery, firmware, answerMs } = sample
  return {
    ...head,
    answerMs,
    rates,
    part: partJson(sample),
    recovery,
    regions,
    faults,
    figures,
    queues,
    firmware,
  }
}

/** Of what is not told, nothing. */
function partJson({ part, isWhole }: Sample): object {
  if (isWhole) return part
  const { state, fault, armed, durable, outlivesPower, saveFailed, access } = part
  const { pathMtu, formatVersion } = part
  return {
    ...{ state, fault, armed, durable, outlivesPower, saveFailed, access },
    ...{ pathMtu, formatVersion },
  }
}
