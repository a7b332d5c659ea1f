/**
 * `perdure emulate [IMAGE]`: an emulated DPU that serves until it is told to stop.
 *
 * Invariants:
 * - Where it is reached is all that goes to stdout, one line each: `perdure://…` for the host
 *   driver over UDP, `pcie:FILE` for a host behind PCIe, `unix:PATH` for virtual machines and for
 *   other cards.
 * - SIGINT and SIGTERM take the power away between two bursts, and everything that was
 *   acknowledged is in the image. SIGUSR2 pulls the plug, so that nothing survives that was not
 *   durable, and then switches it on again.
 * - Where it refuses before it serves, the files that this start has made are gone again, and those
 *   that were there before are as they were except for what a start of their card does.
 */

import { resolve } from 'node:path'
import type { Command } from 'commander'
import {
  drawnSeed,
  isToBeMade,
  Nvdimm,
  openNvdimm,
  RealClock,
} from '../../../boards/emulator/index.ts'
import { ArgumentError } from '../../base/errors.ts'
import type { MemoryPiece } from '../../base/pieces.ts'
import { engineOption, probability, several, unixSocket, wholeNumber } from '../base/arguments.ts'
import { Output } from '../base/output.ts'
import { checkFile } from '../base/system-errors.ts'
import { aim } from '../base/target.ts'
import { TRIAL_SECONDS, TRIAL_SECONDS_MAX } from '../flash/flash-target.ts'
import { cardIdentityOf } from './card-identity.ts'
import {
  type Address,
  ipAddress,
  memoryPieces,
  memoryRequest,
  orderRequest,
  type Place,
  partSize,
  persistentRequest,
  placedRegion,
  portName,
  publishRequest,
  sharedMemory,
  smpAddress,
  udpAddress,
} from './emulate-options.ts'
import { Emulation, type EmulationOptions } from './emulation.ts'
import { orderHelp } from './orders.ts'
import { endWithNpm } from './with-npm.ts'

interface Options extends Omit<EmulationOptions, 'seed' | 'identity'> {
  /** Files of the card's private key, and of its peers. */
  readonly key?: string
  readonly peers?: string
  readonly seed?: number
  readonly size?: number
  readonly json?: boolean
}

const SIZE = 64 * 2 ** 20

/** Where the host driver finds it unless told otherwise. */
const UDP: Address = { host: '127.0.0.1', port: 4791 }

const EXAMPLE = `
A virtual machine's network card plugs in at PATH of --netdev:
  qemu-system-x86_64 … -netdev stream,id=n0,server=off,addr.type=unix,addr.path=PATH \\
                       -device virtio-net-pci,netdev=n0

Another card plugs in there by --join, so that both are on one network, by an --ip of its own.

Signals: SIGINT and SIGTERM stop it; SIGUSR2 cuts its power, the hard way, and switches it on.

Orders, by --order, or on standard input by --console and where there is a host inside:
${orderHelp().join('\n')}`

