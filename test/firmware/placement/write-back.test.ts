/**
 * What a requester stores through the caches of the host by itself: WRITEs into bytes registered
 * write-persist, FLUSH of bytes, plain WRITEs of records (source 2, both forms of the flag in flow
 * 2; S1-M5).
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { DDIO_ON } from '../../../boards/emulator/host/host-memory.ts'
import {
  BURST_FRAMES,
  FLUSH_BYTES_MAX,
  FLUSH_TIMEOUT_US,
  GATHERING_US,
  LINE_BYTES,
  STAGING_BUFFERS,
  THROUGH_JOBS,
} from '../../../firmware/board/limits.ts'
import { VIEW_DATA } from '../../../firmware/burst/view.ts'
import {
  HOST_DATA_AT,
  PLACEMENT_THROUGH,
  WRITE_PERSIST_REGION,
} from '../../../firmware/medium/region.ts'
import { LANES_AT } from '../../../firmware/medium/superblock.ts'
import type { Psn } from '../../../firmware/transport/psn.ts'
import { createQueuePair, forgetOld } from '../../../firmware/transport/queue-pair.ts'
import * as cm from '../../../firmware/wire/cm.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  PERSIST_ACK,
  RC_READ_RESPONSE_ONLY,
  RC_SEND_ONLY,
  WRITE_PERSIST_FIRST,
  WRITE_PERSIST_LAST,
  WRITE_PERSIST_MIDDLE,
  WRITE_PERSIST_ONLY,
} from '../../../firmware/wire/opcode.ts'
import { MECHANISM_CPU_FLUSH } from '../../../firmware/wire/persist-ack.ts'
import { BYTES_AT } from '../../support/cards/bytes-card.ts'
import { drawNumber } from '../../support/cards/draws.ts'
import {
  type Agent,
  agentOfNewHost,
  attachedAgent,
  cutPower,
  explorePlaced,
  hostSideOf,
  NOTHING,
  type Placed,
  placed,
  restarted,
  restartHost,
  SEED,
  tellAgent,
  throughCaches,
  work,
} from '../../support/cards/placed.ts'
import {
  dataOf,
  persistFrames,
  type Sent,
  type TestCard,
  type TestPeer,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import { Stranger } from '../../support/peers/strangers.ts'
import { THOROUGH, thoroughIf } from '../../support/run/thorough.ts'
import { CLIENT, idsFrame, publish, repOf, reqFrame } from '../../support/wire/cm.ts'
import { frameOf } from '../../support/wire/frames.ts'
import {
  ACK,
  atomicWriteFrame,
  disconnect,
  fetchAddFrame,
  flushFrame,
  NAK_OPERATIONAL,
  sendFrames,
  writeFrames,
} from '../../support/wire/requests.ts'

/** RNR NAKs with timer codes 2, 11 and 12: 0.02, 0.48 and 0.64 ms. */
const RNR_SOON = 0x22
const RNR_LATER = 0x2b
const RNR_LATEST = 0x2c
const STATUS_NO_AGENT = 0x91
const BYTES = 4096
const OWN = { kind: mad.KIND_BYTES, length: BYTES }
const MTU = 256
const FIRST_LANE = LANES_AT / LINE_BYTES

/** A card with a region of bytes through the caches of its host. */
interface WithBytes extends Placed {
  readonly bytes: TestRegion
}

function withBytes(flags = 0, length = BYTES): WithBytes {
  const made = placed(DDIO_ON)
  const shape = { kind: mad.KIND_BYTES, length, placement: PLACEMENT_THROUGH, flags }
  const bytes = made.card.provision({ name: 'bytes', ...shape })
  work(made.card, made.agent!)
  return { ...made, qp: made.card.connect(MTU), bytes }
}

/** A WRITE_PERSIST of bytes. */
function placedFrames(qp: TestPeer, { rkey, baseHigh }: TestRegion, data: Uint8Array) {
  const count = Math.ceil(data.length / qp.mtu)
  const { psn } = qp
  qp.psn = (psn + count) & 0xffffff
  const opcodeOf = (i: number): number => {
    if (count === 1) return WRITE_PERSIST_ONLY
    if (i === 0) return WRITE_PERSIST_FIRST
    return i === count - 1 ? WRITE_PERSIST_LAST : WRITE_PERSIST_MIDDLE
  }
  return Array.from({ length: count }, (_, i) =>
    frameOf({
      bth: {
        opcode: opcodeOf(i),
        destQp: qp.number,
        psn: (psn + i) & 0xffffff,
        ackRequest: i === count - 1,
      },
      reth: { vaHigh: baseHigh, vaLow: 0, rkey, length: data.length },
      pweth: { wait: 1, wantsAck: true, operationLow: 9 },
      payload: data.slice(i * qp.mtu, (i + 1) * qp.mtu),
    }),
  )
}

/** The ways to store bytes that are durable when they are acknowledged. */
const STORES: readonly {
  readonly name: string
  readonly length: number
  readonly frames: (qp: TestPeer, bytes: TestRegion, data: Uint8Array) => Uint8Array[]
}[] = [
  { name: 'WRITE', length: 64, frames: (qp, bytes, data) => writeFrames(qp, bytes, 0, data) },
  {
    name: 'WRITE of 3 packets',
    length: 600,
    frames: (...of) => writeFrames(of[0], of[1], 0, of[2]),
  },
  {
    name: 'WRITE with immediate',
    length: 64,
    frames: (qp, bytes, data) => writeFrames(qp, bytes, 0, data, { immediate: 7 }),
  },
  {
    name: 'ATOMIC WRITE',
    length: 8,
    frames: (qp, bytes, data) => [atomicWriteFrame(qp, bytes, 0, data)],
  },
  { name: 'WRITE_PERSIST', length: 64, frames: placedFrames },
  { name: 'WRITE_PERSIST of 3 packets', length: 600, frames: placedFrames },
]

