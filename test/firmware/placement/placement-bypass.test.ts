/**
 * Placement bypass: records in the host's memory, past its caches, durable by a DMA read of one
 * byte behind the writes (source 2, flow 1; S901 to S909).
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { DDIO_OFF, DDIO_ON, NO_SNOOP_HONOURED } from '../../../boards/emulator/host/host-memory.ts'
import type { Watch } from '../../../boards/emulator/run/machine.ts'
import { TRUNCATED } from '../../../firmware/board/fault.ts'
import {
  AUX,
  COMMAND_WORDS,
  COPY,
  COPY_CLEAN,
  FENCE,
  FROM,
  HOST_SPACE,
  LENGTH,
  NO_SNOOP,
  OWNER,
  SKIP,
  TO,
  TRANSMIT,
} from '../../../firmware/board/hal.ts'
import { VIEW_DATA } from '../../../firmware/burst/view.ts'
import { HOST_DATA_AT, PLACEMENT_BYPASS, PLACEMENT_LOCAL } from '../../../firmware/medium/region.ts'
import { DATA_AT, LANES_AT } from '../../../firmware/medium/superblock.ts'
import { u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { WRITE_PERSIST_ONLY } from '../../../firmware/wire/opcode.ts'
import { MECHANISM_LOCAL_FLUSH, MECHANISM_LSB_READ } from '../../../firmware/wire/persist-ack.ts'
import {
  believe,
  type Crash,
  cutPower,
  explorePlaced,
  type Placed,
  placed,
  restarted,
  type Scenario,
  SEED,
} from '../../support/cards/placed.ts'
import {
  dataOf,
  persistFrames,
  type Sent,
  TestCard,
  withPassingCards,
} from '../../support/cards/test-card.ts'
import { THOROUGH } from '../../support/run/thorough.ts'
import { frameOf, hexOf } from '../../support/wire/frames.ts'
import { flushFrame, writeFrames } from '../../support/wire/requests.ts'

const isHost = (address: number): boolean => address >= HOST_SPACE

/** Two versions of a record that differ in two chunks of data. */
function pair(seed: number): readonly [Uint8Array, Uint8Array] {
  const first = dataOf(64, seed)
  const second = first.slice()
  second.set(dataOf(16, seed + 1), 24)
  return [first, second]
}

function acks(sent: readonly Sent[]): NonNullable<Sent['paeth']>[] {
  return sent.flatMap(({ paeth }) => (paeth === null ? [] : [paeth]))
}

/** What a list did, a letter each: stores, fences, reads of one byte past the caches, frames. */
function script(card: TestCard, work: () => void): string {
  let text = ''
  card.machine.observe({
    onCommand: (_, op, words, at) => {
      const to = words[at + TO]!
      const from = words[at + FROM]!
      if ((op === COPY || op === COPY_CLEAN) && isHost(to)) text += 'W'
      else if (op === COPY && isHost(from) && words[at + LENGTH] === 1) {
        text += words[at + AUX] === NO_SNOOP ? 'r' : 'c'
      } else if (op === COPY_CLEAN) text += 'l'
      else if (op === FENCE) text += 'F'
      else if (op === TRANSMIT) text += 'T'
    },
  })
  work()
  card.machine.observe({})
  return text
}

