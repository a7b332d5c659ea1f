/**
 * What the machine's network card is plugged into: a switch in a thread of its own.
 *
 *     host driver --UDP tunnel--+
 *                               +-- switch --stream socket-- QEMU -- virtio-net -- perdured
 *     host driver --UDP tunnel--+
 *
 * Invariants:
 * - The switch outlives the machine: one that was killed and started again has the same address.
 * - It serves while this thread waits for something else, as a test does that blocks.
 */

import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import { Trouble } from '../tools/debian/programs.ts'
import { NETWORK } from './places.ts'

export interface UdpAddress {
  readonly host: string
  /** 0 lets the system choose. */
  readonly port: number
}

/** Where it listens: for hosts, and for machines on a Unix socket. */
export interface NetworkPlaces {
  readonly udp: UdpAddress
  readonly path: string
}

/** What the thread says once: its UDP port, or why there is none. */
export type NetworkSays = { readonly port: number } | { readonly failed: string }

export class BoardNetwork {
  readonly port: number
  private readonly worker: Worker

  private constructor(worker: Worker, port: number) {
    this.worker = worker
    this.port = port
  }

  /** Opens both. Throws a Trouble. */
  static async open(places: NetworkPlaces): Promise<BoardNetwork> {
    if (!existsSync(NETWORK)) throw new Trouble(`${NETWORK} is missing: npm run build`)
    const worker = new Worker(NETWORK, { workerData: places })
    const [says] = (await once(worker, 'message')) as [NetworkSays]
    if ('port' in says) return new BoardNetwork(worker, says.port)
    await worker.terminate()
    throw new Trouble(`the network of the machine: ${says.failed}`)
  }

  async close(): Promise<void> {
    const ended = once(this.worker, 'exit')
    this.worker.postMessage('close')
    await ended
  }
}
