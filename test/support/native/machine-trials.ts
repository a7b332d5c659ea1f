/**
 * Single commands over bytes of packet memory, on the emulated machine and on the native one.
 *
 * Invariant: both start with zeros everywhere, have every space that there is, and run the trials
 * one behind the other in one packet memory.
 */

import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DDIO_ON, HostMemory } from '../../../boards/emulator/host/host-memory.ts'
import { HostRam } from '../../../boards/emulator/host/host-ram.ts'
import { PcieLink } from '../../../boards/emulator/host/pcie.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { EmulatedMachine } from '../../../boards/emulator/run/machine.ts'
import { COMMANDS_AT, type Facts, RESULT } from '../../../firmware/board/hal.ts'

/** Bytes of the part, and of each window. */
const SPACE = 65_536
/** Bytes in a line for the native program, which looks for its end at each of them. */
const LINE_BYTES_MAX = 512

/** Operation, from, to, length, aux. */
export type Command = readonly [number, number, number, number, number]

/** What is put into packet memory, the command, and the range that is looked at afterwards. */
export interface Trial {
  readonly puts: readonly (readonly [at: number, bytes: Uint8Array])[]
  readonly command: Command
  readonly look: readonly [at: number, length: number]
}

/** What became of it: the result, and the range in hexadecimal digits. */
export type Outcome = readonly [result: number, left: string]

export function tryEmulated(trials: readonly Trial[]): Outcome[] {
  const link = new PcieLink(true)
  const part = new Nvdimm({ bytes: SPACE })
  const machine = new EmulatedMachine({
    facts: { hostBytes: SPACE, dmaBytes: SPACE } as Facts,
    nvdimm: new Nvdimm({ bytes: SPACE }),
    host: new HostMemory({ part, platform: DDIO_ON, link }),
    ram: new HostRam(SPACE, link),
    transmit: () => {},
  })
  const { packets } = machine
  const words = new Float64Array(machine.memory, COMMANDS_AT)
  return trials.map(({ puts, command, look: [at, length] }) => {
    for (const [to, bytes] of puts) packets.set(bytes, to)
    words.set(command)
    machine.run(1)
    return [words[RESULT]!, Buffer.from(packets.subarray(at, at + length)).toString('hex')]
  })
}

/** The program is `compileMachine`'s; its files are in `folder`. Throws what it complains of. */
export function tryNative(program: string, folder: string, trials: readonly Trial[]): Outcome[] {
  const places = ['part', 'host', 'dma'].map((name) => {
    writeFileSync(join(folder, name), new Uint8Array(SPACE))
    return `${name}=${join(folder, name)}`
  })
  const input = trials.map(({ puts, command, look: [at, length] }) => {
    const lines = puts.flatMap(([to, bytes]) => putLines(to, bytes))
    return [...lines, `run ${command.join(' ')}`, `get ${at} ${length}`, ''].join('\n')
  })
  const options = { input: input.join(''), encoding: 'utf8', maxBuffer: 2 ** 28 } as const
  const { status, stdout, stderr } = spawnSync(program, ['talk', 'development', ...places], options)
  if (status !== 0) throw new Error(stderr)
  // First it says what its memory is.
  const answers = stdout.split('\n').slice(1, -1)
  const told = answers.filter((line) => line !== 'put')
  return trials.map((_, i) => [
    (JSON.parse(told[2 * i]!) as { result: number }).result,
    told[2 * i + 1]!,
  ])
}

function putLines(to: number, bytes: Uint8Array): string[] {
  const lines: string[] = []
  for (let at = 0; at < bytes.length; at += LINE_BYTES_MAX) {
    const piece = bytes.subarray(at, at + LINE_BYTES_MAX)
    lines.push(`put ${to + at} ${Buffer.from(piece).toString('hex')}`)
  }
  return lines
}
