/**
 * `npm run test:interop`: unmodified Linux clients against the firmware bundle in QuickJS.
 *
 * Invariants:
 * - The guest's kernel, its soft-RoCE module and the RDMA libraries are Debian's, unchanged, but
 *   for a second guest with the module mended (mended.ts); the firmware is `dist/firmware.js`, the
 *   emulated card is `perdure emulate` in a process of its own.
 * - Both cards have peers: the clients of RDMA-CM have no sessions, and get what is published for
 *   them; the host driver is the admin.
 * - Every client's time is limited. Whatever happens, the processes that were started are ended.
 * - Exit codes: 0 everything passed, 1 something failed, 2 a wrong command line, 3 it could not be
 *   run for want of something, a program or a mirror.
 */

import { randomInt } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { writeKeyFile } from '../../boards/software/key-file.ts'
import { createKeyPair } from '../../boards/software/keys.ts'
import { Missing, NOT_HERE, Trouble } from '../../boards/tools/debian/programs.ts'
import { hasHelped } from '../support/bench/bench-arguments.ts'
import { Cases, casesOfMended, PORTS } from './cases.ts'
import { needPrograms } from './debian.ts'
import { DpuProcess } from './dpu-process.ts'
import { Guest } from './guest.ts'
import { type GuestImage, guestImage, isCached } from './image.ts'
import { LOSSES } from './losses.ts'
import { casesOfNvdimms } from './nvdimm.ts'
import { PAIRS } from './pairs.ts'
import { Protection } from './protection.ts'
import { Relay } from './relay.ts'
import { type Outcome, tableOf } from './table.ts'
import { Tap } from './tap.ts'

const DIST = dirname(fileURLToPath(import.meta.url))
const HERE = join(DIST, '../test/interop')
const COMMAND = join(DIST, 'perdure.js')
const PERDURED = join(DIST, 'linux/x86-64/perdured')
const PAGE = join(DIST, '../boards/doc/protected-links.md')

const USAGE = `npm run test:interop -- [--keep FOLDER] [--only TEXT] [--verbose]
  --keep FOLDER   leave there: the NVDIMM image, and captures of both cards (pcap, for Wireshark)
  --only TEXT     the cases with that in their names, and nothing that others prepare
  --verbose       every line that a client says`

const FAILED = 1
const WRONG = 2
const INTERRUPTED = 130

function say(line: string): void {
  process.stderr.write(`${(performance.now() / 1000).toFixed(1).padStart(6)} s  ${line}\n`)
}

/** What the files of both cards are called. */
const NAMES = ['dpu', 'strict'] as const

/** The admin of both cards, whose key the host driver and the command find by themselves. */
function drawAdmin(work: string): void {
  const key = join(work, 'admin.key')
  rmSync(key, { force: true })
  writeKeyFile(key, createKeyPair().secret)
  process.env.PERDURE_KEY = key
}

/** The card under test, or with `strict` the one that refuses the FLUSH of Linux. */
function startDpu(work: string, strict: boolean): DpuProcess {
  const name = NAMES[strict ? 1 : 0]
  const network = strict ? ['--ip', '10.0.1.2', '--ip', 'fd00:1::2', '--strict-icrc'] : []
  const host = ['--persistent', '2M', '--ddio']
  const cached = ['--publish', `${PORTS.streamBytes}@${PORTS.through},write-persist,through`]
  const ports = strict ? [PORTS.librpmaFlush] : PORTS.published
  // What an earlier run left there may be of another firmware.
  for (const file of ['nvdimm', 'nvdimm.condition', 'key']) {
    rmSync(join(work, `${name}.${file}`), { force: true })
  }
  return new DpuProcess(COMMAND, [
    ...[join(work, `${name}.nvdimm`), '--create', '--size', '16M', ...network],
    ...['--netdev', `unix:${join(work, name)}`, '--udp', '127.0.0.1:0'],
    ...['--capture', join(work, `${name}.pcap`), '--key', join(work, `${name}.key`)],
    ...ports.flatMap((port) => ['--publish', `${PORTS.bytes}@${port}`]),
    ...['--publish', `${PORTS.streamBytes}@${PORTS.stream}`],
    ...['--publish', `${LOSSES.bytes}@${LOSSES.port}`],
    ...['--publish', `${PORTS.streamBytes}@${PORTS.persisted},write-persist`],
    ...['--publish', `${PORTS.streamBytes}@${PORTS.plain}`, '--region', PAIRS.region],
    ...(strict ? [] : [...host, ...cached]),
  ])
}

