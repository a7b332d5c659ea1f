/**
 * `perdure flash FILE --port PORT`: brings new firmware to a card, tries it, and confirms it. And
 * `flash list | test | confirm | revert | reset | monitor`, the steps by themselves.
 *
 * Invariant: whatever a card says is shown without what a terminal would obey. A port is
 * closed whatever a step came to.
 */

import { type Command, Option } from 'commander'
import { SMP_PORT, SMP_WAY } from '../../../boards/flash/smp-packet.ts'
import { ArgumentError } from '../../base/errors.ts'
import { FlashTarget, type Slot } from '../../flash/card.ts'
import { SmpClient, SmpRefusal } from '../../flash/smp-client.ts'
import { linePort, type SmpPort, udpPort } from '../../flash/smp-port.ts'
import { wholeNumber } from '../base/arguments.ts'
import { OK } from '../base/exit-codes.ts'
import { BAUD, openLine } from '../base/line.ts'
import { Output } from '../base/output.ts'
import { restart, running, slotFields, stage, told, trialOf } from './flash-stages.ts'
import { type WriteOptions, write } from './flash-write.ts'

const UDP = 'udp:'
const GIVE = `a port is a serial line as /dev/ttyUSB0, unix:PATH, or udp:HOST[:${SMP_PORT}]`
const TIMEOUT_MS = 2000
/** What a timer takes. */
const TIMEOUT_MS_MAX: number = 2 ** 31 - 1

interface PortOptions {
  readonly port: string
  readonly baud: number
  readonly timeout: number
  readonly json?: boolean
}

type FlashOptions = PortOptions & WriteOptions

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
    .option('--target <target>', 'perdure://HOST: confirm when its records can be read there')
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

/** A serial line, a Unix socket, the console of rshim, or UDP; also as a card prints it. */
export async function openPort(options: Pick<PortOptions, 'port' | 'baud'>): Promise<SmpPort> {
  const { port: given, baud } = options
  const port = given.startsWith(SMP_WAY) ? given.slice(SMP_WAY.length) : given
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
    if (error instanceof SmpRefusal) error.message = `${port} refuses: ${error.message}`
    throw error
  } finally {
    client.close()
  }
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

async function monitor(port: SmpPort, output: Output): Promise<void> {
  await new Promise<void>((resolve) => {
    port.onText = (text) => output.print(text)
    port.onEnd = () => resolve()
    process.once('SIGINT', () => {
      port.close()
      resolve()
    })
  })
}