/** What was answered to the last frame. */
function answersOf(sent: readonly Sent[]): string[] {
  return sent.map(({ opcode, syndrome, paeth }) => {
    if (opcode === RC_READ_RESPONSE_ONLY) return 'done'
    if (opcode === PERSIST_ACK) return `persist ${paeth!.status}`
    if (syndrome === ACK) return 'ACK'
    return syndrome >= RNR_SOON && syndrome <= RNR_LATEST ? 'RNR' : `NAK ${syndrome.toString(16)}`
  })
}

/** Is it accepted, and not only to come again? */
function isTaken(sent: readonly Sent[]): boolean {
  return answersOf(sent).some((one) => one === 'done' || one === 'ACK' || one === 'persist 0')
}

/** Serves the frames, and the last one again until it is taken; what was answered at last. */
function insist(made: Placed, frames: readonly Uint8Array[]): Sent[] {
  let sent = made.card.serve(...frames)
  for (let again = 0; again < 8 && !isTaken(sent) && !made.card.machine.dead; again++) {
    work(made.card, made.agent!)
    if (!made.card.machine.dead) sent = made.card.serve(frames.at(-1)!)
  }
  return sent
}

function readBytes(card: TestCard, length: number): Uint8Array | null {
  return card.read(card.connect(), card.open('bytes'), 0, 0, length)
}