interface Setting {
  readonly image: GuestImage
  readonly work: string
  readonly dpus: readonly [DpuProcess, DpuProcess]
  /** Where the host driver finds both cards. */
  readonly addresses: readonly [string, string]
  /** The wires between the guests and both cards. */
  readonly relays: readonly [Relay, Relay]
  readonly verbose: boolean
  readonly only: string
}

/** Starts a guest with one of the two soft-RoCE modules, and tries what is to be tried with it. */
async function runGuest(setting: Setting, module: 'mended' | 'stock'): Promise<readonly Outcome[]> {
  const { image, work, dpus, addresses, relays, verbose, only } = setting
  const [address, strictAddress] = addresses
  say(`starting the guest, soft-RoCE ${module === 'stock' ? 'as it is' : 'mended'}`)
  const guest = new Guest(image, [join(work, 'wire'), join(work, 'strict-wire')], module)
  try {
    const { kernel, seconds } = await guest.ready()
    say(`the guest is up after ${seconds} s of its time: Linux ${kernel}`)
    const talk = verbose ? say : (): void => {}
    const own = module === 'stock' ? 0 : 1
    const stage = {
      ...{ image, guest, dpu: dpus[own], address, strictAddress, relay: relays[own], talk, only },
      ...{ nvdimm: join(work, `${NAMES[own]}.nvdimm`), command: COMMAND },
    }
    return module === 'mended' ? await casesOfMended(stage) : await new Cases(stage).run()
  } finally {
    await guest.stop()
  }
}

/** Two guests more, the wire between them, and the card behind the second one. */
async function runProtected(setting: Setting): Promise<readonly Outcome[]> {
  const { image, work, dpus, verbose, only } = setting
  say('starting two guests, to protect the wire between them')
  const paths = { client: join(work, 'tap'), gate: join(work, 'gate-tap') }
  const tap = new Tap(paths)
  const guests = {
    client: new Guest(image, [paths.client], 'stock'),
    gate: new Guest(image, [paths.gate, join(work, NAMES[0])], 'stock'),
  }
  try {
    await Promise.all([guests.client.ready(), guests.gate.ready()])
    const stage = {
      ...{ guests, tap, dpu: dpus[0], nvdimm: join(work, `${NAMES[0]}.nvdimm`), only },
      ...{ page: readFileSync(PAGE, 'utf8'), port: PORTS.verbs },
      talk: verbose ? say : (): void => {},
    }
    return await new Protection(stage).run(image.lacking)
  } finally {
    await Promise.all([guests.client.stop(), guests.gate.stop()])
  }
}

/** perdured in guests with an NVDIMM; nothing where it was not built. */
async function runNvdimms({ image, work, verbose, only }: Setting): Promise<readonly Outcome[]> {
  if (!existsSync(PERDURED)) return []
  say('starting guests with an NVDIMM, for perdured')
  const talk = verbose ? say : (): void => {}
  const programs = { perdured: PERDURED, bundle: join(DIST, 'firmware.js') }
  return casesOfNvdimms({ image, work, ...programs, talk, only })
}

