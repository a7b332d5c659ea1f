/**
 * Whoever may have an image, each in a process of its own: a program with the emulator in it, the
 * command, and the native runtime's memory.
 */

import { fileURLToPath } from 'node:url'
import { Runtime } from '../board/runtime.ts'
import { Harness } from '../native/harness.ts'

const DIST = fileURLToPath(new URL('../../../dist/', import.meta.url))

const PROGRAM = `
const [path] = process.argv.slice(1)
const { openNvdimm } = await import(${JSON.stringify(`${DIST}emulator.js`)})
try {
  const nvdimm = openNvdimm({ path })
  process.on('SIGTERM', () => {
    nvdimm.backing.close()
    process.exit(0)
  })
  setInterval(() => {}, 1000)
  console.log('it has it')
} catch (error) {
  console.error(error.message)
  process.exit(1)
}`

export interface Holder {
  readonly pid: number
  /** In order, as a user would end it. */
  end(): Promise<unknown>
  kill(): Promise<unknown>
}

/** Opens the image at that path. Rejects with what it said where it is refused. */
export type Opens = (path: string) => Promise<Holder>

function inNode(what: string, args: readonly string[], environment: Keys): Promise<Holder> {
  const runtime = new Runtime(what, process.execPath, args, DIST, undefined, environment)
  const holder: Holder = {
    pid: runtime.process.pid!,
    end: () => runtime.end('SIGTERM'),
    kill: () => runtime.end('SIGKILL'),
  }
  return runtime.line().then(() => holder)
}

type Keys = Readonly<Record<string, string>>

/** `environment` is what its process finds: a PATH without programs, say. */
export function emulatorHolds(path: string, environment: Keys = {}): Promise<Holder> {
  return inNode('the emulator', ['--input-type=module', '-e', PROGRAM, path], environment)
}

export function commandHolds(path: string): Promise<Holder> {
  const args = ['perdure.js', 'emulate', path, '--udp', '127.0.0.1:0']
  return inNode('the command', args, {})
}

/** With the bytes from `at` on, as many, of a program compiled from `machine-harness.c`. */
export function nativeHolds(program: string, ...options: string[]): Opens {
  return async (path) => {
    const harness = new Harness(program, ['talk', `part=${path}`, 'development', ...options])
    await harness.line()
    return { pid: harness.pid, end: () => harness.end(), kill: () => harness.kill() }
  }
}