describe('bytes registered write-persist', () => {
  for (const { name, length, frames } of STORES) {
    test(`S1-M5, D-9: ${name}: not taken before the bell, and then as ever`, () => {
      const made = withBytes(WRITE_PERSIST_REGION)
      const { card, qp, bytes } = made
      const data = dataOf(length, 1)
      const all = frames(qp, bytes, data)
      expect(card.serve(...all).at(-1)!.syndrome).toBe(RNR_SOON)
      // The card does not answer more by itself. The longer the agent takes, the later it is asked.
      for (const [us, expected] of [
        [10, RNR_SOON],
        [2000, RNR_LATER],
        [2000, RNR_LATEST],
      ] as const) {
        card.now += us
        expect(card.serve(all.at(-1)!).map(({ syndrome }) => syndrome)).toEqual([expected])
      }
      work(card, made.agent!)
      const sent = card.serve(all.at(-1)!)
      expect(isTaken(sent)).toBe(true)
      expect(sent.map(({ paeth }) => paeth?.mechanism).filter((one) => one !== undefined)).toEqual(
        name.startsWith('WRITE_PERSIST') ? [MECHANISM_CPU_FLUSH] : [],
      )
      cutPower(made, NOTHING)
      expect(readBytes(restarted(made), length)).toEqual(data)
    })

    test(`S1-M5: ${name}: what is acknowledged is durable, wherever power goes`, THOROUGH, () => {
      let taken = 0
      const data = dataOf(length, 2)
      const images = explorePlaced(
        {
          begin: () => withBytes(WRITE_PERSIST_REGION),
          during: (made) => {
            const { qp, bytes } = made as WithBytes
            insist(made, frames(qp, bytes, data))
          },
        },
        ({ sent, card, command, image }) => {
          const last = sent.filter((one) => isTaken([one]) && one.psn === sent.at(-1)!.psn)
          const isLast = sent.some(({ syndrome }) => syndrome === RNR_SOON) && last.length > 0
          if (!isLast) return
          taken += 1
          expect(readBytes(card, length), `command ${command}, ${image}`).toEqual(data)
        },
      )
      expect(taken).toBeGreaterThan(0)
      expect(images).toBeGreaterThan(taken)
    })
  }

  test('P2-20: without the CPU’s write-back what is acknowledged may be gone', () => {
    const made = withBytes(WRITE_PERSIST_REGION)
    Object.assign(made.agent!, { memory: { ...hostSideOf(made.card), clean: () => {} } })
    const data = dataOf(64, 1)
    expect(isTaken(insist(made, writeFrames(made.qp, made.bytes, 0, data)))).toBe(true)
    cutPower(made, NOTHING)
    expect(readBytes(restarted(made), 64)).not.toEqual(data)
  })

  test('the packet that comes again is not stored again, one to another place is', () => {
    const made = withBytes(WRITE_PERSIST_REGION)
    const { card, qp, bytes } = made
    const { psn } = qp
    const [frame] = writeFrames(qp, bytes, 0, dataOf(64, 1))
    card.serve(frame!)
    work(card, made.agent!)
    const [other] = writeFrames(qp, bytes, 64, dataOf(64, 2), { psn })
    expect(answersOf(card.serve(other!))).toEqual(['RNR'])
    work(card, made.agent!)
    let stores = 0
    card.machine.observe({ onCommand: () => (stores += 1) })
    expect(answersOf(card.serve(other!))).toEqual(['ACK'])
    // The acknowledgement, and nothing else.
    expect(stores).toBe(1)
    card.machine.observe({})
    cutPower(made, NOTHING)
    expect(readBytes(restarted(made), 128)).toEqual(
      Uint8Array.from([...dataOf(64, 1), ...dataOf(64, 2)]),
    )
  })

  test('an ATOMIC WRITE that Linux repeats without its address is the one that is awaited', () => {
    const made = withBytes(WRITE_PERSIST_REGION)
    const { card, qp, bytes } = made
    const { psn } = qp
    card.serve(atomicWriteFrame(qp, bytes, 16, dataOf(8, 1)))
    const nowhere = { ...bytes, baseHigh: 0 }
    const [again] = [atomicWriteFrame(qp, nowhere, 0, dataOf(8, 1), { psn })]
    expect(answersOf(card.serve(again!))).toEqual(['RNR'])
    work(card, made.agent!)
    expect(answersOf(card.serve(again!))).toEqual(['done'])
    cutPower(made, NOTHING)
    const found = readBytes(restarted(made), 24)!
    expect(found.slice(16)).toEqual(dataOf(8, 1))
  })

  test('an ATOMIC WRITE behind an atomic that the medium refuses is not stored', () => {
    const made = withBytes()
    const { card, qp, bytes } = made
    const own = card.provision({ name: 'own', ...OWN })
    card.nvdimm.poison(BYTES_AT / LINE_BYTES)
    const before = card.counter('QP_ERROR_STATE')
    const sent = card.serve(
      fetchAddFrame(qp, own, 0, 1n),
      atomicWriteFrame(qp, bytes, 0, dataOf(8, 1)),
    )
    expect(sent.map(({ syndrome }) => syndrome)).toEqual([NAK_OPERATIONAL])
    expect(card.counter('QP_ERROR_STATE')).toBe(before + 1)
    expect(readBytes(card, 8)).toEqual(new Uint8Array(8))
  })

  test('X-1: the host restarts between packets of a WRITE: refused, as its first is lost', () => {
    for (const isTold of [false, true]) {
      const made = withBytes(WRITE_PERSIST_REGION)
      const { card, qp, bytes } = made
      const frames = writeFrames(qp, bytes, 0, dataOf(600, 1))
      card.serve(...frames.slice(0, 2))
      // Pushed, so that nobody is refused for what was on its way.
      card.serve(flushFrame(card.connect(), card.provision({ name: 'own', ...OWN })))
      restartHost(card)
      if (isTold) work(card, agentOfNewHost(card))
      const sent = card.serve(frames[2]!)
      expect(isTaken(sent)).toBe(false)
      expect(answersOf(sent).join()).toMatch(/^(NAK 6[23])?$/)
    }
  })

  test('an ATOMIC WRITE is never there before what a FLUSH in front of it covers', () => {
    let flags = 0
    let own: TestRegion
    explorePlaced(
      {
        begin: () => {
          const made = withBytes(WRITE_PERSIST_REGION)
          own = made.card.provision({ name: 'own', ...OWN })
          return made
        },
        during: (made) => {
          const { qp, bytes, card } = made as WithBytes
          const frames = writeFrames(qp, own, 0, dataOf(64, 1))
          frames.push(flushFrame(qp, own, { length: 64 }))
          card.serve(...frames, atomicWriteFrame(qp, bytes, 0, dataOf(8, 2)))
        },
      },
      ({ card, command, image }) => {
        const flag = readBytes(card, 8)!
        if (flag.every((byte) => byte === 0)) return
        flags += 1
        const found = card.read(card.connect(), card.open('own'), 0, 0, 64)
        expect(found, `command ${command}, ${image}`).toEqual(dataOf(64, 1))
      },
    )
    expect(flags).toBeGreaterThan(0)
  })

  test('an agent that goes before its bell refuses who waits: NAK 0x63', () => {
    for (const how of ['host', 'other', 'silent'] as const) {
      const made = withBytes(WRITE_PERSIST_REGION)
      const { card, qp, bytes } = made
      const [frame] = writeFrames(qp, bytes, 0, dataOf(64, 1))
      card.serve(frame!)
      // Pushed, so that it is not refused as what was on its way.
      card.serve(flushFrame(card.connect(), card.provision({ name: 'own', ...OWN })))
      if (how === 'host') restartHost(card)
      if (how === 'silent') for (let i = 0; i < 3; i++) card.pass(FLUSH_TIMEOUT_US)
      else work(card, agentOfNewHost(card))
      expect(answersOf(card.serve(frame!)), how).toEqual(['NAK 63'])
    }
  })

  test.each([64, 600])('a WRITE_PERSIST of %i bytes without an agent is told so', (length) => {
    const made = withBytes(WRITE_PERSIST_REGION)
    const { card, qp, bytes, host } = made
    tellAgent(card, mad.AGENT_DETACH, 0)
    const before = host.part.live.slice(HOST_DATA_AT)
    const frames = placedFrames(qp, bytes, dataOf(length, 1))
    expect(answersOf(card.serve(...frames))).toEqual([`persist ${STATUS_NO_AGENT}`, 'ACK'])
    expect(card.counter('NO_AGENT')).toBe(1)
    // Nothing of it was stored, and the connection lives.
    expect(Buffer.compare(host.part.live.slice(HOST_DATA_AT), before)).toBe(0)
    const later = { ...made, agent: attachedAgent(card) }
    work(card, later.agent)
    expect(isTaken(insist(later, placedFrames(qp, bytes, dataOf(length, 2))))).toBe(true)
    cutPower(made, NOTHING)
    expect(readBytes(restarted(made), length)).toEqual(dataOf(length, 2))
  })

  test('a WRITE_PERSIST whose agent goes behind its first packet: NAK 0x63', () => {
    for (const length of [64, 600]) {
      const made = withBytes(WRITE_PERSIST_REGION)
      const { card, qp, bytes } = made
      const frames = placedFrames(qp, bytes, dataOf(length, 1))
      card.serve(...frames)
      card.serve(flushFrame(card.connect(), card.provision({ name: 'own', ...OWN })))
      tellAgent(card, mad.AGENT_DETACH, 0)
      expect(answersOf(card.serve(frames.at(-1)!)), `${length} bytes`).toEqual(['NAK 63'])
    }
  })

  test('where no job is left before the next start it is refused: NAK 0x63', () => {
    const made = withBytes(WRITE_PERSIST_REGION)
    const { card, qp, region, bytes } = made
    for (let i = 0; i < THROUGH_JOBS; i++) card.nvdimm.refuseWrites(FIRST_LANE + BURST_FRAMES + i)
    for (let i = 0; i < THROUGH_JOBS; i++) {
      card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
      work(card, made.agent!)
    }
    const [frame] = writeFrames(qp, bytes, 0, dataOf(64, 1))
    expect(answersOf(card.serve(frame!))).toEqual(['NAK 63'])
    const record = card.connect()
    const plain = writeFrames(record, region, 0, dataOf(64, 1))
    expect(answersOf(card.serve(...plain))).toEqual(['NAK 63'])
  })

  test('one that Linux repeats without its address waits for a job, too', () => {
    const made = withBytes(WRITE_PERSIST_REGION)
    const { card, qp, bytes } = made
    for (let i = 0; i < THROUGH_JOBS; i++) {
      card.serve(...writeFrames(card.connect(MTU), bytes, i * 64, dataOf(64, i + 1)))
    }
    const { psn } = qp
    const data = dataOf(8, 1)
    expect(answersOf(card.serve(atomicWriteFrame(qp, bytes, 2048, data)))).toEqual(['RNR'])
    work(card, made.agent!)
    const again = atomicWriteFrame(qp, { ...bytes, baseHigh: 0 }, 0, data, { psn })
    expect(isTaken(insist(made, [again]))).toBe(true)
    cutPower(made, NOTHING)
    expect(readBytes(restarted(made), 2056)!.slice(2048)).toEqual(data)
  })

  test('another request under its PSN is not the one that is awaited', () => {
    const made = withBytes(WRITE_PERSIST_REGION)
    const { card, qp, bytes } = made
    const { psn } = qp
    card.serve(...writeFrames(qp, bytes, 0, dataOf(64, 1)))
    work(card, made.agent!)
    const long = writeFrames(qp, bytes, 0, dataOf(128, 2), { psn })
    expect(answersOf(card.serve(...long))).toEqual(['RNR'])
    work(card, made.agent!)
    expect(answersOf(card.serve(...long))).toEqual(['ACK'])
    cutPower(made, NOTHING)
    expect(readBytes(restarted(made), 128)).toEqual(dataOf(128, 2))
  })

  test('more than there are jobs: each is taken in the end', () => {
    const made = withBytes(WRITE_PERSIST_REGION)
    const { card, bytes } = made
    const waiting = Array.from({ length: THROUGH_JOBS + 4 }, (_, i) => {
      const peer = card.connect(MTU)
      return writeFrames(peer, bytes, i * 64, dataOf(64, i + 1))[0]!
    })
    const answers = waiting.map((frame) => answersOf(card.serve(frame)).join())
    expect(new Set(answers)).toEqual(new Set(['RNR']))
    for (let round = 0; round < 3; round++) {
      work(card, made.agent!)
      for (const [i, frame] of waiting.entries()) {
        if (answers[i] === 'RNR') answers[i] = answersOf(card.serve(frame)).join()
      }
    }
    expect(new Set(answers)).toEqual(new Set(['ACK']))
    cutPower(made, NOTHING)
    const found = readBytes(restarted(made), waiting.length * 64)!
    for (let i = 0; i < waiting.length; i++) {
      expect(found.slice(i * 64, i * 64 + 64)).toEqual(dataOf(64, i + 1))
    }
  })

  test('a connection that has the place of one that waited is told nothing of it', () => {
    const made = withBytes(WRITE_PERSIST_REGION)
    const { card, qp, bytes } = made
    card.serve(writeFrames(qp, bytes, 0, dataOf(64, 1))[0]!)
    let other = qp
    do {
      disconnect(card, other)
      drawNumber(card.machine.packets, qp.number)
      other = card.connect(MTU, 0, 8)
    } while (other.number !== qp.number)
    const [frame] = writeFrames(other, bytes, 0, dataOf(64, 2))
    expect(answersOf(card.serve(frame!))).toEqual(['RNR'])
    work(card, made.agent!)
    expect(answersOf(card.serve(frame!))).toEqual(['ACK'])
    cutPower(made, NOTHING)
    expect(readBytes(restarted(made), 64)).toEqual(dataOf(64, 2))
  })

  test('X-1: an agent that goes between packets, followed by another or not: NAK 0x63', () => {
    for (const isFollowed of [false, true]) {
      const made = withBytes(WRITE_PERSIST_REGION)
      const { card, qp, bytes } = made
      const frames = writeFrames(qp, bytes, 0, dataOf(600, 1))
      expect(answersOf(card.serve(...frames.slice(0, 2)))).toEqual([])
      tellAgent(card, mad.AGENT_DETACH, 0)
      if (isFollowed) work(card, attachedAgent(card))
      expect(answersOf(card.serve(frames[2]!)), `followed: ${isFollowed}`).toEqual(['NAK 63'])
    }
  })

  test('a region that is removed refuses who waits', () => {
    const made = withBytes(WRITE_PERSIST_REGION)
    const { card, qp, bytes } = made
    const [frame] = writeFrames(qp, bytes, 0, dataOf(64, 1))
    card.serve(frame!)
    card.must(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, (body) => {
      body.set(new TextEncoder().encode('bytes'), mad.REGION_NAME)
    })
    work(card, made.agent!)
    expect(isTaken(card.serve(frame!))).toBe(false)
  })

  test('what waited is forgotten before its PSN comes round', () => {
    const qp = createQueuePair(0, 1, {
      ...{ peerNumber: 2, clientHigh: 0, clientLow: 1, pathMtu: MTU, protectionDomain: 0 },
      expectedPsn: 0 as Psn,
    })
    qp.cached.psn = 5
    forgetOld(qp)
    expect(qp.cached.psn).toBe(-1)
  })
})