describe('a record in the host’s memory', () => {
  test('is written, read, and read again after a restart', () => {
    const made = placed()
    const { card, region, qp } = made
    const data = dataOf(64, 1)
    const sent = card.serve(...persistFrames(qp, region, 1, data))
    expect(acks(sent).map(({ status, copies }) => [status, copies])).toEqual([[0, 2]])
    expect(card.read(qp, region, 1, VIEW_DATA, 64)).toEqual(data)
    cutPower(made, { random: new Random(SEED), strategy: 'none' })
    const next = restarted(made)
    expect(next.read(next.connect(), next.open(), 1, VIEW_DATA, 64)).toEqual(data)
  })

  test('lies there, and its lanes in the card’s own NVDIMM', () => {
    const { card, host, region, qp } = placed()
    const before = host.part.durable.slice()
    const lanes = card.nvdimm.durable.slice(LANES_AT, LANES_AT + 2048)
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    expect(host.part.durable.slice(0, HOST_DATA_AT)).toEqual(before.slice(0, HOST_DATA_AT))
    expect(host.part.durable.slice(HOST_DATA_AT)).not.toEqual(before.slice(HOST_DATA_AT))
    expect(card.nvdimm.durable.slice(LANES_AT, LANES_AT + 2048)).not.toEqual(lanes)
  })

  test('S905, P2-13, P2-14: one byte is read behind the writes and the fence of each stage', () => {
    for (const copies of [2, 3, 4]) {
      const { card, region, qp } = placed(DDIO_OFF, { copies })
      const frames = persistFrames(qp, region, 0, dataOf(64, 1), { wait: copies })
      const done = script(card, () => card.serve(...frames))
      // Lanes, first copy, the phase with the first line of the client, then copy by copy, the
      // second line beside the second of them; the answer behind the last.
      expect(done.replace(/T/, '')).toBe(`lFWFrllFWlFr${'WFr'.repeat(copies - 2)}T`)
    }
  })

  test('P2-14: each group has its own reads, whether one came just before or not', () => {
    const { card, region, qp } = placed()
    const reads = [0, 1, 0].map((slot) => {
      const frames = persistFrames(qp, region, slot, dataOf(64, slot))
      return script(card, () => card.serve(...frames)).replaceAll(/[^r]/g, '').length
    })
    expect(reads).toEqual([2, 2, 2])
  })

  test('P2-13, P2-14: every write into the host asks for no-snoop, and so does every read', () => {
    const { card, region, qp } = placed()
    const asked: boolean[] = []
    card.machine.observe({
      onCommand: (_, op, words, at) => {
        const writes = (op === COPY || op === COPY_CLEAN) && isHost(words[at + TO]!)
        const reads = op === COPY && isHost(words[at + FROM]!)
        if (writes || reads) asked.push((words[at + AUX]! & NO_SNOOP) !== 0)
      },
    })
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    card.machine.observe({})
    expect(asked).toEqual([true, true, true, true])
  })

  test('P2-14: no acknowledgement leaves before the read that earns it', () => {
    for (const wait of [1, 2]) {
      const { card, region, qp } = placed()
      const frames = persistFrames(qp, region, 0, dataOf(64, 1), { wait, ackRequest: false })
      const done = script(card, () => card.serve(...frames))
      const answer = done.lastIndexOf('T')
      const earned = done.slice(0, answer).replaceAll(/[^r]/g, '').length
      expect(earned, done).toBe(wait)
    }
  })

  test('P2-15: the PERSIST_ACK says that a read made it durable; of a local record, not', () => {
    const { card, region, qp } = placed()
    const local = card.provision({ name: 'local' })
    const frames = [
      ...persistFrames(qp, region, 0, dataOf(64, 1)),
      ...persistFrames(qp, local, 0, dataOf(64, 2)),
      ...persistFrames(qp, region, 1, dataOf(64, 3)),
    ]
    const ranges = acks(card.serve(...frames))
    expect(ranges.map(({ mechanism, records }) => [mechanism, records])).toEqual([
      [MECHANISM_LSB_READ, 1],
      [MECHANISM_LOCAL_FLUSH, 1],
      [MECHANISM_LSB_READ, 1],
    ])
    const again = acks(card.serve(...frames))
    expect(again.map(({ mechanism }) => mechanism)).toEqual([
      MECHANISM_LSB_READ,
      MECHANISM_LOCAL_FLUSH,
      MECHANISM_LSB_READ,
    ])
  })
})

/** The first record of a part is overwritten by one that is like it. */
function overwrite(shape: Partial<Scenario> & { wait?: number; copies?: number } = {}): {
  scenario: Scenario
  judge: (crash: Crash) => void
  complaints: string[]
} {
  const { wait = 2, copies = 2, ...rest } = shape
  const [old, next] = pair(1)
  const complaints: string[] = []
  const scenario: Scenario = {
    begin: () => {
      const made = placed(DDIO_OFF, { copies })
      made.card.serve(...persistFrames(made.qp, made.region, 0, old))
      made.card.idle()
      return made
    },
    during: ({ region, qp }, card) => {
      card.serve(...persistFrames(qp, region, 0, next, { wait }))
      card.idle()
    },
    ...rest,
  }
  const judge = ({ image, sent, card }: Crash): void => {
    const acknowledged = acks(sent).some(({ status }) => status === 0)
    const found = card.read(card.connect(), card.open(), 0, VIEW_DATA, 64)
    const is =
      found === null ? 'lost' : same(found, next) ? 'new' : same(found, old) ? 'old' : 'torn'
    if (is === 'new' || (is === 'old' && !acknowledged)) return
    complaints.push(`${image}: ${is}${acknowledged ? ', acknowledged' : ''}`)
  }
  return { scenario, judge, complaints }
}

