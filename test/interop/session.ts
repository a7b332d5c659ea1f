/**
 * What is tried with one guest: its clients, what came of them, and what they say is durable.
 *
 * Invariant: a client passes only if it ends with 0 *and* every step that it reports went
 * as it must *and* it reports one; bytes count as durable only if the client flushed them.
 */

import type { DpuProcess } from './dpu-process.ts'
import type { Piece } from './expectations.ts'
import type { CommandResult, Guest } from './guest.ts'
import type { Outcome } from './table.ts'

/** What a client may take in the guest, seconds; all of them take a few at most. */
export const CLIENT_SECONDS = 60

/** What a case found: how many steps, and what went wrong. */
export interface Found {
  readonly steps: number
  readonly failures: readonly string[]
  readonly note?: string
}

export class Session {
  readonly outcomes: Outcome[] = []
  /** What the clients flushed. */
  readonly durable: Piece[] = []
  readonly guest: Guest
  readonly talk: (line: string) => void
  private readonly dpu: DpuProcess | null
  private readonly only: string

  /**
   * `dpu` is the card under test, null where it is no process here; `only` is part of the names of
   * the cases that are tried.
   */
  constructor(guest: Guest, dpu: DpuProcess | null, talk: (line: string) => void, only: string) {
    this.guest = guest
    this.dpu = dpu
    this.talk = talk
    this.only = only
  }

  /** Carries a case out. Once the card's process has ended, which fails one, the rest is left. */
  async one(name: string, work: () => Promise<Found>): Promise<void> {
    const failureOfCard = (): string | null => this.dpu?.failure ?? null
    if (failureOfCard() !== null || !name.includes(this.only)) return
    const startMs = performance.now()
    let found: Found
    try {
      found = await work()
    } catch (error) {
      found = { steps: 0, failures: [(error as Error).message] }
    }
    const seconds = (performance.now() - startMs) / 1000
    const failure = failureOfCard()
    const failures = [...found.failures, ...(failure === null ? [] : [failure])]
    this.outcomes.push({ ...found, name, failures, seconds })
  }

  /** Runs a client in the guest; its lines are what it says. `onLine` hears each as it comes. */
  async client(
    command: string,
    seconds: number = CLIENT_SECONDS,
    onLine: (line: string) => void = () => {},
  ): Promise<CommandResult> {
    const { guest, talk } = this
    talk(`$ ${command}`)
    const result = await guest.run(command, seconds, onLine)
    for (const line of result.lines) talk(`  ${line}`)
    talk(`  exit code ${result.status}`)
    return result
  }
}

/** What is wrong with how a client ended. */
export function failuresOf({ lines, status }: CommandResult): string[] {
  if (status === 0) return []
  const said = lines.slice(-3).join(' | ')
  if (status === 124 || status === 137 || status === 143) return [`its time was over: ${said}`]
  return [`exit code ${status}: ${said}`]
}

/** The steps that a verbs client reports. */
export function stepsOf(result: CommandResult): Found {
  const ok = result.lines.filter((line) => line.startsWith('ok ')).length
  const failed = result.lines.filter((line) => line.startsWith('FAIL '))
  const ended = failed.length > 0 && result.status === 1 ? [] : failuresOf(result)
  const nothing = ok + failed.length === 0 ? ['it reported no step'] : []
  const failures = [...failed.map((line) => line.slice('FAIL '.length)), ...ended, ...nothing]
  return { steps: ok + failed.length, failures }
}