export function addEmulate(program: Command): void {
  const command = program
    .command('emulate')
    .description('run an emulated DPU that serves until you stop it')
    .argument('[image]', 'NVDIMM image; without one the part lives in memory')
    .option('--udp <address:port>', 'serve the host driver; port 0 for any', udpAddress)
    .option('--host <file>', 'serve a host of this machine over PCIe, through that file')
    .option(
      '--host-memory <bytes>',
      'memory that this host shares with the card, as 64M',
      sharedMemory,
    )
    .option(
      '--memory <name,bytes,mapped>',
      'a host inside, with that memory on demand and room for `mapped` of it',
      memoryRequest,
    )
    .option(
      '--persistent <bytes[,file]>',
      'a host inside, with so much persistent memory, in that file if one is named',
      persistentRequest,
    )
    .option(
      '--pieces <bytes@at,...>',
      'of that memory the card uses these pieces, in this order, as 256K@512K,128K@0',
      memoryPieces,
    )
    .option('--ddio', "writes into that memory go to the host's caches")
    .option(
      '--netdev <unix:path>',
      "serve virtual machines' network cards, and other emulated cards",
      unixSocket,
    )
    .option(
      '--join <unix:path>',
      'be on the network of the emulated card that serves there by --netdev',
      unixSocket,
    )
    .option('--ip <address>', "the card's own address; once for IPv4, once for IPv6", ipAddress)
    .option(
      '--publish <size@port[,write-persist][,placement]>',
      'region for RDMA-CM clients; with write-persist each store is durable when it is ' +
        'acknowledged; placed as --region says it; repeatable',
      publishRequest,
    )
    .option('--size <bytes>', 'size of a part that is made, as 64M', partSize)
    .option('--create', 'make the image if it is not there, and format a blank part')
    .option(
      '--region <name:slots:capacity[:copies][@placement]>',
      'region to have; placement: local, the card itself, unless said; of the host inside: ' +
        'bypass, past its caches, through them, or host, whichever it has; ' +
        'pair, of the card itself, of which clients write the copies; repeatable',
      placedRegion,
    )
    .option(
      '--remove <name>',
      'region that ends permanently, before any is made; repeatable',
      several,
    )
    .addOption(engineOption().default('quickjs'))
  addLink(addFlash(addPeers(command)))
    .option('--order <line>', 'fault or switch, as soon as it serves; repeatable', orderRequest)
    .option('--console', 'take more orders on standard input')
    .option('--json', 'addresses, recovery report and power cuts as JSON objects')
    .addHelpText('after', EXAMPLE)
    .action(emulate)
}

/** Who may come. */
function addPeers(command: Command): Command {
  return command
    .option('--key <file>', "the card's private key, made if it is not there: only peers may come")
    .option(
      '--peers <file>',
      "with --key: who they are, a line each; without it 'perdure key', as an admin",
    )
}

/** Whence new firmware comes, and who has to have signed it. */
function addFlash(command: Command): Command {
  return command
    .option(
      '--smp <unix:path|udp:address:port>',
      'take new firmware there, into slots beside the image; repeatable',
      smpAddress,
    )
    .option(
      '--trust <file>',
      'public key of who signs it; repeatable; your own by default',
      several,
    )
    .option(
      '--trial <seconds>',
      `new firmware that is not confirmed by then goes back; ${TRIAL_SECONDS} by default`,
      wholeNumber(1, TRIAL_SECONDS_MAX),
    )
}

/** What the link to the card does, and who watches it. */
function addLink(command: Command): Command {
  return command
    .option('--strict-icrc', 'refuse the FLUSH of Linux, whose ICRC is not the standard one')
    .option('--capture <file>', 'write every frame of the card to a pcap file')
    .option('--trace <file>', 'write in words what passes between client, card and host inside')
    .option('--timeline <file>', "write the card's events, of which 'timeline' makes a page")
    .option('--loss <p>', 'probability that a frame is lost', probability, 0)
    .option('--duplication <p>', 'probability that a frame comes twice', probability, 0)
    .option('--reordering <p>', 'probability that a frame is overtaken', probability, 0)
    .option('--corruption <p>', 'probability of a flipped bit', probability, 0)
    .option(
      '--seed <n>',
      'decides keys and chance: a printed one repeats its run; drawn by default',
      wholeNumber(0),
    )
}

function openPart(image: string | undefined, options: Options): Nvdimm {
  if (image === undefined) return new Nvdimm({ bytes: options.size ?? SIZE, volatile: true })
  const make = options.create === true && isToBeMade(image)
  const bytes = make ? (options.size ?? SIZE) : options.size
  return openNvdimm({ path: image, volatile: true, ...(bytes === undefined ? {} : { bytes }) })
}

/** Whether it was said where it shall be reached. */
function isReached({ udp, netdev, join, host }: Options): boolean {
  return [udp, netdev, join, host].some((way) => way !== undefined)
}

/** Throws ArgumentError where two cards of the network would be one, or a cable leads nowhere. */
function checkNetwork({ netdev, join, ip }: Options): void {
  if (join === undefined) return
  if (netdev !== undefined && resolve(netdev) === resolve(join)) {
    throw new ArgumentError(
      '--join names the socket of --netdev, and that of another card is meant',
    )
  }
  if (ip?.ipv4 === undefined) {
    throw new ArgumentError('--join: say an IPv4 address that no other card has there, by --ip')
  }
}

