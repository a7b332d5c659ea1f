/**
 * A queue pair of the driver, and memory of a plain RDMA target behind a link, in virtual time.
 */

import { Link, type LinkFaults, VirtualClock } from '../../../boards/emulator/index.ts'
import type { Endpoint, Wire } from '../../../host-driver/base/wire.ts'
import { RemoteMemory } from '../../../host-driver/bytes/remote-memory.ts'
import { DriverPair, type DriverPairOptions } from '../../../host-driver/frames/driver-pair.ts'
import { Session } from '../../../host-driver/frames/session.ts'
import { linkWire } from '../../../host-driver/local.ts'
import { QueuePairPort } from '../../../host-driver/way/chain.ts'
import { RdmaTarget } from './rdma-target.ts'

export const OWN: Endpoint = { mac: [2, 0, 0, 0, 0, 1], ipv4: [10, 0, 0, 1] }
export const PEER: Endpoint = { mac: [2, 0, 0, 0, 0, 2], ipv4: [10, 0, 0, 2] }
/** Four bytes below a carry into the upper word of the address, and of the PSNs. */
const BASE = 0xffff_fff0n
export const RKEY = 0x1234
export const BYTES: number = 1 << 16

export interface VerbsBench {
  readonly clock: VirtualClock
  readonly link: Link
  readonly wire: Wire
  readonly target: RdmaTarget
  readonly queuePair: DriverPair
  readonly port: QueuePairPort
  readonly memory: RemoteMemory
}

export interface VerbsBenchOptions extends DriverPairOptions {
  readonly linux?: boolean
  readonly faults?: LinkFaults
  readonly seed?: number
  readonly pathMtu?: number
  readonly firstPsn?: number
}

/** A running bench; stop its clock when done. */
export function verbsBench(options: VerbsBenchOptions = {}): VerbsBench {
  const { linux = false, faults = {}, seed = 1, pathMtu = 256, firstPsn = 0xfffff0 } = options
  const clock = new VirtualClock()
  const link = new Link({ clock, seed, faults })
  const target = new RdmaTarget({
    ...{ own: PEER, peer: OWN, number: 0x31, peerNumber: 0x21, firstPsn, pathMtu },
    ...{ bytes: BYTES, rkey: RKEY, base: BASE, linux },
    transmit: (frame) => link.send('b', frame),
  })
  link.attach('b', (frame) => target.take(frame))
  const wire = linkWire(link, clock)
  const session = new Session(wire, OWN, PEER)
  const granted = { queuePair: 0x31, firstPsn, incarnation: 0, pathMtu }
  const queuePair = new DriverPair(session, 0x21, granted, { ...options, linuxPeer: linux })
  const port = new QueuePairPort(queuePair, wire)
  const where = { rkey: RKEY, va: BASE, length: BigInt(BYTES) }
  const memory = new RemoteMemory(
    port,
    () => 'the target',
    () => where,
  )
  clock.start()
  return { clock, link, wire, target, queuePair, port, memory }
}
