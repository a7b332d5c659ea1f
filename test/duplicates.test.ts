/**
 * A requester that goes back N over a wire that loses and repeats, against the responder: every
 * request is done once, in order, and none waits for ever (X-3, N2, N3; wire-format 3.5, 3.8).
 */

import { expect, test } from 'vitest'
import { Random } from '../boards/emulator/random.ts'
import { PERSIST_ACK, RC_ACKNOWLEDGE, RC_READ_RESPONSE_ONLY } from '../firmware/wire/opcode.ts'
import { BYTES_AT, type BytesCard, bytesCard, KEPT_AT } from './support/bytes-card.ts'
import { dataOf, readFrame, type Sent } from './support/card.ts'
import { hexOf } from './support/frames.ts'
import {
  atomicWriteFrame,
  compareSwapFrame,
  fetchAddFrame,
  flushFrame,
  sendFrames,
  writeFrames,
} from './support/requests.ts'

const SEED = Number(process.env.SEED ?? 5)
const MTU = 256
const BYTES = 4096

/** A request on the wire, and what it does to the memory of the model. */
interface Request {
  readonly name: string
  readonly first: number
  readonly last: number
  readonly frames: readonly Uint8Array[]
  readonly answered: boolean
  /** The original that its answer must carry, if it is an atomic. */
  readonly original: bigint | null
  done: boolean
}

/** What the regions must hold in the end: 'bytes', then 'kept'. */
class Model {
  readonly memory: Uint8Array = new Uint8Array(2 * BYTES)
  private readonly view: DataView = new DataView(this.memory.buffer)

  put(at: number, data: Uint8Array): void {
    this.memory.set(data, at)
  }

  word(at: number): bigint {
    return this.view.getBigUint64(at, true)
  }

  putWord(at: number, value: bigint): void {
    this.view.setBigUint64(at, BigInt.asUintN(64, value), true)
  }
}

const KINDS = ['WRITE', 'SEND', 'READ', 'READ of nothing', 'FLUSH', 'ADD', 'SWAP', 'WORD'] as const

function makeRequest(one: BytesCard, model: Model, random: Random, n: number): Request {
  const { qp } = one
  const kept = random.chance(0.3)
  const { rkey } = kept ? one.kept : one.bytes
  const at = 8 * random.below(BYTES / 8 - 100)
  const place = at + (kept ? BYTES : 0)
  const first = qp.psn
  const name = KINDS[random.below(KINDS.length)]!
  let frames: Uint8Array[] = []
  let original: bigint | null = null
  if (name === 'WRITE') {
    const data = dataOf(1 + random.below(700), n)
    frames = writeFrames(qp, rkey, at, data)
    model.put(place, data)
  } else if (name === 'SEND') frames = sendFrames(qp, dataOf(random.below(600), n))
  else if (name === 'READ') frames = [readFrame(qp, rkey, 0, at, 1 + random.below(700))]
  else if (name === 'READ of nothing') frames = [readFrame(qp, 0, 0, 0, 0)]
  else if (name === 'FLUSH') frames = [flushFrame(qp, rkey, { linux: random.chance(0.5) })]
  else if (name === 'ADD') {
    original = model.word(place)
    frames = [fetchAddFrame(qp, rkey, at, BigInt(n))]
    model.putWord(place, original + BigInt(n))
  } else if (name === 'SWAP') {
    original = model.word(place)
    const compare = random.chance(0.7) ? original : original + 1n
    frames = [compareSwapFrame(qp, rkey, at, compare, BigInt(n) << 33n)]
    if (compare === original) model.putWord(place, BigInt(n) << 33n)
  } else {
    frames = [atomicWriteFrame(qp, rkey, at, dataOf(8, n))]
    model.put(place, dataOf(8, n))
  }
  const answered = name !== 'WRITE' && name !== 'SEND'
  const last = (qp.psn - 1) & 0xffffff
  return { name, first, last, frames, answered, original, done: false }
}

function ahead(psn: number, than: number): number {
  return ((psn - than) << 8) >> 8
}

/** Takes an answer as a careful requester does: in order, and nothing that is implied lost. */
function take(window: Request[], sent: Sent, seed: number): void {
  const open = window.filter(({ done }) => !done)
  const carries = sent.opcode !== RC_ACKNOWLEDGE && sent.opcode !== PERSIST_ACK
  const naked = sent.opcode === RC_ACKNOWLEDGE && sent.syndrome !== 0x1f
  if (naked) expect(sent.syndrome, `seed ${seed}`).toBe(0x60)
  for (const request of open) {
    const beyond = ahead(sent.psn, request.last)
    const own = beyond <= 0 && ahead(sent.psn, request.first) >= 0
    if (request.answered) {
      if (!own || !carries) return
      // The last packet of a READ ends it; what was lost before is left out here.
      if (beyond < 0) return
      if (request.original !== null) {
        const view = new DataView(sent.bytes.buffer, sent.packet.payloadAt - 8, 8)
        expect(view.getBigUint64(0), `${request.name}, seed ${seed}`).toBe(request.original)
      }
      if (request.name === 'FLUSH') expect(sent.opcode).toBe(RC_READ_RESPONSE_ONLY)
      request.done = true
      return
    }
    if (naked ? beyond <= 0 : beyond < 0) return
    request.done = true
  }
}

test.each(Array.from({ length: 40 }, (_, i) => SEED + i))(
  'X-3: every request is done once and in order, SEED=%i',
  (seed) => {
    const random = new Random(seed)
    const one = bytesCard(MTU)
    const model = new Model()
    const loss = random.below(5) / 10
    const window: Request[] = []
    let made = 0
    let rounds = 0
    while (made < 60 || window.length > 0) {
      rounds += 1
      if (rounds > 3000) {
        throw new Error(`stuck at ${window[0]!.name}, ${window.length} open, SEED=${seed}`)
      }
      while (window.length < 1 + random.below(10) && made < 60) {
        made += 1
        window.push(makeRequest(one, model, random, made))
      }
      // From the oldest that is not done on, some frames lost, some repeated.
      const frames = window.flatMap((request) => request.frames)
      const wire = frames.flatMap((frame) => {
        if (random.chance(loss)) return []
        return random.chance(0.2) ? [frame, frame] : [frame]
      })
      const answers: Sent[] = []
      while (wire.length > 0)
        answers.push(...one.card.serve(...wire.splice(0, 1 + random.below(32))))
      for (const sent of answers) if (!random.chance(loss)) take(window, sent, seed)
      while (window.length > 0 && window[0]!.done) window.shift()
    }
    const { live } = one.card.nvdimm
    expect(hexOf(live.slice(BYTES_AT, BYTES_AT + BYTES))).toBe(hexOf(model.memory.slice(0, BYTES)))
    expect(hexOf(live.slice(KEPT_AT, KEPT_AT + BYTES))).toBe(hexOf(model.memory.slice(BYTES)))
  },
)