/** Throws ArgumentError where options belong to a host that is not there. */
function checkHost(options: Options): void {
  const { host, hostMemory, memory, persistent, pieces, ddio, region, publish } = options
  if (hostMemory !== undefined && host === undefined) {
    throw new ArgumentError('--host-memory is of --host')
  }
  for (const [option, value] of Object.entries({ memory, persistent })) {
    if (value === undefined || host === undefined) continue
    throw new ArgumentError(`--${option} is of a host inside, --host gives the card another one`)
  }
  if (persistent === undefined && ddio !== undefined) {
    throw new ArgumentError('--ddio is of --persistent')
  }
  if (pieces !== undefined) checkPieces(pieces, persistent?.bytes)
  const ports = (publish ?? []).map(({ port, placement }) => ({ name: portName(port), placement }))
  for (const one of [...(region ?? []), ...ports]) {
    checkPlace(one, persistent !== undefined, ddio === true)
  }
}

/** Throws ArgumentError where the memory has no such pieces. */
function checkPieces(pieces: readonly MemoryPiece[], memoryBytes?: number): void {
  if (memoryBytes === undefined) throw new ArgumentError('--pieces is of --persistent')
  for (const { at, bytes } of pieces) {
    if (at + bytes <= memoryBytes) continue
    throw new ArgumentError(`--pieces: ${bytes}@${at} leaves the ${memoryBytes} of --persistent`)
  }
}

/** Throws ArgumentError where the host has no such place. */
function checkPlace(
  { name, placement }: { name: string; placement: Place },
  hasHost: boolean,
  ddio: boolean,
): void {
  if (placement === 'local') return
  const what = `region '${name}' shall be in the host`
  if (!hasHost) throw new ArgumentError(`${what}: --persistent gives it room`)
  if (placement === 'bypass' && ddio) {
    throw new ArgumentError(`${what}, past its caches: leave --ddio out, or say @through`)
  }
  if (placement === 'through' && !ddio) {
    throw new ArgumentError(`${what}, through its caches: say --ddio as well, or @bypass`)
  }
}

/** Throws ArgumentError where slots have no place, or nothing to run. */
function checkFlash(image: string | undefined, options: Options): void {
  const { smp, trust, trial, engine, peers } = options
  if (smp === undefined) {
    if (trust !== undefined) throw new ArgumentError('--trust is of --smp')
    if (trial !== undefined) throw new ArgumentError('--trial is of --smp')
    return
  }
  if (image === undefined) throw new ArgumentError('--smp needs an image: slots lie beside it')
  if (engine !== 'quickjs') throw new ArgumentError('--smp is of --engine quickjs: it runs bundles')
  if (peers !== undefined && smp.some((address) => !('path' in address))) {
    throw new ArgumentError('--smp udp:… is not for a card with --peers: say unix:path')
  }
}

async function emulate(image: string | undefined, options: Options): Promise<void> {
  endWithNpm()
  checkHost(options)
  checkNetwork(options)
  checkFlash(image, options)
  if (image !== undefined && options.create !== true) {
    checkFile(image, 'Check its name and its folder, or let --create make it.')
  }
  const output = new Output(options.json === true)
  const identity = cardIdentityOf(options.key, options.peers)
  const nvdimm = openPart(image, options)
  const clock = new RealClock()
  let emulation: Emulation | undefined
  try {
    emulation = new Emulation(output, nvdimm, clock, {
      ...options,
      ...(image === undefined ? {} : { image }),
      seed: options.seed ?? drawnSeed(),
      identity,
      create: image === undefined || options.create === true,
      ...(isReached(options) ? {} : { udp: UDP }),
    })
    await emulation.run()
  } catch (error) {
    aim(error, image ?? 'perdure://127.0.0.1')
    throw error
  } finally {
    clock.close()
    nvdimm.close(emulation?.hasServed !== true)
  }
}