async function runCases(
  image: GuestImage,
  work: string,
  verbose: boolean,
  only: string,
): Promise<readonly Outcome[]> {
  drawAdmin(work)
  const dpus = [startDpu(work, false), startDpu(work, true)] as const
  const seed = Number(process.env.SEED ?? randomInt(2 ** 32))
  say(`frames are lost by SEED=${seed}`)
  try {
    const [one, other] = [await dpus[0].next('address'), await dpus[1].next('address')]
    const addresses = [one.address as string, other.address as string] as const
    const relays = [
      new Relay(join(work, 'wire'), join(work, 'dpu'), seed),
      new Relay(join(work, 'strict-wire'), join(work, 'strict'), seed),
    ] as const
    const setting = { image, work, dpus, addresses, relays, verbose, only }
    const stock = await runGuest(setting, 'stock')
    // What is tried with the other guest says so in its name.
    if (only !== '' && stock.length > 0) return stock
    const mended = await runGuest(setting, 'mended')
    if (only !== '' && mended.length > 0) return mended
    const nvdimms = await runNvdimms(setting)
    if (only !== '' && nvdimms.length > 0) return nvdimms
    return [...stock, ...mended, ...nvdimms, ...(await runProtected(setting))]
  } finally {
    for (const dpu of dpus) await dpu.stop()
  }
}

function report(image: GuestImage, outcomes: readonly Outcome[]): number {
  if (outcomes.length === 0) {
    process.stderr.write('test:interop: no case has that in its name\n')
    return WRONG
  }
  for (const line of tableOf(outcomes)) process.stdout.write(`${line}\n`)
  const { versions, examples, lacking } = image
  const told = /^(linux-image|libibverbs1|librdmacm1|librpma0)/
  process.stdout.write(`\nguest: ${versions.filter((one) => told.test(one)).join(', ')}\n`)
  for (const name of lacking) {
    process.stdout.write(`${name} was not tried: the guest's kernel has not all of its modules\n`)
  }
  if (!existsSync(PERDURED)) {
    process.stdout.write(
      `perdured was not tried on an NVDIMM: node build.mjs --board linux makes it\n`,
    )
  }
  if (examples !== true) process.stdout.write(`librpma's own examples were not run: ${examples}\n`)
  const failed = outcomes.filter(({ failures }) => failures.length > 0).length
  const of = image.cached ? 'guest from the cache' : 'guest made again'
  process.stdout.write(
    `${outcomes.length - failed} passed, ${failed} failed; ` +
      `${(performance.now() / 1000).toFixed(0)} s, ${of}\n`,
  )
  return failed === 0 ? 0 : FAILED
}

async function main(): Promise<number> {
  if (hasHelped(process.argv.slice(2), `${USAGE}\n`)) return 0
  const text = { type: 'string' } as const
  const options = { keep: text, only: text, verbose: { type: 'boolean' } } as const
  const { values } = parseArgs({ options })
  if (process.arch !== 'x64') {
    throw new Missing(`the guest's programs are compiled for amd64, and this is ${process.arch}`)
  }
  needPrograms(!isCached(HERE), say)
  const image = guestImage(HERE, say)
  const keep = values.keep === undefined ? null : resolve(values.keep)
  if (keep !== null) mkdirSync(keep, { recursive: true })
  // A socket's path has room for some hundred bytes: short, wherever the repository is.
  const work = keep ?? mkdtempSync(join(tmpdir(), 'perdure-interop-'))
  process.once('exit', () => {
    if (keep === null) rmSync(work, { recursive: true, force: true })
  })
  const code = report(
    image,
    await runCases(image, work, values.verbose === true, values.only ?? ''),
  )
  if (keep !== null) say(`kept in ${keep}: dpu.pcap, strict.pcap, dpu.nvdimm`)
  return code
}

// An exit ends the processes that were started, and clears up; a signal alone would not.
process.once('SIGINT', () => process.exit(INTERRUPTED))
process.once('SIGTERM', () => process.exit(INTERRUPTED))

try {
  process.exitCode = await main()
} catch (error) {
  const isUsage = (error as { code?: string }).code?.startsWith('ERR_PARSE_ARGS') === true
  if (!(error instanceof Trouble) && !isUsage) throw error
  process.stderr.write(`test:interop: ${(error as Error).message}\n${isUsage ? `${USAGE}\n` : ''}`)
  process.exitCode = isUsage ? WRONG : error instanceof Missing ? NOT_HERE : FAILED
}