describe('FLUSH of bytes through the caches', () => {
  for (const selectivity of [0, 1]) {
    const what = selectivity === 0 ? 'a range' : 'the whole region'
    test(`S1-M5, D-9: of ${what}: answered behind the bell, and durable then`, () => {
      const made = withBytes()
      const { card, qp, bytes } = made
      const data = dataOf(64, 1)
      expect(answersOf(card.serve(...writeFrames(qp, bytes, 128, data)))).toEqual(['ACK'])
      const flush = flushFrame(qp, bytes, { selectivity, vaLow: 128, length: 64 })
      expect(answersOf(card.serve(flush))).toEqual(['RNR'])
      expect(answersOf(card.serve(flush))).toEqual(['RNR'])
      work(card, made.agent!)
      expect(answersOf(card.serve(flush))).toEqual(['done'])
      cutPower(made, NOTHING)
      expect(readBytes(restarted(made), 192)!.slice(128)).toEqual(data)
    })
  }

  test('S1-M5: what it answers is durable, wherever power goes', THOROUGH, () => {
    let done = 0
    const data = dataOf(300, 2)
    explorePlaced(
      {
        begin: () => withBytes(),
        during: (made) => {
          const { qp, bytes, card } = made as WithBytes
          card.serve(...writeFrames(qp, bytes, 0, data))
          if (!card.machine.dead) insist(made, [flushFrame(qp, bytes, { length: 300 })])
        },
      },
      ({ sent, card, command, image }) => {
        if (!sent.some(({ opcode }) => opcode === RC_READ_RESPONSE_ONLY)) return
        done += 1
        expect(readBytes(card, 300), `command ${command}, ${image}`).toEqual(data)
      },
    )
    expect(done).toBeGreaterThan(0)
  })

  test('one that Linux repeats without its address is the one that is awaited', () => {
    const made = withBytes()
    const { card, qp, bytes } = made
    card.serve(...writeFrames(qp, bytes, 0, dataOf(64, 1)))
    const { psn } = qp
    expect(answersOf(card.serve(flushFrame(qp, bytes, { length: 64 })))).toEqual(['RNR'])
    work(card, made.agent!)
    const again = flushFrame(qp, { ...bytes, baseHigh: 0 }, { psn, length: 64 })
    expect(answersOf(card.serve(again))).toEqual(['done'])
  })

  test('nor does it then speak for more than it has asked for', () => {
    for (const how of ['confirmed', 'in a later life'] as const) {
      const made = withBytes()
      const { card, qp, bytes } = made
      card.serve(...writeFrames(qp, bytes, 0, dataOf(64, 1)))
      card.serve(...writeFrames(qp, bytes, 1024, dataOf(64, 2)))
      const { psn } = qp
      card.serve(flushFrame(qp, bytes, { length: 64 }))
      work(card, made.agent!)
      const again = flushFrame(qp, { ...bytes, baseHigh: 0 }, { psn, length: 64 })
      expect(answersOf(card.serve(again))).toEqual(['done'])
      const last = sendFrames(qp, dataOf(8, 1), { solicited: true })
      if (how === 'in a later life') {
        last[0] = flushFrame(qp, bytes, { psn: psn + 1, vaLow: 1024, length: 64 })
        // Pushed, so that it is not refused as what was on its way.
        card.serve(flushFrame(card.connect(), card.provision({ name: 'own', ...OWN })))
        restartHost(card)
        work(card, agentOfNewHost(card))
      }
      expect(answersOf(card.serve(...last)), how).toEqual(['NAK 63'])
    }
  })

  test('X-1: it covers what it names alone, wherever the WRITE stood before it', () => {
    for (const order of [
      [0, 1024],
      [1024, 0],
    ]) {
      for (const named of order) {
        const made = withBytes()
        const { card, qp, bytes } = made
        for (const at of order) card.serve(...writeFrames(qp, bytes, at, dataOf(64, 1)))
        const of = { vaLow: named, length: 64 }
        expect(isTaken(insist(made, [flushFrame(qp, bytes, of)]))).toBe(true)
        tellAgent(card, mad.AGENT_DETACH, 0)
        work(card, attachedAgent(card))
        const other = flushFrame(qp, bytes, { vaLow: 1024 - named, length: 64 })
        expect(answersOf(card.serve(other)), `${order}, of ${named}`).toEqual(['NAK 63'])
      }
    }
  })

  test('one without an address that none is awaited of is of the whole region', () => {
    const made = withBytes()
    const { card, qp, bytes } = made
    for (const at of [0, 1024]) card.serve(...writeFrames(qp, bytes, at, dataOf(64, 1 + at)))
    const { psn } = qp
    const asked: number[] = []
    made.agent!.onFlushed = ({ length }) => asked.push(length)
    const again = flushFrame(qp, { ...bytes, baseHigh: 0 }, { psn, length: 64 })
    expect(answersOf(card.serve(again))).toEqual(['RNR'])
    work(card, made.agent!)
    expect(asked).toEqual([BYTES])
    expect(answersOf(card.serve(again))).toEqual(['done'])
    cutPower(made, NOTHING)
    const found = readBytes(restarted(made), 1088)!
    for (const at of [0, 1024]) expect(found.slice(at, at + 64)).toEqual(dataOf(64, 1 + at))
  })

  test('one of no bytes is answered, and speaks for none', () => {
    const made = withBytes()
    const { card, qp, bytes } = made
    card.serve(...writeFrames(qp, bytes, 0, dataOf(64, 1)))
    expect(answersOf(card.serve(flushFrame(qp, bytes, { length: 0 })))).toEqual(['done'])
    const last = sendFrames(qp, dataOf(8, 1), { solicited: true })
    expect(answersOf(card.serve(...last))).toEqual(['NAK 63'])
  })

  test('one of other bytes under its PSN is not the one that is awaited', () => {
    const made = withBytes()
    const { card, qp, bytes } = made
    card.serve(...writeFrames(qp, bytes, 1024, dataOf(64, 2)))
    const { psn } = qp
    card.serve(flushFrame(qp, bytes, { length: 64 }))
    work(card, made.agent!)
    const other = flushFrame(qp, bytes, { psn, vaLow: 1024, length: 64 })
    expect(answersOf(card.serve(other))).toEqual(['RNR'])
    work(card, made.agent!)
    expect(answersOf(card.serve(other))).toEqual(['done'])
    cutPower(made, NOTHING)
    expect(readBytes(restarted(made), 1088)!.slice(1024)).toEqual(dataOf(64, 2))
  })

  test('nor is an ATOMIC WRITE without an address, which would go anywhere', () => {
    const made = withBytes()
    const { card, qp, bytes } = made
    const own = card.provision({ name: 'own', ...OWN })
    const owner = card.connect()
    card.serve(...writeFrames(qp, bytes, 0, dataOf(64, 1)))
    const { psn } = qp
    card.serve(flushFrame(qp, bytes, { length: 64 }))
    work(card, made.agent!)
    const nowhere = atomicWriteFrame(qp, { ...bytes, baseHigh: 0 }, 0, dataOf(8, 9), { psn })
    const sent = card.serve(...writeFrames(owner, own, 512, dataOf(64, 3)), nowhere)
    expect(answersOf(sent)).toEqual(['ACK', 'NAK 62'])
    expect(card.read(owner, own, 0, 0, 64, 512)).toEqual(dataOf(64, 3))
  })

  test('X-1: of bytes of an earlier life of the agent: NAK 0x63, of others it is answered', () => {
    const made = withBytes()
    const { card, qp, bytes } = made
    const elsewhere = card.connect(MTU)
    card.serve(...writeFrames(qp, bytes, 0, dataOf(64, 1)))
    card.serve(...writeFrames(elsewhere, bytes, 1024, dataOf(64, 1)))
    const own = card.provision({ name: 'own', ...OWN })
    // All of it has arrived with the host, in its caches.
    card.serve(flushFrame(card.connect(), own))
    restartHost(card)
    const agent = agentOfNewHost(card)
    work(card, agent)
    expect(answersOf(card.serve(flushFrame(qp, bytes, { length: 64 })))).toEqual(['NAK 63'])
    const [, apart] = [0, flushFrame(elsewhere, bytes, { length: 64 })]
    expect(answersOf(card.serve(apart))).toEqual(['RNR'])
    work(card, agent)
    expect(answersOf(card.serve(apart))).toEqual(['done'])
    const late = flushFrame(elsewhere, bytes, { vaLow: 1000, length: 64 })
    expect(answersOf(card.serve(late))).toEqual(['NAK 63'])
  })

  test('what a FLUSH has covered is not asked for again by a later life', () => {
    const made = withBytes()
    const { card, qp, bytes } = made
    card.serve(...writeFrames(qp, bytes, 0, dataOf(64, 1)))
    expect(isTaken(insist(made, [flushFrame(qp, bytes, { selectivity: 1 })]))).toBe(true)
    restartHost(card)
    const agent = agentOfNewHost(card)
    work(card, agent)
    const later = { ...made, agent }
    expect(isTaken(insist(later, [flushFrame(qp, bytes, { selectivity: 1 })]))).toBe(true)
    expect(readBytes(card, 64)).toEqual(dataOf(64, 1))
  })

  test('a confirmation is had behind the FLUSH of all that was stored, and not before', () => {
    for (const [length, answer] of [
      [64, RC_SEND_ONLY],
      [32, NAK_OPERATIONAL],
    ] as const) {
      const made = withBytes()
      const { card, qp, bytes } = made
      card.serve(...writeFrames(qp, bytes, 0, dataOf(64, 1)))
      insist(made, [flushFrame(qp, bytes, { length })])
      const sent = card.serve(...sendFrames(qp, dataOf(8, 1), { solicited: true }))
      expect(sent.some((one) => one.opcode === answer || one.syndrome === answer)).toBe(true)
    }
  })

  test('nor is a WRITE confirmed by its own immediate', () => {
    const made = withBytes()
    const { card, qp, bytes } = made
    const asks = { immediate: 7, solicited: true }
    const sent = card.serve(...writeFrames(qp, bytes, 0, dataOf(64, 1), asks))
    expect(answersOf(sent)).toEqual(['NAK 63'])
  })

  test('without an agent, and of a region that is being made, it says what is the case', () => {
    const made = withBytes()
    const { card, qp, bytes } = made
    const shape = { kind: mad.KIND_BYTES, length: 4096, placement: PLACEMENT_THROUGH }
    const young = card.provision({ name: 'young', ...shape })
    const other = card.connect()
    expect(answersOf(card.serve(flushFrame(other, young)))).toEqual(['RNR'])
    work(card, made.agent!)
    for (let i = 0; i < 3; i++) card.pass(FLUSH_TIMEOUT_US)
    card.serve(...writeFrames(qp, bytes, 0, dataOf(64, 1)))
    card.pass(FLUSH_TIMEOUT_US)
    const flush = flushFrame(qp, bytes, { length: 64 })
    let last = answersOf(card.serve(flush))
    for (let i = 0; i < 4 && last[0] === 'RNR'; i++) {
      card.pass(FLUSH_TIMEOUT_US)
      last = answersOf(card.serve(flush))
    }
    expect(last).toEqual(['NAK 63'])
  })

  test('more than the agent is asked for at once goes in pieces', () => {
    const length = FLUSH_BYTES_MAX + 8192
    const { card, agent } = throughCaches(1 << 17, length + (1 << 16))
    const shape = { kind: mad.KIND_BYTES, length, placement: PLACEMENT_THROUGH }
    const bytes = card.provision({ name: 'bytes', ...shape })
    work(card, agent)
    const qp = card.connect()
    const pieces: number[] = []
    agent.onFlushed = (request) => pieces.push(request.length)
    const at = FLUSH_BYTES_MAX + 4096
    card.serve(...writeFrames(qp, bytes, at, dataOf(64, 1)))
    const flush = flushFrame(qp, bytes, { selectivity: 1 })
    expect(answersOf(card.serve(flush))).toEqual(['RNR'])
    work(card, agent)
    expect(answersOf(card.serve(flush))).toEqual(['done'])
    expect(pieces).toEqual([FLUSH_BYTES_MAX, 8192])
  })

  test('of a region of records it waits for those of its connection', () => {
    const made = placed(DDIO_ON)
    const { card, qp, region } = made
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    const flush = flushFrame(qp, region)
    expect(answersOf(card.serve(flush))).toEqual(['RNR'])
    work(card, made.agent!)
    expect(answersOf(card.serve(flush))).toEqual(['done'])
  })
})

