/** Connecting: from a target, a wire, or an open device, to a DPU that serves. */

import { cardAt, keptOptions, neighbour } from './base/addresses.ts'
import { ArgumentError, PerdureError } from './base/errors.ts'
import { check, checkFields } from './base/kinds.ts'
import { onAbort } from './base/signals.ts'
import { joined } from './base/wide.ts'
import { WIRE, type Wire } from './base/wire.ts'
import { PcieDevice } from './card/device.ts'
import { isPcieTarget, openPort, parsePcieTarget } from './card/target.ts'
import { PcieWay } from './card/way.ts'
import { Calls } from './control/calls.ts'
import { Management } from './control/management.ts'
import type { PartStatus } from './control/part.ts'
import { SealedWay, type SessionKeyPair } from './control/sealed-way.ts'
import { clientIdBase, sessionKeysOf } from './control/session-keys.ts'
import { Dpu } from './dpu.ts'
import { openTunnel, parseTarget } from './frames/udp.ts'
import { WireWay } from './frames/wire-way.ts'
import { Connection } from './link/connection.ts'
import { CONNECT_KINDS, type ConnectOptions, randomSource, warn } from './way/options.ts'
import type { Way } from './way/way.ts'

/**
 * Connects to a DPU:
 *
 *   'perdure://[key@]host[:port][/ipv4]'  through a UDP tunnel, or over a wire of your own: by
 *                                    frames. The key is the card's: then by a session with it
 *   'pcie:FILE[/ipv4]'               the card behind the port in that file, or another DPU that the
 *                                    card leads to: by the queues of the card
 *   an open PcieDevice               that card, or with `options.peer` another DPU behind it; the
 *                                    device stays open when the connection is closed
 *
 * Rejects with PERDURE_TARGET, PERDURE_ARGUMENT, PERDURE_UNREACHABLE, PERDURE_CARD_REMOVED or
 * PERDURE_ABORTED. A part that does not serve (blank, or refused at its start) is connected too,
 * for `status` and `format`; its regions say what is wrong.
 */
export async function connect(
  target: string | Wire | PcieDevice,
  asked: ConnectOptions = {},
): Promise<Dpu> {
  checkOptions(asked)
  const options = keptOptions(asked)
  const random = randomSource(options.seed)
  const { way, management, keys } = await reach(target, options, random)
  const clientId = options.clientId ?? joined(drawUpper(keys, random), random())
  const connection = new Connection(way, management, options, clientId, random)
  obeySignal(connection, options.signal)
  try {
    const part = await management.status()
    connection.durable = part.durable
    warnOfMemory(part, options)
    if (part.state === 'serving') connection.use(await connection.open())
    return new Dpu(connection)
  } catch (error) {
    const failed = new PerdureError('PERDURE_CLOSED', 'the connection was never made')
    connection.close(failed)
    throw error
  }
}

/** A way to a DPU, and what asks over it. */
export interface Reached {
  readonly way: Way
  readonly management: Management
}

/**
 * As `connect`, and no connection is made: the DPU spends nothing on whoever only asks. Who opens
 * it closes the management calls first, and then the way.
 */
export async function openManagement(target: string, asked: ConnectOptions): Promise<Reached> {
  checkOptions(asked)
  const options = keptOptions(asked)
  const { way, management } = await reach(target, options, randomSource(options.seed))
  return { way, management }
}

async function reach(
  target: string | Wire | PcieDevice,
  options: ConnectOptions,
  random: () => number,
): Promise<Reached & { readonly keys: SessionKeyPair | null }> {
  const keys = sessionKeysOf(options, keyOfTarget(target))
  if (keys !== null) checkClientId(options, keys)
  const way = await openWay(target, options, random)
  const datagrams = keys === null ? way : new SealedWay(way, keys, random)
  const calls = new Calls(datagrams, (options.timeoutMs ?? 5000) * 1000, random)
  return { way, management: new Management(calls), keys }
}

