/**
 * `perdure emulate [IMAGE]`: an emulated DPU that serves over UDP until it is told to stop.
 *
 * What always holds: the address is the only thing on stdout; SIGINT and SIGTERM take the power
 * away between two bursts, and everything that was acknowledged is in the image.
 */

import { existsSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import type { Command } from 'commander'
import {
  EmulatedDpu,
  type Engine,
  Link,
  Nvdimm,
  openNvdimm,
  openTunnel,
  RealClock,
} from '../../boards/emulator/index.ts'
import { connect } from '../connect.ts'
import type { Dpu } from '../dpu.ts'
import { ArgumentError, RefusedError } from '../errors.ts'
import type { RegionRequest } from '../management.ts'
import { TUNNEL_PORT } from '../udp.ts'
import type { Wire } from '../wire.ts'
import { engineOption, probability, regionRequest, size, wholeNumber } from './arguments.ts'
import { Output } from './output.ts'
import { sayReport } from './report.ts'
import { bytesText } from './table.ts'

interface Options {
  readonly host: string
  readonly port: number
  readonly size?: number
  readonly create?: boolean
  readonly region?: readonly RegionRequest[]
  readonly engine: Engine
  readonly loss: number
  readonly duplication: number
  readonly reordering: number
  readonly corruption: number
  readonly seed: number
  readonly json?: boolean
}

const SIZE = 64 * 2 ** 20

/** Time given to the card before its power goes, so that it can do its lazy work. */
const FAREWELL_MS = 20

export function addEmulate(program: Command): void {
  program
    .command('emulate')
    .description('run an emulated DPU that serves over UDP')
    .argument('[image]', 'NVDIMM image; without one the part lives in memory')
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--port <port>', 'UDP port, 0 for any', wholeNumber(0), TUNNEL_PORT)
    .option('--size <bytes>', 'size of a part that is made, as 64M', size)
    .option('--create', 'make the image if it is not there, and format a blank part')
    .option('--region <name:slots:capacity[:copies]>', 'region to have; repeatable', regionRequest)
    .addOption(engineOption().default('quickjs'))
    .option('--loss <p>', 'probability that a frame is lost', probability, 0)
    .option('--duplication <p>', 'probability that a frame comes twice', probability, 0)
    .option('--reordering <p>', 'probability that a frame is overtaken', probability, 0)
    .option('--corruption <p>', 'probability of a flipped bit', probability, 0)
    .option('--seed <n>', 'decides everything that looks like chance', wholeNumber(0), 0)
    .option('--json', 'the address and the recovery report as one JSON object')
    .action(emulate)
}

function openPart(image: string | undefined, options: Options): Nvdimm {
  if (image === undefined) return new Nvdimm({ bytes: options.size ?? SIZE })
  const make = options.create === true && !existsSync(image)
  const bytes = make ? (options.size ?? SIZE) : options.size
  return openNvdimm({ path: image, ...(bytes === undefined ? {} : { bytes }) })
}

async function emulate(image: string | undefined, options: Options): Promise<void> {
  if (image !== undefined && !existsSync(image) && options.create !== true) {
    throw new ArgumentError(`${image} is not there: --create makes it`)
  }
  const output = new Output(options.json === true)
  const nvdimm = openPart(image, options)
  const clock = new RealClock()
  try {
    await serve(output, nvdimm, clock, {
      ...options,
      create: image === undefined || options.create,
    })
  } finally {
    clock.close()
    nvdimm.backing?.close()
  }
}

async function serve(
  output: Output,
  nvdimm: Nvdimm,
  clock: RealClock,
  options: Options,
): Promise<void> {
  const { host, port, seed, engine, loss, duplication, reordering, corruption } = options
  const faults = { loss, duplication, reordering, corruption }
  const link = new Link({ clock, seed, faults })
  const tunnel = await openTunnel({ host, port, receive: (frame) => link.send('a', frame) })
  let stopped: (error: Error) => void = () => {}
  const card = new EmulatedDpu({
    nvdimm,
    clock,
    engine,
    seed,
    transmit: (frame) => link.send('b', frame),
    onStopped: (error) => stopped(error),
  })
  try {
    const { wire } = new LoopbackSwitch(link, clock, (frame) => tunnel.send(frame))
    link.attach('b', (frame) => card.deliver(frame))
    await card.powerOn()
    const setup = await connect(wire, { seed: seed + 1 })
    await prepare(setup, options)
    await announce(output, setup, `perdure://${hostText(host)}:${tunnel.port}`, nvdimm)
    await setup.close()
    await stopSignal((reject) => {
      stopped = reject
    })
    output.say('stopping')
  } finally {
    await tunnel.close()
    await setTimeout(FAREWELL_MS)
    if (card.isOn) card.powerCut({ strategy: 'all' })
  }
}

/** Formats a blank part where that is wanted, and makes the regions that were named. */
async function prepare(dpu: Dpu, { region = [], create = false }: Options): Promise<void> {
  const { state, fault } = await dpu.status()
  if (state === 'refused')
    throw new RefusedError(fault ?? 'NOT_SERVING', 0, 'this part cannot serve')
  if (state === 'blank' && create) await dpu.format()
  for (const request of region) await dpu.provision(request)
}

async function announce(output: Output, dpu: Dpu, address: string, part: Nvdimm): Promise<void> {
  const status = await dpu.status()
  const serving = status.state === 'serving'
  const regions = serving ? await dpu.regions() : []
  const report = serving ? await dpu.report() : []
  if (output.json) {
    const names = regions.map((region) => region.name)
    output.printJson({ address, part: status, regions: names, report })
    return
  }
  const { state, incarnation } = status
  output.say(`emulated DPU, ${bytesText(part.bytes)}, ${state}, incarnation ${incarnation}`)
  for (const one of regions) {
    output.say(`  region '${one.name}': ${one.slots} x ${one.capacity} B, ${one.copies} copies`)
  }
  if (serving) sayReport(output, status, report, regions, (line) => output.say(line))
  output.print(address)
}

function hostText(host: string): string {
  return host.includes(':') ? `[${host}]` : host
}

/** Resolves at a signal; whoever is given `reject` may end the wait with an error. */
function stopSignal(give: (reject: (error: Error) => void) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    give(reject)
    process.once('SIGINT', () => resolve())
    process.once('SIGTERM', () => resolve())
  })
}

/** Frames from the card go to the client in this process that sets it up, others to the tunnel. */
class LoopbackSwitch {
  readonly wire: Wire
  private ours = ''
  private toClient: (frame: Uint8Array) => void = () => {}

  constructor(link: Link, clock: RealClock, toTunnel: (frame: Uint8Array) => void) {
    link.attach('a', (frame) => {
      const destination = Buffer.from(frame.subarray(0, 6)).toString('hex')
      if (destination === this.ours) this.toClient(frame)
      else toTunnel(frame)
    })
    this.wire = {
      send: (frame) => {
        this.ours = Buffer.from(frame.subarray(6, 12)).toString('hex')
        link.send('a', frame)
      },
      onFrame: (callback) => {
        this.toClient = callback
      },
      now: () => clock.nowUs,
      setTimer: (atUs, callback) => {
        const timer = clock.schedule(atUs, callback)
        return () => clock.cancel(timer)
      },
      close: () => {
        this.ours = ''
      },
    }
  }
}