describe('a plain WRITE of a record', () => {
  const agentOf = (made: Placed): Agent => made.agent!
  for (const copies of [2, 3, 4]) {
    for (const length of [64, 600]) {
      const what = `of ${length} bytes in ${copies} copies`
      const begin = (): Placed => {
        const made = placed(DDIO_ON, { copies, capacity: 600 })
        return { ...made, qp: made.card.connect(MTU) }
      }

      test(`S1-M5, P2-5, P2-9: ${what}: not taken before the last bell`, () => {
        const made = begin()
        const { card, qp, region } = made
        const frames = writeFrames(qp, region, 0, dataOf(length, 1), { vaHigh: 1 })
        const sent = card.serve(...frames)
        for (let bell = 0; bell < copies; bell++) {
          const again = bell === 0 ? sent : card.serve(frames.at(-1)!)
          expect(answersOf(again).at(-1), `bell ${bell}`).toBe('RNR')
          agentOf(made).poll()
          expect(answersOf(card.pass(0))).toEqual([])
        }
        expect(answersOf(card.serve(frames.at(-1)!))).toEqual(['persist 0', 'ACK'])
        cutPower(made, NOTHING)
        const next = restarted(made)
        const found = next.read(next.connect(), next.open(), 1, VIEW_DATA, length)
        expect(found).toEqual(dataOf(length, 1))
      })

      const whole = thoroughIf(copies > 2 || length > 64)
      test(`S1-M5: ${what}: old or new, and new once acknowledged`, whole, () => {
        let taken = 0
        const old = dataOf(length, 3)
        const data = dataOf(length, 2)
        explorePlaced(
          {
            begin: () => {
              const made = begin()
              const { qp, region } = made
              insist(made, writeFrames(qp, region, 0, old))
              return made
            },
            during: (made) => {
              insist(made, writeFrames(made.qp, made.region, 0, data))
            },
          },
          ({ sent, card, command, image }) => {
            const found = card.read(card.connect(), card.open(), 0, VIEW_DATA, length)!
            const isNew = Buffer.compare(found, data) === 0
            const said = `command ${command}, ${image}`
            expect(isNew || Buffer.compare(found, old) === 0, said).toBe(true)
            const last = sent.some(({ paeth }) => paeth !== null && paeth.status === 0)
            if (!last) return
            taken += 1
            expect(isNew, said).toBe(true)
          },
        )
        expect(taken).toBeGreaterThan(0)
      })
    }
  }

  test('P1-12: two to one slot from two connections are done one after the other', () => {
    const made = placed(DDIO_ON)
    const { card, region } = made
    const frames = [1, 2].map((seed) => {
      const peer = card.connect()
      return writeFrames(peer, region, 0, dataOf(64, seed))[0]!
    })
    for (const frame of frames) expect(answersOf(card.serve(frame))).toEqual(['RNR'])
    work(card, agentOf(made))
    for (const frame of frames) expect(isTaken(card.serve(frame))).toBe(true)
    expect(card.read(card.connect(), region, 0, VIEW_DATA, 64)).toEqual(dataOf(64, 2))
  })

  test('P1-12: nor is one record without an operation taken for another one', () => {
    const made = placed(DDIO_ON)
    const { card, qp, region } = made
    const operation = 0
    card.serve(
      ...[1, 2].flatMap((seed) => persistFrames(qp, region, 0, dataOf(64, seed), { operation })),
    )
    work(card, agentOf(made))
    expect(card.read(qp, region, 0, VIEW_DATA, 64)).toEqual(dataOf(64, 2))
  })

  test('without an agent it is refused by NAK 0x63, before and behind its first bell', () => {
    for (const bells of [0, 1]) {
      const made = placed(DDIO_ON)
      const { card, qp, region } = made
      const [frame] = writeFrames(qp, region, 0, dataOf(64, 1))
      card.serve(frame!)
      for (let bell = 0; bell < bells; bell++) {
        agentOf(made).poll()
        card.idle()
      }
      for (let i = 0; i < 3; i++) card.pass(FLUSH_TIMEOUT_US)
      expect(answersOf(card.serve(frame!))).toEqual(['NAK 63'])
    }
  })

  /** A region of records of several packets. */
  function withLong(): Placed & { readonly frames: Uint8Array[]; readonly psn: number } {
    const made = placed(DDIO_ON, { capacity: 620 })
    const qp = made.card.connect(MTU)
    const { psn } = qp
    return { ...made, qp, frames: writeFrames(qp, made.region, 0, dataOf(600, 1)), psn }
  }

  /** The card has no record in the slot, now and when it has started again. */
  function expectNoRecord(made: Placed): void {
    work(made.card, agentOf(made))
    const first = (card: TestCard, region: TestRegion): Uint8Array | null =>
      card.read(card.connect(), region, 0, VIEW_DATA, 64)
    expect(first(made.card, made.region)).toEqual(new Uint8Array(64))
    cutPower(made, NOTHING)
    const next = restarted(made)
    expect(first(next, next.open())).toEqual(new Uint8Array(64))
  }

  test.each([
    ['shorter', 580],
    ['longer', 620],
  ])('whose last packet is %s than its first one said is refused: NAK 0x61', (_, length) => {
    const made = withLong()
    const { card, qp, region, frames, psn } = made
    card.serve(...frames.slice(0, -1))
    const others = writeFrames(qp, region, 0, dataOf(length, 1), { psn })
    expect(answersOf(card.serve(others.at(-1)!))).toEqual(['NAK 61'])
    expectNoRecord(made)
  })

  test('P1-12: that finds no save energy behind its first packet is refused at once', () => {
    const made = withLong()
    const { card, frames } = made
    card.serve(...frames.slice(0, -1))
    card.nvdimm.armed = false
    expect(answersOf(card.serve(frames.at(-1)!))).toEqual(['NAK 63'])
    card.nvdimm.armed = true
    expectNoRecord(made)
  })

  test('R1-A4: that has lost its buffer to another peer is refused at its end: NAK 0x63', () => {
    const made = withLong()
    const { card, region, frames } = made
    card.serve(...frames.slice(0, -1))
    // All others, by the same peer: who holds none is owed the oldest.
    for (let i = 1; i < STAGING_BUFFERS; i++) {
      card.serve(persistFrames(card.connect(MTU), region, 1, dataOf(600, i))[0]!)
    }
    card.pass(GATHERING_US)
    const other = new Stranger(card, 77)
    const own = other.serve(...persistFrames(other.connect(MTU), region, 1, dataOf(600, 50)))
    expect(answersOf(own)).toEqual(['ACK'])
    expect(answersOf(card.serve(frames.at(-1)!))).toEqual(['NAK 63'])
    expectNoRecord(made)
  })

  test('P2-9: of a peer that knows no PERSIST_ACK is acknowledged, and no more is said', () => {
    const made = placed(DDIO_ON)
    const { card, region } = made
    expect(publish(card, { name: 'records', form: mad.FORM_CAPABILITY }).fault).toBe('PASS')
    const { qpn, startingPsn, localId } = repOf(card.serve(reqFrame(CLIENT)))
    card.serve(idsFrame(CLIENT, cm.CM_RTU, localId))
    const qp = { number: qpn, peer: CLIENT.qpn, mtu: 1024, psn: startingPsn, operation: 0 }
    const [frame] = writeFrames(qp, region, 0, dataOf(64, 1))
    expect(answersOf(card.serve(frame!))).toEqual(['RNR'])
    work(card, agentOf(made))
    expect(answersOf(card.serve(frame!))).toEqual(['ACK'])
    cutPower(made, NOTHING)
    const next = restarted(made)
    expect(next.read(next.connect(), next.open(), 0, VIEW_DATA, 64)).toEqual(dataOf(64, 1))
  })

  test('a long life of plain WRITEs, cuts and agents loses nothing', THOROUGH, () => {
    const random = new Random(SEED)
    const made = placed(DDIO_ON)
    let at: Placed = made
    let last: Uint8Array | null = null
    let sent: Uint8Array | null = null
    for (let life = 0; life < 60; life++) {
      const data = dataOf(64, life + 1)
      sent = data
      const [frame] = writeFrames(at.qp, at.region, 0, data)
      let isDone = false
      for (let step = random.below(8); step > 0 && !isDone; step--) {
        isDone = isTaken(at.card.serve(frame!))
        if (random.below(2) === 0) agentOf(at).poll()
        at.card.idle()
      }
      if (isDone) last = data
      cutPower(at, { random })
      const card = restarted(at)
      const found = card.read(card.connect(), card.open(), 0, VIEW_DATA, 64)!
      const isSent = Buffer.compare(found, sent) === 0
      const isLast = Buffer.compare(found, last ?? new Uint8Array(64)) === 0
      expect(isSent || (isLast && !isDone), `life ${life}, SEED=${SEED}`).toBe(true)
      last = found
      const agent = agentOfNewHost(card)
      work(card, agent)
      at = { card, host: card.host!, region: card.open(), qp: card.connect(), agent }
    }
  })
})