function same(one: Uint8Array, other: Uint8Array): boolean {
  return Buffer.compare(one, other) === 0
}

describe('X-2: a cut at every command', () => {
  for (const [wait, copies] of [
    [1, 2],
    [2, 2],
    [2, 3],
  ] as const) {
    test(
      `leaves the record old or new, and new once acknowledged, at ${wait}of${copies}`,
      THOROUGH,
      () => {
        const { scenario, judge, complaints } = overwrite({ wait, copies })
        const images = explorePlaced(scenario, judge)
        expect(complaints.slice(0, 5)).toEqual([])
        expect(images).toBeGreaterThan(1000)
      },
    )
  }

  test('of the recovery, too: the next one finds the same record', THOROUGH, () => {
    const { scenario, complaints } = overwrite()
    const [old, next] = pair(1)
    let recoveries = 0
    const cutAt = (command: number, at: number): boolean => {
      const made = scenario.begin()
      made.card.machine.armCut(command)
      scenario.during(made, made.card)
      const random = new Random(SEED + 100 * command + at)
      cutPower(made, { random })
      if (!cutInStart(made, at)) return false
      cutPower(made, { random })
      const card = restarted(made)
      const found = card.read(card.connect(), card.open(), 0, VIEW_DATA, 64)
      expect(found !== null && (same(found, old) || same(found, next)), `${at}`).toBe(true)
      return true
    }
    for (const command of [9, 10, 14, 16]) {
      for (let at = 0; withPassingCards(() => cutAt(command, at)); at += 1) recoveries += 1
    }
    expect(complaints).toEqual([])
    expect(recoveries).toBeGreaterThan(40)
  })
})

/** Starts the part and takes the power away at a command of the start; false if it was done. */
function cutInStart(made: Placed, at: number): boolean {
  const stop = new Error('no power')
  const watch: Watch = {
    onCommand: (number) => {
      if (number === at) throw stop
    },
  }
  try {
    restarted(made, watch)
    return false
  } catch (error) {
    if (error !== stop) throw error
    return true
  }
}

describe('what goes wrong without it', THOROUGH, () => {
  const NONE = -1

  /** Leaves out the `which`-th read of one byte, counted from 0. */
  function without(which: number): Watch {
    let reads = 0
    let isRead = false
    return {
      onCommand: (_, op, words, at) => {
        isRead = op === COPY && isHost(words[at + FROM]!) && words[at + LENGTH] === 1
      },
      replace: (_, op) => {
        if (!isRead) return op
        reads += 1
        return reads - 1 === which ? SKIP : op
      },
    }
  }

  test('P2-14: the last read left out: what is acknowledged as two copies is one', () => {
    for (const [which, wrong] of [
      [NONE, false],
      [1, true],
    ] as const) {
      const { scenario } = overwrite()
      const complaints: string[] = []
      explorePlaced({ ...scenario, begin: () => begun(scenario, without(which)) }, (crash) => {
        const [one, other] = crash.copies
        if (acks(crash.sent).length > 0 && !same(one!, other!)) complaints.push(crash.image)
      })
      expect(complaints.length > 0).toBe(wrong)
    }
  })

  test('P2-14: the first read left out: what is acknowledged behind one copy may be gone', () => {
    const { scenario, judge, complaints } = overwrite({ wait: 1 })
    explorePlaced(
      { ...scenario, begin: () => begun(scenario, without(0)) },
      judge,
      () => complaints.length > 0,
    )
    expect(complaints[0]).toMatch(/lost|torn|old, acknowledged/)
  })

  test('P2-14: the read in front of the writes instead of behind them loses data', () => {
    const { scenario, judge, complaints } = overwrite({ wait: 1 })
    explorePlaced(
      { ...scenario, begin: () => begun(scenario, readingFirst()) },
      judge,
      () => complaints.length > 0,
    )
    expect(complaints[0]).toMatch(/lost|torn|old, acknowledged/)
  })

  /** Moves the read of one byte in front of the first write of its stage. */
  function readingFirst(): Watch {
    let moved = false
    return {
      onCommand: (_, op, words, at) => {
        if (op !== COPY_CLEAN || !isHost(words[at + TO]!)) {
          if (op === FENCE) moved = false
          return
        }
        if (moved) return
        moved = true
        let read = at
        while (words[read + LENGTH] !== 1 || !isHost(words[read + FROM]!)) read += COMMAND_WORDS
        const command = words.slice(read, read + COMMAND_WORDS)
        words.copyWithin(at + COMMAND_WORDS, at, read)
        words.set(command, at)
      },
    }
  }

  test('P2-12: with the writes going into the cache, the read makes nothing durable', () => {
    const { scenario, judge, complaints } = overwrite({ wait: 1 })
    const begin = (): Placed => {
      const made = scenario.begin()
      made.host.platform = DDIO_ON
      return made
    }
    explorePlaced({ ...scenario, begin }, judge, () => complaints.length > 0)
    expect(complaints.length).toBeGreaterThan(0)
  })

  function begun(scenario: Scenario, watch: Watch): Placed {
    const made = scenario.begin()
    made.card.machine.observe(watch)
    return made
  }
})

