/**
 * The part of `npm run bench:native` about doorbells: what perdured saves where it uses the pointer
 * that a doorbell carries, and reads none (S1-M8).
 *
 * Method: two perdureds, each with a host of the driver behind a port in a file; one host rings as
 * ever, the other has `doorbell: 'trusted'`. They have turns. Each ring is for one NOP. A figure is
 * the median of the firmware's calls for a ring, from the build with clocks (stages.c); a pair is
 * started anew for each round, and the ratio is the median over the rounds. Board calls and
 * commands are counted.
 *
 * A file stands for PCIe here: a read from it takes as long as one from memory, so the ratio says
 * what the firmware and the board save, and nothing of the bus. `npm run bench -- queues` adds that
 * up.
 */

import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import type { BenchPrograms } from '../../../boards/linux/bench/compile.ts'
import { PORT_AT, PORT_LINK } from '../../../firmware/board/hal.ts'
import { PcieDevice } from '../../../host-driver/card/device.ts'
import { openFilePort } from '../../../host-driver/card/file-port.ts'
import { median } from '../../support/bench/table.ts'
import { ask, buildOf, type Counts, startPerdured } from '../../support/native/load/rig.ts'

const ROUNDS = 5
const TURNS = 8
const RINGS_EACH = 500
const MEMORY_BYTES = 1 << 21
const FORMS = ['fifo', 'trusted'] as const
type Form = (typeof FORMS)[number]

/** Commands that a trusted ring spares: its read, and less what was done by the way meanwhile. */
const SPARED = 0.9

/** What the build with clocks says when it ends: ns of each stage, and what `ring` is. */
export interface StagesTold extends Readonly<Record<string, number>> {
  /** Median of the calls for no frame, ns; and how many there were. */
  readonly ring: number
  readonly rings: number
}

interface RingRow {
  readonly pointer: 'read' | 'trusted'
  readonly ns: number
  /** Calls of the board, and commands, per ring. */
  readonly boardCalls: number
  readonly commands: number
  /** To that of a ring whose pointer is read. */
  readonly ratio: number
  readonly holds: boolean
}

/** One perdured, and a host that rings it. */
class Rung {
  private readonly folder: string
  private readonly served: Awaited<ReturnType<typeof startPerdured>>
  private readonly nop: () => Promise<string>
  private readonly end: () => void

  private constructor(
    folder: string,
    served: Rung['served'],
    { nop, end }: { nop: Rung['nop']; end: Rung['end'] },
  ) {
    this.folder = folder
    this.served = served
    this.nop = nop
    this.end = end
  }

  static async start(programs: BenchPrograms, folder: string, doorbell: Form): Promise<Rung> {
    mkdirSync(folder, { recursive: true })
    const path = join(folder, 'port')
    const lines = [
      `port = ${path}`,
      `port-bytes = ${MEMORY_BYTES}`,
      `console = unix:${join(folder, 'console')}`,
    ]
    const build = buildOf(programs.timed, programs.signed.trust)
    const env = { PERDURE_STAGES: join(folder, 'stages') }
    const served = await startPerdured(build, folder, 64, lines, env)
    const port = await openFilePort({ path })
    while (port.readRegister(PORT_LINK - PORT_AT) !== 1) await setImmediate()
    const device = await PcieDevice.open(port, { seed: 1, doorbell })
    const sendCq = await device.createCq({ entries: 64 })
    sendCq.dispatch(() => {})
    const pair = await device.createQp({ type: 'local', sendCq, clientId: 1n })
    const nop = (): Promise<string> =>
      new Promise((resolve) => pair.post({ kind: 'nop', done: ({ status }) => resolve(status) }))
    const end = (): void => {
      device.close()
      port.close()
    }
    return new Rung(folder, served, { nop, end })
  }

  async ring(count: number): Promise<void> {
    for (let i = 0; i < count; i++) {
      const status = await this.nop()
      if (status !== 'SUCCESS') throw new Error(`a NOP ended with ${status}`)
    }
  }

  async counts(): Promise<Counts['machine']> {
    const answer = await ask(join(this.folder, 'console'), 'counters')
    return (answer as unknown as Counts).machine
  }

  /** Ends both; ns of a ring. */
  async close(): Promise<number> {
    this.end()
    await this.served.running.close()
    return (JSON.parse(readFileSync(join(this.folder, 'stages'), 'utf8')) as StagesTold).ring
  }
}

interface Rings {
  readonly ns: number
  readonly boardCalls: number
  readonly commands: number
}

/** Both forms, turn by turn. */
async function round(programs: BenchPrograms, folder: string): Promise<Rings[]> {
  const both: Rung[] = []
  for (const form of FORMS) both.push(await Rung.start(programs, join(folder, form), form))
  const before = await Promise.all(both.map((one) => one.counts()))
  for (let turn = 0; turn < TURNS; turn++) {
    for (const one of turn % 2 === 0 ? both : [...both].reverse()) await one.ring(RINGS_EACH)
  }
  const after = await Promise.all(both.map((one) => one.counts()))
  const rings: Rings[] = []
  for (const [i, one] of both.entries()) {
    const per = (name: 'runs' | 'commands'): number =>
      (after[i]![name] - before[i]![name]) / (TURNS * RINGS_EACH)
    rings.push({ boardCalls: per('runs'), commands: per('commands'), ns: await one.close() })
  }
  return rings
}

export async function benchRings(
  programs: BenchPrograms,
  folder: string,
  say: (line: string) => void,
): Promise<RingRow[]> {
  const rounds: Rings[][] = []
  for (let i = 0; i < ROUNDS; i++) {
    say(`doorbells, round ${i + 1} of ${ROUNDS} …`)
    rounds.push(await round(programs, join(folder, `rings-${i}`)))
  }
  return FORMS.map((form, i) => {
    const of = (name: keyof Rings): number => median(rounds.map((both) => both[i]![name]))
    const ratio = median(rounds.map((both) => both[i]!.ns / both[0]!.ns))
    const costs = { ns: of('ns'), boardCalls: of('boardCalls'), commands: of('commands') }
    const spared = median(rounds.map((both) => both[0]!.commands - both[i]!.commands))
    const pointer = form === 'fifo' ? 'read' : 'trusted'
    return { pointer, ...costs, ratio, holds: form === 'fifo' || spared >= SPARED }
  })
}

export function ringTable(rows: readonly RingRow[]): string[][] {
  const head = ['pointer', 'ns/ring', 'calls', 'commands', '× ns', '']
  const cells = rows.map(({ pointer, ns, boardCalls, commands, ratio, holds }) => [
    ...[pointer, ns.toFixed(0), boardCalls.toFixed(2), commands.toFixed(2), ratio.toFixed(3)],
    holds ? 'holds' : 'BROKEN',
  ])
  return [head, ...cells]
}
