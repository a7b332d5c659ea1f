/**
 * `perdure flash FILE --port PORT`: brings new firmware to a card, tries it, and confirms it. And
 * `flash list | test | confirm | revert | reset | monitor`, the steps by themselves.
 *
 * What always holds: nothing is marked that the card has not looked at whole; what is confirmed is
 * what has run. Where it ends in the middle it says what to do next, and the same command goes on.
 */

import { readFileSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { type Command, Option } from 'commander'
import { type Opened, openImage } from '../../boards/flash/check-image.ts'
import { TLV_KEY_HASH, tlvValue, versionText } from '../../boards/flash/mcuboot.ts'
import { SMP_PORT } from '../../boards/flash/smp-packet.ts'
import { ArgumentError, PerdureError } from '../errors.ts'
import { FlashTarget, plainText, type Slot } from '../flash/card.ts'
import { SmpClient, SmpRefusal } from '../flash/smp-client.ts'
import { linePort, type SmpPort, udpPort } from '../flash/smp-port.ts'
import { wholeNumber } from './arguments.ts'
import { BUSY, DATA, OK } from './exit-codes.ts'
import { inFile } from './image.ts'
import { BAUD, openLine } from './line.ts'
import { Output } from './output.ts'
import { shortHash } from './signing-key.ts'
import { checkFile } from './system-errors.ts'

const UDP = 'udp:'
const GIVE = `a port is a serial line as /dev/ttyUSB0, unix:PATH, or udp:HOST[:${SMP_PORT}]`
const TIMEOUT_MS = 2000
/** What a timer takes. */
const TIMEOUT_MS_MAX: number = 2 ** 31 - 1
/** How long a card may take from a reset until it answers again, ms, and between two looks. */
const RESTART_MS = 60_000
const LOOK_MS = 200
/** Progress that is told where no terminal is, of a whole. */
const TOLD_SHARE = 0.1

interface PortOptions {
  readonly port: string
  readonly baud: number
  readonly timeout: number
  readonly json?: boolean
}

interface FlashOptions extends PortOptions {
  readonly confirm: boolean
  readonly reset: boolean
  readonly dryRun?: boolean
  readonly force?: boolean
}

type Step = (card: FlashTarget, output: Output) => Promise<number>

const STEPS: readonly (readonly [name: string, does: string, step: Step])[] = [
  ['list', 'show what is in the slots', list],
  ['test', 'mark what slot 1 holds for a test, at the next start', test],
  ['confirm', 'what runs on trial stays', confirm],
  ['revert', 'go back to what is in slot 1', revert],
  ['reset', 'end what runs, and start by the slots', reset],
]

export function addFlash(program: Command): void {
  const flash = program.command('flash').description('bring new firmware to a card')
  withPort(flash.command('write', { isDefault: true }))
    .description('upload an image, try it, and confirm it; this is the default')
    .argument('<file>', 'an image, as `perdure image create` makes it')
    .option('--no-confirm', 'leave it on trial')
    .option('--no-reset', 'mark it for a test, and leave the card as it is')
    .option('--dry-run', 'show what would be done')
    .option('--force', 'though it runs already')
    .action(async (file: string, options: FlashOptions) => {
      process.exitCode = await onCard(options, (card, output) => write(card, output, file, options))
    })
  for (const [name, does, step] of STEPS) {
    withPort(flash.command(name))
      .description(does)
      .action(async (options: PortOptions) => {
        process.exitCode = await onCard(options, step)
      })
  }
  withPort(flash.command('monitor'))
    .description('show the text of the line until it ends')
    .action(async (options: PortOptions) => {
      const port = await openPort(options)
      await monitor(port, new Output(options.json ?? false))
    })
}

function withPort(command: Command): Command {
  return command
    .addOption(
      new Option('--port <port>', 'unix:PATH, udp:HOST[:1337], /dev/rshim0/console, a serial line')
        .env('PERDURE_PORT')
        .makeOptionMandatory(),
    )
    .option('--baud <n>', 'speed of a serial line', wholeNumber(1), BAUD)
    .option(
      '--timeout <ms>',
      'wait for an answer before it is asked again',
      wholeNumber(1, TIMEOUT_MS_MAX),
      TIMEOUT_MS,
    )
    .option('--json', 'one JSON object for each stage')
}

/** A serial line, a Unix socket, the console of rshim, or UDP. */
async function openPort({ port, baud }: PortOptions): Promise<SmpPort> {
  if (port.startsWith(UDP)) return await udpPort(port.slice(UDP.length))
  return linePort(await openLine(port, baud, GIVE))
}

async function onCard(options: PortOptions, step: Step): Promise<number> {
  const { port, timeout, json = false } = options
  const way = await openPort(options)
  const client = new SmpClient(way, port, timeout)
  try {
    return await step(new FlashTarget(client, way.packetBytes), new Output(json))
  } catch (error) {
    if (error instanceof SmpRefusal) error.message = `${port} refuses: ${plainText(error.message)}`
    throw error
  } finally {
    client.close()
  }
}

/** A stage that is done, for people or for programs. */
function stage(output: Output, name: string, text: string, fields: object = {}): void {
  if (output.json) output.printJson({ stage: name, ...fields })
  else output.print(`${name.padEnd(9)} ${text}`)
}

function told(slot: Slot): string {
  const flags = (['active', 'confirmed', 'pending', 'permanent'] as const).filter(
    (one) => slot[one],
  )
  return `${slot.version.padEnd(10)} ${shortHash(slot.hash)}  ${flags.join(' ')}`.trimEnd()
}

function slotFields({ hash, ...rest }: Slot): object {
  return { ...rest, hash: Buffer.from(hash).toString('hex') }
}

async function list(card: FlashTarget, output: Output): Promise<number> {
  const slots = await card.list()
  const about = await card.about()
  if (output.json) {
    output.printJson({ slots: slots.map(slotFields), card: about })
    return OK
  }
  for (const slot of slots) output.print(`slot ${slot.slot}    ${told(slot)}`)
  if (slots.length === 0) output.print('no slot holds an image: the card runs what it came with')
  if (about === null) return OK
  const { board, counter, format, left, reason } = about
  output.print(`card      ${board}, counter ${counter}, format of its part ${format || 'unknown'}`)
  if (left > 0) output.print(`trial     it goes back in ${left} s unless it is confirmed`)
  if (reason !== '') output.print(`reason    ${reason}`)
  return OK
}

async function test(card: FlashTarget, output: Output): Promise<number> {
  const marked = second(await card.list())
  await card.test(marked.hash)
  stage(output, 'marked', `${told(marked)}: the next start tries it`, slotFields(marked))
  return OK
}

function running(slots: readonly Slot[]): Slot | undefined {
  return slots.find(({ active }) => active)
}

/** What runs on trial. */
function trialOf(slots: readonly Slot[]): Slot | undefined {
  return slots.find(({ active, confirmed }) => active && !confirmed)
}

function isSame(one: Uint8Array, other: Uint8Array): boolean {
  return Buffer.compare(one, other) === 0
}

function second(slots: readonly Slot[]): Slot {
  const found = slots.find(({ active }) => !active)
  if (found !== undefined) return found
  throw new ArgumentError('slot 1 holds no image: `perdure flash FILE` brings one')
}

async function confirm(card: FlashTarget, output: Output): Promise<number> {
  const runs = running(await card.confirm())
  if (runs === undefined) throw new ArgumentError('the card runs what it came with: nothing to do')
  stage(output, 'confirmed', runs.version, slotFields(runs))
  return OK
}

/** On trial a start goes back by itself; else what is in slot 1 is tried. */
async function revert(card: FlashTarget, output: Output): Promise<number> {
  const slots = await card.list()
  const onTrial = trialOf(slots) !== undefined
  if (!onTrial) await card.test(second(slots).hash)
  await restart(card, output)
  const runs = running(await card.list())
  const trial = onTrial ? '' : ': on trial, confirm it'
  stage(output, 'reverted', `${runs?.version ?? 'what it came with'}${trial}`)
  return OK
}

async function reset(card: FlashTarget, output: Output): Promise<number> {
  await restart(card, output)
  return OK
}

/** Resets the card, and waits until it answers again. */
async function restart(card: FlashTarget, output: Output): Promise<void> {
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

async function monitor(port: SmpPort, output: Output): Promise<void> {
  await new Promise<void>((resolve) => {
    port.onText = (text) => output.print(plainText(text))
    port.onEnd = () => resolve()
    process.once('SIGINT', () => {
      port.close()
      resolve()
    })
  })
}

async function write(
  card: FlashTarget,
  output: Output,
  file: string,
  options: FlashOptions,
): Promise<number> {
  checkFile(file)
  const bytes = new Uint8Array(readFileSync(file))
  const opened = inFile(file, () => openImage(bytes))
  const slots = await card.list()
  sayPlan(output, slots, opened)
  const busy = busyWith(slots)
  if (busy !== null) {
    stage(output, 'busy', busy)
    return BUSY
  }
  const { hash } = opened.image
  const runs = running(slots)
  const isEqual = runs !== undefined && isSame(runs.hash, hash)
  if (isEqual && options.force !== true) {
    stage(output, 'equal', `${runs.version} runs already`, slotFields(runs))
    return OK
  }
  if (options.dryRun === true) {
    output.say('--dry-run: it would be uploaded, tried and confirmed')
    return OK
  }
  await uploadTo(card, output, bytes)
  if (isEqual) return OK
  await card.test(hash)
  if (!options.reset) {
    stage(output, 'marked', 'the next start tries it')
    return OK
  }
  await restart(card, output)
  return await tried(card, output, hash, options)
}

function sayPlan(output: Output, slots: readonly Slot[], { image, payload }: Opened): void {
  for (const slot of slots.filter(({ active }) => active)) {
    stage(output, 'runs', told(slot), slotFields(slot))
  }
  const { counter, formats } = payload.manifest
  const name = tlvValue(image, TLV_KEY_HASH)
  const by = name === null ? 'nobody' : shortHash(name)
  const version = versionText(image.version)
  const words = `signed by ${by}, counter ${counter}, formats ${[...new Set(formats)].join(' to ')}`
  const hash = Buffer.from(image.hash).toString('hex')
  stage(output, 'image', `${version.padEnd(10)} ${shortHash(image.hash)}  ${words}`, {
    version,
    hash,
  })
}

/** Why nothing can be uploaded now; null if it can. */
function busyWith(slots: readonly Slot[]): string | null {
  const trial = trialOf(slots)
  if (trial !== undefined) return `${trial.version} is on trial: confirm or revert it`
  const marked = slots.find(({ pending }) => pending)
  return marked === undefined ? null : `${marked.version} is marked for the next start: reset first`
}

async function uploadTo(card: FlashTarget, output: Output, bytes: Uint8Array): Promise<void> {
  const from = performance.now()
  let begun = -1
  let toldAt = 0
  await card.upload(bytes, (done) => {
    if (begun < 0) begun = done
    const rate = (done - begun) / ((performance.now() - from) / 1000)
    const left = rate > 0 ? `, ${Math.ceil((bytes.length - done) / rate)} s left` : ''
    const text = `upload, ${(rate / 1000).toFixed(1)} kB/s${left}`
    output.progress(text, done, bytes.length)
    if (process.stderr.isTTY || done < toldAt * bytes.length) return
    toldAt = Math.floor(done / bytes.length / TOLD_SHARE) * TOLD_SHARE + TOLD_SHARE
    const percent = Math.floor((100 * done) / bytes.length)
    if (output.json) output.printJson({ stage: 'upload', done, bytes: bytes.length })
    else output.say(`upload    ${percent} %`)
  })
  const seconds = (performance.now() - from) / 1000
  const rate = `${((bytes.length - Math.max(begun, 0)) / seconds / 1000).toFixed(1)} kB/s`
  stage(output, 'verified', `${bytes.length} bytes, ${rate}: the card has the same SHA-256`, {
    bytes: bytes.length,
    seconds,
  })
}

/** Behind the restart: does it pass its self-test, and does it stay? */
async function tried(
  card: FlashTarget,
  output: Output,
  hash: Uint8Array,
  { confirm: stays }: FlashOptions,
): Promise<number> {
  const from = performance.now()
  while ((await isUnderWay(card, hash)) && performance.now() - from < RESTART_MS) {
    await setTimeout(LOOK_MS)
  }
  const about = await card.about()
  const slots = stays ? await confirmed(card) : await card.list()
  const runs = running(slots)
  if (runs === undefined || !isSame(runs.hash, hash)) {
    const reason = (await card.about())?.reason ?? 'the card does not say why'
    const version = runs?.version ?? 'what it came with'
    stage(output, 'reverted', `${reason}; ${version} serves again`, { reason })
    return DATA
  }
  if (stays) {
    stage(output, 'confirmed', runs.version, slotFields(runs))
    return OK
  }
  const left = about === null ? '' : ` It goes back in ${about.left} s.`
  stage(output, 'trial', `${runs.version} runs: 'perdure flash confirm' keeps it.${left}`)
  return OK
}

/** It is not started yet, or its self-test is not over. */
async function isUnderWay(card: FlashTarget, hash: Uint8Array): Promise<boolean> {
  const isMarked = (await card.list()).some((one) => one.pending && isSame(one.hash, hash))
  return isMarked || (await card.about())?.tested === false
}

/** The slots when what is on trial is confirmed, or is there no more. */
async function confirmed(card: FlashTarget): Promise<Slot[]> {
  const slots = await card.list()
  return trialOf(slots) === undefined ? slots : await card.confirm()
}