describe('P2-12: nothing is written that is not proven', () => {
  test('after a restart records are read, and refused until the placement is proven again', () => {
    const made = placed()
    made.card.serve(...persistFrames(made.qp, made.region, 0, dataOf(64, 1)))
    cutPower(made, { random: new Random(SEED) })
    const card = restarted(made)
    const region = card.open()
    const qp = card.connect()
    const status = (): number | undefined =>
      acks(card.serve(...persistFrames(qp, region, 0, dataOf(64, 2))))[0]?.status
    expect(status()).toBe(0x90)
    expect(card.read(qp, region, 0, VIEW_DATA, 64)).toEqual(dataOf(64, 1))
    expect(card.counter('PLACEMENT_UNKNOWN')).toBe(1)
    believe(card, PLACEMENT_BYPASS)
    expect(status()).toBe(0)
  })

  test('P2-12: a region of another placement than was proven is not made', () => {
    const { card } = placed()
    expect(card.tryProvision({ name: 'other', placement: 2 }).fault).toBe('PLACEMENT_WRONG')
    expect(card.tryProvision({ name: 'other', placement: 3 }).fault).toBe('PLACEMENT_WRONG')
    expect(card.tryProvision({ name: 'other', placement: PLACEMENT_BYPASS }).fault).toBe('PASS')
    expect(card.tryProvision({ name: 'third', placement: PLACEMENT_LOCAL }).fault).toBe('PASS')
  })

  test('regions of both memories lie one behind the other, and end with their memory', () => {
    const { card, host } = placed()
    const names: string[] = []
    for (let i = 0; ; i++) {
      const { fault } = card.tryProvision({ name: `r${i}`, slots: 8, placement: PLACEMENT_BYPASS })
      if (fault !== 'PASS') {
        expect(fault).toBe('NO_SPACE')
        break
      }
      names.push(`r${i}`)
    }
    expect(names.length).toBe(Math.floor((host.bytes - HOST_DATA_AT) / 8192) - 1)
    expect(card.tryProvision({ name: 'local' }).fault).toBe('PASS')
    const again = restarted({ card, host })
    for (const name of [...names, 'local', 'records']) expect(again.open(name).name).toBe(name)
  })

  test('a part whose host’s memory is gone is refused, and says so', () => {
    const { card, host } = placed()
    const lonely = new TestCard(card.nvdimm)
    expect(lonely.status()[mad.PART_STATE]).toBe(mad.STATE_REFUSED)
    expect(lonely.status()[mad.PART_FAULT]).toBe(TRUNCATED)
    expect(restarted({ card, host }).status()[mad.PART_STATE]).toBe(mad.STATE_SERVING)
  })

  test(
    'no-snoop past the cache serves as well: every write of a record asks for it',
    THOROUGH,
    () => {
      const { scenario, judge, complaints } = overwrite()
      const begin = (): Placed => {
        const made = scenario.begin()
        made.host.platform = NO_SNOOP_HONOURED
        return made
      }
      expect(explorePlaced({ ...scenario, begin }, judge)).toBeGreaterThan(1000)
      expect(complaints).toEqual([])
    },
  )
})

