/**
 * A UDP socket towards a board, one datagram a frame, that knows when everything has come back.
 *
 * Invariant: behind `settle`, all that the board sent to this socket for frames from this socket is
 * in `got`. A board serves bursts in the order of their frames, and sends all that belongs to a
 * burst before it takes the next one. So behind the frames it asks who has the card's address,
 * under a number that comes back. The answer may still overtake those of its own burst; the answer
 * to a second question, asked after that, may not. What comes in pieces, a long READ, makes it ask
 * until a question brings nothing else.
 */

import { createSocket } from 'node:dgram'
import { PATIENCE_MS } from '../run/patience.ts'

/** Who asks, unless told otherwise: no client that a test plays. */
const ASKER = [2, 0, 0, 0, 0, 0x0b]
const CARD = [10, 0, 0, 2]

/** A question is asked again after so long, ms, and given up after so many times. */
const AGAIN_MS = 200
const TIMES = PATIENCE_MS / AGAIN_MS

/** Room for the answers to a long READ, bytes; the system may give less. */
const SOCKET_BYTES = 8 << 20

export class Carrier {
  /** Every frame that came, but for answers to its own questions. */
  got: Uint8Array[] = []
  private readonly asker: readonly number[]
  private readonly socket = createSocket({
    type: 'udp4',
    recvBufferSize: SOCKET_BYTES,
    sendBufferSize: SOCKET_BYTES,
  })
  private number = 0
  private answered: (number: number) => void = () => {}

  /** `asker` is the Ethernet address of who asks: another one for each socket to one board. */
  constructor(asker: readonly number[] = ASKER) {
    this.asker = asker
    this.socket.on('error', () => {})
    this.socket.on('message', (frame) => {
      const which = this.numberOf(frame)
      if (which > 0) this.answered(which)
      else this.got.push(Uint8Array.from(frame))
    })
  }

  /** Names the board; resolves when frames may be sent. */
  async open(host: string, port: number): Promise<void> {
    await new Promise<void>((resolve) => this.socket.connect(port, host, resolve))
  }

  send(frame: Uint8Array): void {
    this.socket.send(frame)
  }

  /** Resolves when all that the board sent to this socket is in `got`. */
  async settle(): Promise<void> {
    await this.ask()
    for (let before = -1; before !== this.got.length; ) {
      before = this.got.length
      await this.ask()
    }
  }

  close(): void {
    this.socket.close()
  }

  /** The number of the question that this frame answers; 0 if it answers none. */
  private numberOf(frame: Uint8Array): number {
    const isArp = frame[12] === 0x08 && frame[13] === 0x06 && frame[21] === 2
    if (!isArp || !this.asker.every((byte, i) => frame[i] === byte)) return 0
    return frame[39]! * 65536 + frame[40]! * 256 + frame[41]!
  }

  /** Who has the card's address? Asked as 10.x.y.z, where xyz is the number. */
  private question(): Uint8Array {
    const { number, asker } = this
    const own = [10, (number >> 16) & 0xff, (number >> 8) & 0xff, number & 0xff]
    return Uint8Array.from([
      ...[255, 255, 255, 255, 255, 255, ...asker, 0x08, 0x06],
      ...[0, 1, 8, 0, 6, 4, 0, 1, ...asker, ...own, 0, 0, 0, 0, 0, 0, ...CARD],
    ])
  }

  /** Asks, and resolves when the answer is there. */
  private async ask(): Promise<void> {
    // From 10.1.0.0 on: no address of anybody else in these tests.
    this.number = Math.max(0x10000, (this.number + 1) & 0xffffff)
    const mine = this.number
    const frame = this.question()
    await new Promise<void>((resolve, reject) => {
      let times = 0
      const again = (): void => {
        if (times++ === TIMES) {
          clearInterval(timer)
          reject(new Error('the board does not answer'))
        } else this.socket.send(frame)
      }
      const timer = setInterval(again, AGAIN_MS)
      this.answered = (which) => {
        if (which !== mine) return
        clearInterval(timer)
        resolve()
      }
      again()
    })
  }
}
