/**
 * The wire between two guests, and somebody on it: he reads every frame, and puts there what he
 * likes.
 *
 * Invariants:
 * - Every frame of one end goes to the other one, unchanged and in order. What he adds goes between
 *   them.
 * - What he remembers of them is from the last `forget` on.
 */

import { createServer, type Socket } from 'node:net'
import { saidFrame, takeFrames } from './frames.ts'

/** The guest in front of the card, and the client's. */
export const ENDS = ['gate', 'client'] as const
export type End = (typeof ENDS)[number]

const OTHER = { client: 'gate', gate: 'client' } as const

export class Tap {
  private readonly plugs: Partial<Record<End, Socket>> = {}
  private readonly heard: Record<End, Buffer[]> = { client: [], gate: [] }
  /** Asked of each frame before it goes on: a frame that goes to the same end in front of it. */
  before: (from: End, frame: Buffer) => Buffer | null = () => null

  /** Listens at two paths: what plugs in there are the ends of the wire. */
  constructor(paths: Readonly<Record<End, string>>) {
    for (const end of ENDS) {
      // What plugs in ends with its process.
      createServer((socket) => this.plug(end, socket))
        .listen(paths[end])
        .unref()
    }
  }

  /** The frames that came from that end, in order. */
  from(end: End): readonly Buffer[] {
    return this.heard[end]
  }

  forget(): void {
    this.heard.client = []
    this.heard.gate = []
  }

  /** Puts a frame on the wire, as if it came from the other end. */
  put(to: End, frame: Buffer): void {
    this.plugs[to]?.write(saidFrame(frame))
  }

  private plug(end: End, socket: Socket): void {
    this.plugs[end] = socket
    let rest: Buffer = Buffer.alloc(0)
    socket.on('data', (bytes: Buffer) => {
      rest = takeFrames(Buffer.concat([rest, bytes]), (frame) => this.pass(end, frame))
    })
    socket.on('error', () => {})
  }

  private pass(from: End, frame: Buffer): void {
    const added = this.before(from, frame)
    this.heard[from].push(Buffer.from(frame))
    if (added !== null) this.put(OTHER[from], added)
    this.put(OTHER[from], frame)
  }
}
