/**
 * A cable to a board: raw Ethernet frames in, and everything that comes back, in one call that
 * waits. So the conversations of the other tests, which ask a card inside this process, are held
 * word for word with one that runs elsewhere.
 *
 * Invariant: what `ask` returns is complete. The worker (cable-worker.ts) asks for the
 * card's address behind the frames, until a question brings nothing but its answer.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads'
import { buildSync } from 'esbuild'
import { parseTarget } from '../../../host-driver/frames/udp.ts'
import { PATIENCE_MS } from '../run/patience.ts'
import { Conversation, type Sent, sentOf } from '../wire/conversation.ts'
import { isRoce } from '../wire/frames.ts'
import type { Carried } from './cable-worker.ts'

export class Cable {
  /** Frames of the last `ask` that are not RoCEv2: neighbour answers. */
  plain: Uint8Array[] = []
  /** A client at this end, with its control calls. */
  readonly client: Conversation = new Conversation((...frames) => this.ask(...frames))
  private readonly folder = mkdtempSync(join(tmpdir(), 'perdure-cable-'))
  private readonly worker: Worker
  private readonly port: MessagePort
  private readonly flag = new Int32Array(new SharedArrayBuffer(4))

  constructor(target: string) {
    const outfile = join(this.folder, 'worker.mjs')
    const entry = fileURLToPath(new URL('cable-worker.ts', import.meta.url))
    buildSync({ entryPoints: [entry], outfile, bundle: true, platform: 'node', format: 'esm' })
    const { port1, port2 } = new MessageChannel()
    this.port = port1
    const { host, port } = parseTarget(target)
    const workerData = { host, port, wire: port2, flag: this.flag }
    this.worker = new Worker(outfile, { workerData, transferList: [port2] })
    this.worker.unref()
    this.port.unref()
  }

  /** Sends the frames, one behind the other; everything RoCEv2 that the board sent by then. */
  ask(...frames: readonly Uint8Array[]): Sent[] {
    Atomics.store(this.flag, 0, 0)
    this.port.postMessage(frames)
    // The worker gives up first, and says why. What it has told before may wake this up late.
    while (Atomics.load(this.flag, 0) === 0) {
      if (Atomics.wait(this.flag, 0, 0, 2 * PATIENCE_MS) === 'timed-out') break
    }
    const carried = receiveMessageOnPort(this.port)?.message as Carried | undefined
    if (carried === undefined) throw new Error('the cable is silent')
    if (typeof carried === 'string') throw new Error(carried)
    this.plain = carried.filter((frame) => !isRoce(frame))
    return carried.filter(isRoce).map(sentOf)
  }

  async close(): Promise<void> {
    this.port.close()
    await this.worker.terminate()
    rmSync(this.folder, { recursive: true, force: true })
  }
}