function keyOfTarget(target: string | Wire | PcieDevice): string | null {
  return typeof target === 'string' && !isPcieTarget(target)
    ? (parseTarget(target).key ?? null)
    : null
}

/** Upper half of a client's id: drawn, or that of its key. */
function drawUpper(keys: SessionKeyPair | null, random: () => number): number {
  return keys === null ? random() : clientIdBase(keys)
}

/** A card with peers takes ids of clients whose upper half is that of the peer's key. */
function checkClientId({ clientId }: ConnectOptions, keys: SessionKeyPair): void {
  const upper = clientIdBase(keys)
  if (clientId === undefined || clientId >> 32n === BigInt(upper)) return
  const least = joined(upper, 0)
  const range = `ids from ${least} to ${least + 0xffffffffn}`
  throw new ArgumentError(`clientId ${clientId}: the clients of this key have ${range}`)
}

const TARGETS = "a text 'perdure://host[:port]', a Wire, or an open PcieDevice"

const AGAINST = {
  process:
    'what this DPU calls durable outlives its process, and not the power: its memory does not',
  nothing: 'nothing becomes durable on this DPU: its memory does not outlive the power',
}

function warnOfMemory({ durable, outlivesPower }: PartStatus, options: ConnectOptions): void {
  if (outlivesPower || durable === 'power') return
  warn(options, AGAINST[durable], 'PERDURE_VOLATILE')
}

async function openWay(
  target: string | Wire | PcieDevice,
  options: ConnectOptions,
  random: () => number,
): Promise<Way> {
  if (target instanceof PcieDevice || (typeof target === 'string' && isPcieTarget(target))) {
    return await openPcieWay(target, options)
  }
  const at = typeof target === 'string' ? parseTarget(target) : null
  if (at === null) check('target', target, { ...WIRE, give: TARGETS })
  const wire = at === null ? (target as Wire) : await openTunnel(at)
  const way = new WireWay(
    wire,
    options.own ?? neighbour(random),
    options.peer ?? cardAt(at?.ipv4),
    options.capture,
  )
  if (options.own === undefined) way.anotherMac = () => neighbour(random).mac
  return way
}

async function openPcieWay(
  target: string | PcieDevice,
  { peer, own, capture, seed, timeoutMs, cardKey }: ConnectOptions,
): Promise<Way> {
  for (const [name, value] of Object.entries({ own, capture })) {
    if (value !== undefined) throw new ArgumentError(`${name}: the local card makes the frames`)
  }
  const at = target instanceof PcieDevice ? null : parsePcieTarget(target)
  const led = at?.peer ?? peer ?? null
  if (cardKey !== undefined && led === null) {
    throw new ArgumentError('cardKey: the local card asks its own host for no session')
  }
  if (at === null) return new PcieWay(target as PcieDevice, led, false)
  const port = await openPort(at)
  try {
    const device = await PcieDevice.open(port, {
      ...(seed !== undefined && { seed }),
      ...(timeoutMs !== undefined && { timeoutMs }),
    })
    return new PcieWay(device, led, true)
  } catch (error) {
    port.close()
    throw error
  }
}

function checkOptions(options: ConnectOptions): void {
  checkFields('options of connect', options, CONNECT_KINDS)
  const { clientId, firstOperation } = options
  // The part takes an operation that it knows of a client for its repetition: it answers that it is
  // durable, and stores nothing. So whoever goes on as a client says where.
  if (clientId !== undefined && firstOperation === undefined) {
    const how = 'say firstOperation, too: 1 of a new client, else above all that it has used'
    throw new ArgumentError(`clientId ${clientId}: ${how}`)
  }
}

/** The signal ends the attempt to connect, and later everything that is open. */
function obeySignal(connection: Connection, signal: AbortSignal | undefined): void {
  if (signal === undefined) return
  const abort = (): void => {
    const { reason } = signal
    connection.close(new PerdureError('PERDURE_ABORTED', 'the signal fired', { cause: reason }))
  }
  if (signal.aborted) {
    abort()
    return
  }
  connection.release = onAbort(signal, abort)
}