describe('a region of bytes in the host’s memory', () => {
  const WRITE_PERSIST_REGION = 2

  interface Bytes extends Placed {
    readonly bytes: ReturnType<TestCard['provision']>
  }

  function withBytes(flags = WRITE_PERSIST_REGION): Bytes {
    const made = placed()
    const shape = { name: 'bytes', kind: mad.KIND_BYTES, length: 4096, flags }
    return { ...made, bytes: made.card.provision({ ...shape, placement: PLACEMENT_BYPASS }) }
  }

  /** What the host's memory has of the region, behind its caches. */
  function contentOf({ host }: Placed): Uint8Array {
    const at = HOST_DATA_AT + 2 * 4096
    return host.part.durable.slice(at, at + 256)
  }

  test('P2-5, P2-14: registered write-persist: what is acknowledged is durable', () => {
    let acknowledged = 0
    for (let command = 0; ; command++) {
      const made = withBytes()
      const { card, qp, bytes } = made
      const data = dataOf(256, 1)
      card.machine.armCut(command)
      const sent = card.serve(...writeFrames(qp, bytes, 0, data))
      const ended = !card.machine.dead
      cutPower(made, { random: new Random(SEED), strategy: 'none' })
      if (sent.some(({ syndrome }) => syndrome === 0x1f)) {
        acknowledged += 1
        expect(same(contentOf(made), data), `command ${command}`).toBe(true)
      }
      if (ended) break
    }
    expect(acknowledged).toBeGreaterThan(0)
  })

  test('P2-11, P2-15: a WRITE_PERSIST of bytes says that a read made it durable', () => {
    const { card, qp, bytes } = withBytes()
    const frame = frameOf({
      bth: { opcode: WRITE_PERSIST_ONLY, destQp: qp.number, psn: qp.psn, ackRequest: true },
      reth: { vaHigh: bytes.baseHigh, rkey: bytes.rkey, length: 64 },
      pweth: { wait: 1, wantsAck: true, operationLow: 1 },
      payload: dataOf(64, 1),
    })
    const sent = acks(card.serve(frame))
    expect(sent.map(({ status, mechanism }) => [status, mechanism])).toEqual([
      [0, MECHANISM_LSB_READ],
    ])
  })

  test('P2-14: another queue pair’s media error does not leave the read out', () => {
    const made = withBytes()
    const { card, qp, bytes } = made
    const local = card.provision({ name: 'local', kind: mad.KIND_BYTES, length: 4096 })
    const other = card.connect()
    card.nvdimm.refuseWrites(DATA_AT / 64)
    const data = dataOf(256, 1)
    const sent = card.serve(
      ...writeFrames(qp, bytes, 0, data),
      ...writeFrames(other, local, 0, dataOf(64, 2)),
      ...writeFrames(other, bytes, 1024, dataOf(64, 3)),
    )
    cutPower(made, { random: new Random(SEED), strategy: 'none' })
    const acknowledged = sent.filter(({ syndrome, psn }) => syndrome === 0x1f && psn === qp.psn - 1)
    expect(acknowledged.length).toBe(1)
    expect(same(contentOf(made), data)).toBe(true)
  })

  test('H5, R1-A1: where the read fails, nothing is acknowledged, and the part serves on', () => {
    const made = withBytes()
    const { card, host, qp, bytes } = made
    card.machine.observe({
      onCommand: (_, op, words, at) => {
        const from = words[at + FROM]!
        if (op !== COPY || !isHost(from) || words[at + LENGTH] !== 1) return
        host.arrive()
        host.part.poison(Math.floor((from - HOST_SPACE) / 64))
      },
    })
    const sent = card.serve(...writeFrames(qp, bytes, 0, dataOf(256, 1)))
    expect(sent.map(({ syndrome }) => syndrome)).toEqual([0x63])
    card.machine.observe({})
    expect(card.status()[mad.PART_STATE]).toBe(mad.STATE_SERVING)
    const refused = card.serve(...writeFrames(card.connect(), bytes, 0, dataOf(8, 1)))
    expect(refused.map(({ syndrome }) => syndrome)).toEqual([0x62])
  })

  test('after a restart it is read, and not written, until the placement is proven again', () => {
    const made = withBytes()
    made.card.serve(...writeFrames(made.qp, made.bytes, 0, dataOf(256, 1)))
    cutPower(made, { random: new Random(SEED), strategy: 'none' })
    const card = restarted(made)
    const bytes = card.open('bytes')
    const written = (): number[] =>
      card.serve(...writeFrames(card.connect(), bytes, 0, dataOf(64, 2))).map((s) => s.syndrome)
    expect(written()).toEqual([0x62])
    expect(card.counter('RIGHTS')).toBe(1)
    const region = card.open('bytes')
    expect(card.read(card.connect(), region, 0, 0, 256)).toEqual(dataOf(256, 1))
    believe(card, PLACEMENT_BYPASS)
    expect(written()).toEqual([0x1f])
  })
})

