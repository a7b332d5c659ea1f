/** A look as the page of a monitor shows it. What a card says is escaped here. */

import { printable } from '../../base/printable.ts'
import { partFacts } from '../base/part-text.ts'
import { findingsOf, gravest } from '../check.ts'
import type { FirmwareSample } from './firmware.ts'
import type { HealthEvent, Look, UpLook } from './look.ts'
import type { Rates } from './rates.ts'
import type { Sample } from './sample.ts'
import { tablesOf } from './text.ts'
import type { WebEvent, WebLook, WebPoint } from './web-told.ts'

export function webEvent({ target, atMs, gravity, text }: HealthEvent): WebEvent {
  return { target: printable(target), atMs, gravity, text: printable(text) }
}

export function webLook(look: Look): WebLook {
  const { atMs } = look
  const target = printable(look.target)
  if (!look.up) {
    const since = new Date(look.sinceMs).toISOString().slice(0, 19)
    return {
      ...{ target, atMs, state: 'AWAY', hasHost: false, hasFigures: false, tables: [] },
      findings: [printable(look.reason)],
      facts: [['away since', `${since}Z`]],
      point: gap(atMs),
    }
  }
  const findings = findingsOf(look.sample.part, look.sample.regions ?? [], [])
  return {
    ...{ target, atMs, state: gravest(findings), findings: findings.map(({ text }) => text) },
    facts: factsOf(look.sample),
    tables: tablesOf(look).map(({ title, head, rows }) => {
      return { title, head, rows: rows.map((row) => row.map((cell) => printable(String(cell)))) }
    }),
    hasHost: (look.sample.queues?.epoch ?? 0) !== 0,
    hasFigures: look.sample.figures !== null,
    point: pointOf(look),
  }
}

/** To strangers a card tells some of them only. */
const FOR_STRANGERS: readonly string[] = ['state', 'health', 'durable', 'who may come', 'path MTU']

function factsOf({ part, isWhole, firmware, figures }: Sample): [string, string][] {
  const facts = partFacts(part).map(([name, value]): [string, string] => {
    return [name, printable(String(value))]
  })
  if (!isWhole) return facts.filter(([name]) => FOR_STRANGERS.includes(name))
  const { lanesActive, recordsRepaired } = part
  const words = `${lanesActive} lanes in flight, ${recordsRepaired} records repaired`
  const runs = firmware === null ? [] : [firmwareFact(firmware)]
  const untold: [string, string] = ['acknowledgements', 'not told: its firmware is older']
  return [...facts, ['last recovery', words], ...runs, ...(figures === null ? [untold] : [])]
}

function firmwareFact({ version, sha256, onTrial }: FirmwareSample): [string, string] {
  const name = version === null ? 'what it came with' : `${version}, ${sha256!.slice(0, 12)}`
  return ['firmware', printable(onTrial ? `${name}, ON TRIAL` : name)]
}

function gap(atMs: number): WebPoint {
  const none = { faults: null, refused: null, elements: null, completions: null }
  return { atMs, ...none, answerMs: null, records: null, p50Us: null, p99Us: null }
}

function pointOf({ atMs, sample, rates }: UpLook): WebPoint {
  return {
    atMs,
    faults: rates?.met ?? null,
    refused: rates?.refusals ?? null,
    elements: rates?.queues?.elements ?? null,
    completions: rates?.queues?.completions ?? null,
    answerMs: sample.answerMs,
    records: rates?.work?.records ?? null,
    p50Us: slowest(rates, 'p50Us'),
    p99Us: slowest(rates, 'p99Us'),
  }
}

function slowest(rates: Rates | null, which: 'p50Us' | 'p99Us'): number | null {
  const times = Object.values(rates?.regions ?? {}).flatMap(({ [which]: us }) => us ?? [])
  return times.length === 0 ? null : Math.max(...times)
}
