/**
 * The thread behind a cable (cable.ts): a UDP socket towards a board, one datagram a frame.
 *
 * How it knows that an answer is complete: a board serves bursts in the order of their frames, and
 * sends all that belongs to a burst before it takes the next one. So behind the frames it asks who
 * has the card's address, under a number that comes back. The answer may still overtake those of
 * its own burst; the answer to a second question, asked after that, may not. What comes in pieces,
 * a long READ, makes it ask until a question brings nothing else.
 */

import { createSocket } from 'node:dgram'
import { type MessagePort, workerData } from 'node:worker_threads'
import { PATIENCE_MS } from '../run/patience.ts'

/** What came back, or why nothing did. */
export type Carried = Uint8Array[] | string

interface Given {
  readonly host: string
  readonly port: number
  readonly wire: MessagePort
  readonly flag: Int32Array
}

const { host, port, wire, flag } = workerData as Given

/** Who asks: no client that a test plays. */
const ASKER = [2, 0, 0, 0, 0, 0x0b]
const CARD = [10, 0, 0, 2]

/** A question is asked again after so long, ms, and given up after so many times. */
const AGAIN_MS = 200
const TIMES = PATIENCE_MS / AGAIN_MS

/** Room for the answers to a long READ, bytes; the system may give less. */
const SOCKET_BYTES = 8 << 20

const socket = createSocket({
  type: 'udp4',
  recvBufferSize: SOCKET_BYTES,
  sendBufferSize: SOCKET_BYTES,
})
let got: Uint8Array[] = []
let number = 0
let answered: (number: number) => void = () => {}

/** The number of the question that this frame answers; 0 if it answers none. */
function numberOf(frame: Uint8Array): number {
  const isArp = frame[12] === 0x08 && frame[13] === 0x06 && frame[21] === 2
  if (!isArp || !ASKER.every((byte, i) => frame[i] === byte)) return 0
  return frame[39]! * 65536 + frame[40]! * 256 + frame[41]!
}

/** Who has the card's address? Asked as 10.x.y.z, where xyz is the number. */
function question(): Uint8Array {
  const own = [10, (number >> 16) & 0xff, (number >> 8) & 0xff, number & 0xff]
  return Uint8Array.from([
    ...[255, 255, 255, 255, 255, 255, ...ASKER, 0x08, 0x06],
    ...[0, 1, 8, 0, 6, 4, 0, 1, ...ASKER, ...own, 0, 0, 0, 0, 0, 0, ...CARD],
  ])
}

/** Asks, and resolves when the answer is there. */
async function ask(): Promise<void> {
  // From 10.1.0.0 on: no address of anybody else in these tests.
  number = Math.max(0x10000, (number + 1) & 0xffffff)
  const mine = number
  const frame = question()
  await new Promise<void>((resolve, reject) => {
    let times = 0
    const again = (): void => {
      if (times++ === TIMES) {
        clearInterval(timer)
        reject(new Error('the board does not answer'))
      } else socket.send(frame)
    }
    const timer = setInterval(again, AGAIN_MS)
    answered = (which) => {
      if (which !== mine) return
      clearInterval(timer)
      resolve()
    }
    again()
  })
}

async function carry(frames: readonly Uint8Array[]): Promise<Uint8Array[]> {
  got = []
  for (const frame of frames) socket.send(frame)
  await ask()
  for (let before = -1; before !== got.length; ) {
    before = got.length
    await ask()
  }
  return got
}

function tell(carried: Carried): void {
  wire.postMessage(carried)
  Atomics.store(flag, 0, 1)
  Atomics.notify(flag, 0)
}

socket.on('error', () => {})
socket.on('message', (frame) => {
  const which = numberOf(frame)
  if (which > 0) answered(which)
  else got.push(Uint8Array.from(frame))
})
socket.connect(port, host, () => {
  wire.on('message', (frames: Uint8Array[]) => {
    carry(frames).then(tell, (error: Error) => tell(error.message))
  })
})