test('H5: where the read of a stage fails, the record is refused, and the old one stays', () => {
  for (const stage of [0, 1]) {
    const made = placed()
    const { card, host, region, qp } = made
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    let reads = 0
    card.machine.observe({
      onCommand: (_, op, words, at) => {
        const from = words[at + FROM]!
        if (op !== COPY || !isHost(from) || words[at + LENGTH] !== 1) return
        if (reads++ !== stage) return
        host.arrive()
        host.part.poison(Math.floor((from - HOST_SPACE) / 64))
      },
    })
    const sent = acks(card.serve(...persistFrames(qp, region, 0, dataOf(64, 2))))
    // Behind the first copy the record goes forward: repaired, it is durable, and says so.
    expect(sent.map(({ status }) => status)).toEqual([stage === 0 ? 0x81 : 0])
    card.machine.observe({})
    cutPower(made, { random: new Random(SEED), strategy: 'none' })
    const next = restarted(made)
    const found = next.read(next.connect(), next.open(), 0, VIEW_DATA, 64)
    expect(found).toEqual(dataOf(64, 1 + stage))
  }
})

test.each([0, 2])(
  'P2-14: a group that begins again reads behind what was written before it: flags %i',
  (flags) => {
    const { card, host } = placed()
    const shape = { kind: mad.KIND_BYTES, length: 4096, placement: PLACEMENT_BYPASS }
    const bytes = card.provision({ name: 'bytes', ...shape, flags })
    const local = card.provision({ name: 'local' })
    const [qp, other] = [card.connect(), card.connect()]
    const frames = writeFrames(qp, bytes, 0, dataOf(64, 1))
    if (flags === 0) frames.push(flushFrame(qp, bytes))
    // The first lane of the group takes no intent: the record goes, and the group begins again.
    card.nvdimm.refuseWrites(LANES_AT / 64)
    let posted = -1
    card.machine.observe({
      onCommand: (_, op, words, at) => {
        const owner = Math.floor(words[at + OWNER]! / 2 ** 24) - 1
        if (op === TRANSMIT && owner === (qp.number & 255)) posted = host.postedWrites
      },
    })
    card.serve(...frames, ...persistFrames(other, local, 0, dataOf(64, 2)))
    expect(posted).toBe(0)
  },
)

test('H6: what a start repairs stays as it was found, though it lay in a cache', THOROUGH, () => {
  const [older, newer] = pair(1)
  const shown = (card: TestCard): number => {
    const data = card.read(card.connect(), card.open(), 0, VIEW_DATA, 64)!
    return [older, newer].findIndex((one) => hexOf(one) === hexOf(data))
  }
  const found = new Set<number>()
  for (const strategy of ['none', 'all', 'alternate-lines', 'half'] as const) {
    const choice = { random: new Random(SEED), strategy }
    for (let command = 0, ended = false; !ended; command++) {
      const made = placed()
      const { card, host, region, qp } = made
      card.serve(...persistFrames(qp, region, 0, older))
      card.idle()
      card.machine.armCut(command)
      const sent = card.serve(...persistFrames(qp, region, 0, newer))
      ended = !card.machine.dead
      cutPower(made, choice)
      // The platform is set otherwise, and twice nobody shows how.
      host.platform = DDIO_ON
      const seen: number[] = []
      let next = card
      for (let start = 0; start < 3; start++) {
        if (start > 0) cutPower({ card: next, host: next.host! }, choice)
        if (start === 2) next.host!.platform = DDIO_OFF
        next = restarted({ card: next, host: next.host! })
        seen.push(shown(next))
      }
      expect(seen, `${strategy}, command ${command}`).toEqual([seen[0], seen[0], seen[0]])
      expect(seen[0]).toBeGreaterThanOrEqual(acks(sent).length)
      found.add(seen[0]!)
      // Set as before, and shown: both copies are whole before one of them is written.
      believe(next, PLACEMENT_BYPASS)
      const image = next.host!.part.durable
      const copies = [0, 1].map((copy) => HOST_DATA_AT + copy * 4096)
      const [one, other] = copies.map((at) => hexOf(image.slice(at, at + 128)))
      expect(one).toBe(other)
      const status = restarted({ card: next, host: next.host! }).status()
      expect(u32(status, mad.PART_SCANNED)).toBe(0)
    }
  }
  expect([...found].sort()).toEqual([0, 1])
})
