/**
 * `npm run board:qemu`: an arm64 virtual machine with an NVDIMM that serves, and takes firmware,
 * until it is told to stop.
 *
 * Invariants:
 * - Where it is reached is all that goes to stdout; with --json one object, and one per reset.
 * - SIGINT and SIGTERM stop perdured and the machine behind it; SIGUSR2 resets the machine, as a
 *   power cut does. Everything that was acknowledged is in the part's file, however it ends.
 */

import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import { CPUS, type CpuName, type Settings } from '../../../boards/qemu-virt/configuration.ts'
import { type Image, prepareImage, RUNTIME } from '../../../boards/qemu-virt/image.ts'
import { type Stage, VirtualMachine } from '../../../boards/qemu-virt/machine.ts'
import { Trouble } from '../../../boards/tools/debian/programs.ts'
import type { RegionRequest } from '../../control/management.ts'
import { regionRequest, size } from '../base/arguments.ts'
import { exitCodeOf, LOST, OK, UNAVAILABLE, USAGE } from '../base/exit-codes.ts'
import { Output } from '../base/output.ts'
import { bytesText } from '../base/table.ts'
import { type Address, udpAddress } from '../emulate/emulate-options.ts'
import { developmentKey, publicPath } from '../flash/signing-key.ts'
import { check, withDpu } from './check.ts'

interface Options {
  readonly memory?: string
  readonly size?: number
  readonly cpu: CpuName
  readonly udp: Address
  readonly console?: string
  readonly region?: readonly RegionRequest[]
  readonly window?: string
  readonly windowSize: number
  readonly set?: Settings
  readonly check?: boolean
  readonly json?: boolean
}

const HELP = `
New firmware comes by SMP, where it says when it serves, or over the serial line:
  npx perdure image create --board qemu-virt --out next.bin
  npx perdure flash next.bin --port udp:127.0.0.1:PORT
It trusts your own key, which signs images where no other one is named, and that of the bundle.
Signals: SIGINT and SIGTERM stop it; SIGUSR2 resets the machine, as a power cut does.
Exit codes: 0 fine, 1 a record was lost, 64 usage, 69 it cannot be had or does not come up.`

/** Where the host driver looks unless told otherwise. */
const UDP: Address = { host: '127.0.0.1', port: 4791 }

function setting(text: string, before: Settings = {}): Settings {
  const match = /^([a-z][a-z0-9-]*)=(.*)$/.exec(text)
  if (match === null) throw new InvalidArgumentError('key=value')
  return { ...before, [match[1]!]: match[2]! }
}

function createProgram(): Command {
  const cpu = new Option('--cpu <name>', 'its processor; cortex-a72 is that of BlueField-2')
  const udp = new Option('--udp <address:port>', 'serve the host driver; port 0 for any')
  return new Command('npm run board:qemu --')
    .description('run an arm64 virtual machine with an NVDIMM, which serves until it is stopped')
    .option(
      '--memory <file>',
      'file that holds the NVDIMM, made if it is missing; else of this run',
    )
    .option('--size <bytes>', 'its size, a multiple of 2M, as 64M', size)
    .addOption(cpu.choices(Object.keys(CPUS)).default('neoverse-n1'))
    .addOption(udp.argParser(udpAddress).default(UDP, `${UDP.host}:${UDP.port}`))
    .option('--console <path>', "its serial line: a Unix socket there, or 'pty'")
    .option('--region <name:slots:capacity[:copies]>', 'region to have; repeatable', regionRequest)
    .option('--window <file>', "a host's memory behind PCIe (ivshmem), made if it is not there")
    .option('--window-size <bytes>', 'its size, a power of two', size, 64 * 2 ** 20)
    .option('--set <key=value>', 'a line of perdured.conf; repeatable', setting)
    .option('--check', 'persist a record, kill the machine, read it again; then end')
    .option('--json', 'as JSON objects')
    .addHelpText('after', HELP)
    .exitOverride()
    .action(runBoard)
}

function stageLine({ name, seconds }: Stage): string {
  return `${seconds.toFixed(1).padStart(6)} s  ${name}`
}

/** Formats a part that is new, and makes the regions that were asked for. */
async function prepare(machine: VirtualMachine, regions: readonly RegionRequest[]): Promise<void> {
  await withDpu(machine.target, async (dpu) => {
    const { state } = await dpu.status()
    if (state === 'blank' && machine.made) await dpu.format()
    for (const request of regions) await dpu.provision(request)
  })
}

/** What is told of a machine that serves. */
async function describe(machine: VirtualMachine): Promise<Record<string, unknown>> {
  const bundle = createHash('sha256').update(readFileSync(RUNTIME.firmware)).digest('hex')
  const part = await withDpu(machine.target, (dpu) => dpu.status())
  const { target: address, tunnel, smp, console, stages } = machine
  return { address, tunnel, smp, console, bundle, stages, part }
}

async function announce(machine: VirtualMachine, output: Output): Promise<void> {
  const about = await describe(machine)
  if (output.json) {
    output.printJson(about)
    return
  }
  const { state, incarnation } = about.part as { state: string; incarnation: number }
  output.say(`virtual machine, ${bytesText(machine.partBytes)}, ${state}, life ${incarnation}`)
  output.say(`firmware: SHA-256 ${about.bundle}`)
  output.say(`serial console: ${machine.console}`)
  output.say(`SMP: ${machine.smp}, and the serial console`)
  output.say(`through the machine's kernel: ${machine.tunnel}`)
  output.print(machine.target)
}

/** Resolves at a signal that stops us. */
function stopSignal(): Promise<void> {
  return new Promise((resolve) => {
    process.once('SIGINT', () => resolve())
    process.once('SIGTERM', () => resolve())
  })
}

/** Whether `work` came to its end before the signal did. */
async function isDone(work: Promise<void>, stop: Promise<void>): Promise<boolean> {
  const done = work.then(() => true)
  // Behind a signal nobody waits for it any more, and its machine is gone.
  done.catch(() => {})
  return await Promise.race([done, stop.then(() => false)])
}

/** Serves until the signal; rejects where the machine ends by itself. */
async function serve(machine: VirtualMachine, output: Output, stop: Promise<void>): Promise<void> {
  const failed = new Promise<void>((_resolve, reject) => {
    process.on('SIGUSR2', () => {
      machine
        .reset()
        .then(() => announce(machine, output))
        .catch(reject)
    })
    machine.onEnd = (how) => reject(new Trouble(how))
  })
  await Promise.race([announce(machine, output).then(() => stop), stop, failed])
  machine.onEnd = () => {}
  output.say('stopping')
  await machine.stop()
}

async function checkOnly(machine: VirtualMachine, output: Output): Promise<void> {
  const { stages } = machine
  const result = await check(machine, (line) => output.say(line))
  const good = result.read && result.readAfterKill
  if (output.json) output.printJson({ ...(await describe(machine)), stages, check: result })
  else {
    output.print(`first record: ${result.firstRecordSeconds.toFixed(1)} s after the start of QEMU`)
    output.print(`after a kill: ${result.readAfterKill ? 'the record is there' : 'it is LOST'}`)
  }
  if (!good) process.exitCode = LOST
}

async function runBoard(options: Options): Promise<void> {
  const output = new Output(options.json === true)
  const image = prepareImage((line) => output.say(line), { install: true })
  output.say(`${image.kernel.name}${image.kernel.cached ? ', kept from an earlier run' : ''}`)
  if (options.memory !== undefined) return await runMachine(image, options.memory, options, output)
  const own = mkdtempSync(join(tmpdir(), 'perdure-part-'))
  try {
    await runMachine(image, join(own, 'part'), options, output)
  } finally {
    rmSync(own, { recursive: true, force: true })
  }
}

async function runMachine(
  image: Image,
  memory: string,
  options: Options,
  output: Output,
): Promise<void> {
  const { cpu, udp, console, window, windowSize } = options
  const stop = stopSignal()
  const machine = await VirtualMachine.open({
    ...{ image, cpu, udp, memory, trust: publicPath(developmentKey()) },
    ...(options.size !== undefined && { bytes: options.size }),
    ...(console !== undefined && { console }),
    ...(window !== undefined && { window: { path: window, bytes: windowSize } }),
    ...(options.set !== undefined && { settings: options.set }),
    onStage: (stage) => output.say(stageLine(stage)),
  })
  try {
    output.say('starting QEMU')
    const start = machine.start().then(() => prepare(machine, options.region ?? []))
    if (!(await isDone(start, stop))) return
    if (options.check === true) await isDone(checkOnly(machine, output), stop)
    else await serve(machine, output, stop)
  } finally {
    await machine.close()
  }
}

async function main(argv: readonly string[]): Promise<void> {
  try {
    await createProgram().parseAsync([...argv])
  } catch (error) {
    if (error instanceof CommanderError) {
      process.exitCode = error.exitCode === 0 ? OK : USAGE
      return
    }
    const isTrouble = error instanceof Trouble
    const told = isTrouble ? Object.assign(error, { code: 'BOARD_UNAVAILABLE' }) : error
    new Output(argv.includes('--json')).fail(told)
    process.exitCode = isTrouble ? UNAVAILABLE : exitCodeOf(error)
  }
}

await main(process.argv)
