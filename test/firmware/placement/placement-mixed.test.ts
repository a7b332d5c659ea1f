/**
 * Records in the card's own NVDIMM and in the host's memory side by side; long messages, other
 * forms of writes, and media errors there (source 2; P1-21, P1-24).
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import {
  DDIO_OFF,
  DDIO_ON,
  HostMemory,
  NO_SNOOP_HONOURED,
} from '../../../boards/emulator/host/host-memory.ts'
import { VIEW_DATA } from '../../../firmware/burst/view.ts'
import { HOST_DATA_AT, PLACEMENT_BYPASS } from '../../../firmware/medium/region.ts'
import { u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { MECHANISM_CPU_FLUSH, MECHANISM_LOCAL_FLUSH } from '../../../firmware/wire/persist-ack.ts'
import { batchFrames, IN_ORDER } from '../../support/cards/batch-card.ts'
import { countCommands } from '../../support/cards/fences.ts'
import {
  agentOfNewHost,
  believe,
  cardOf,
  cutPower,
  NEW,
  OLD,
  type Placed,
  placed,
  restarted,
  SEED,
  shownCopies,
  work,
} from '../../support/cards/placed.ts'
import {
  dataOf,
  persistFrames,
  type Sent,
  type TestCard,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import { carriedFrames, writeFrames } from '../../support/wire/requests.ts'

const PLATFORMS = [
  ['bypass', DDIO_OFF],
  ['bypass by no-snoop', NO_SNOOP_HONOURED],
  ['through', DDIO_ON],
] as const

/** Serves the frames, and lets the agent work; everything that was sent. */
function serve({ card, agent }: Placed, ...frames: Uint8Array[]): Sent[] {
  const all = [...card.serve(...frames)]
  for (let i = 0; i < 12; i++) {
    agent?.poll()
    card.sent = []
    card.idle()
    all.push(...card.sent)
  }
  return all
}

function statuses(sent: readonly Sent[]): number[] {
  return sent.flatMap(({ paeth }) => (paeth === null ? [] : [paeth.status]))
}

function scan(card: TestCard, region: TestRegion): number {
  const body = card.scan(region.id)
  return u32(body, mad.SCAN_REPAIRED)
}

for (const [name, platform] of PLATFORMS) {
  describe(name, () => {
    test('a record of several packets is durable like one of a single packet', () => {
      const made = placed(platform, { capacity: 1500, slots: 1 })
      const qp = made.card.connect(256)
      const data = dataOf(1500, 1)
      const sent = serve(made, ...persistFrames(qp, made.region, 0, data))
      expect(statuses(sent)).toEqual([0])
      cutPower(made, { random: new Random(SEED), strategy: 'none' })
      const next = restarted(made)
      expect(next.read(next.connect(), next.open(), 0, VIEW_DATA, 1500)).toEqual(data)
    })

    test('D-8: a record whose copies were carried is compared before anything is stored', () => {
      const made = placed(platform)
      const { qp, region } = made
      const one = dataOf(32, 1)
      const differ = carriedFrames(qp, region, 0, [one, dataOf(32, 2)])
      expect(statuses(serve(made, ...differ))).toEqual([0x89])
      expect(statuses(serve(made, ...carriedFrames(qp, region, 0, [one, one])))).toEqual([0])
      expect(made.card.read(qp, region, 0, VIEW_DATA, 32)).toEqual(one)
    })

    test('side by side with local records in one burst, each by its own way', () => {
      const made = placed(platform)
      const { card, qp, region } = made
      const local = card.provision({ name: 'local', slots: 2 })
      const frames = [0, 1].flatMap((slot) => [
        ...persistFrames(qp, region, slot, dataOf(64, slot)),
        ...persistFrames(qp, local, slot, dataOf(64, 10 + slot)),
      ])
      const sent = serve(made, ...frames)
      expect(statuses(sent).every((status) => status === 0)).toBe(true)
      const mechanisms = new Set(sent.flatMap(({ paeth }) => paeth?.mechanism ?? []))
      expect(mechanisms.has(MECHANISM_LOCAL_FLUSH)).toBe(true)
      expect(mechanisms.has(MECHANISM_CPU_FLUSH)).toBe(name === 'through')
      cutPower(made, { random: new Random(SEED), strategy: 'none' })
      const next = restarted(made)
      const client = next.connect()
      for (const slot of [0, 1]) {
        expect(next.read(client, next.open(), slot, VIEW_DATA, 64)).toEqual(dataOf(64, slot))
        const other = next.read(client, next.open('local'), slot, VIEW_DATA, 64)
        expect(other).toEqual(dataOf(64, 10 + slot))
      }
    })

    test('P2-5: a plain WRITE of a record is acknowledged when it is durable', () => {
      const made = placed(platform)
      const { qp, region } = made
      const data = dataOf(64, 1)
      const frames = writeFrames(qp, region, 0, data)
      let sent = serve(made, ...frames)
      // No acknowledgement waits for a host: the packet comes again.
      if (name === 'through') {
        expect(sent.at(-1)!.syndrome).toBe(0x22)
        sent = serve(made, ...frames)
      }
      const last = sent.at(-1)!
      cutPower(made, { random: new Random(SEED), strategy: 'none' })
      const next = restarted(made)
      const found = next.read(next.connect(), next.open(), 0, VIEW_DATA, 64)
      expect(last.syndrome).toBe(0x1f)
      expect(found).toEqual(data)
    })

    test('P1-21, P1-24: a copy on a bad line is made whole from the other one', () => {
      for (const copy of [0, 1]) {
        const made = placed(platform)
        const { card, host, qp, region } = made
        serve(made, ...persistFrames(qp, region, 0, dataOf(64, 1)))
        host.part.poison((HOST_DATA_AT + copy * 4096) / 64)
        expect(card.read(qp, region, 0, VIEW_DATA, 64)).toEqual(dataOf(64, 1))
        expect(scan(card, region)).toBe(1)
        serve(made)
        expect(host.part.faulty()).toEqual([])
        cutPower(made, { random: new Random(SEED), strategy: 'none' })
        // Healed for good: the bad line is gone from what is durable, too.
        expect(host.part.faulty()).toEqual([])
        const next = restarted(made)
        // A host that has shown nothing yet is asked for nothing (R1-C4).
        if (made.agent === null) believe(next, PLACEMENT_BYPASS)
        else work(next, agentOfNewHost(next))
        expect(scan(next, next.open())).toBe(0)
        expect(next.read(next.connect(), next.open(), 0, VIEW_DATA, 64)).toEqual(dataOf(64, 1))
      }
    })

    test('P1-25: with both copies on bad lines the record is lost, and says so', () => {
      const made = placed(platform)
      const { card, host, qp, region } = made
      serve(made, ...persistFrames(qp, region, 0, dataOf(64, 1)))
      for (const copy of [0, 1]) host.part.poison((HOST_DATA_AT + copy * 4096) / 64)
      scan(card, region)
      expect(card.read(qp, region, 0, VIEW_DATA, 64)).toBe(null)
      const sent = serve(made, ...persistFrames(card.connect(), region, 1, dataOf(64, 2)))
      expect(statuses(sent)).toEqual([0x8b])
      const next = restarted(made)
      expect(next.read(next.connect(), next.open(), 0, VIEW_DATA, 64)).toBe(null)
    })
  })
}

test('B7: a host that goes as its record is repaired takes no record of the card with it', () => {
  const RECORDS = 12
  const OTHERS = { strategy: 'all', random: new Random(SEED) } as const
  /** A batch in order: none of its records may outlive the one before it. */
  const frames = (card: TestCard, local: TestRegion, data: Uint8Array): Uint8Array[] => {
    const records = Array.from({ length: RECORDS }, (_, slot) => ({ slot, data }))
    return batchFrames(card.connect(), local, records, { condition: IN_ORDER })
  }
  /** A lane that stays for the host's record, and records of the card on both sides of it. */
  const scene = (): Placed & { local: TestRegion } => {
    const made = placed(DDIO_OFF, { copies: 3 })
    const { card, host, qp, region } = made
    const local = card.provision({ name: 'local', slots: RECORDS })
    card.serve(...frames(card, local, OLD))
    let writes = 0
    host.link.script = ({ kind, memory }) =>
      kind === 'write' && memory === 'persistent' && writes++ === 1 ? 'removal' : undefined
    expect(statuses(card.serve(...persistFrames(qp, region, 0, dataOf(64, 1))))).toEqual([0x8f])
    host.link.script = null
    host.comeBack()
    return { ...made, local }
  }
  const whole = scene()
  const sent = frames(whole.card, whole.local, NEW)
  const commands = countCommands(whole.card.machine)
  whole.card.serve(...sent)

  for (let command = 0; command < commands.passed; command++) {
    const made = scene()
    const sent = frames(made.card, made.local, NEW)
    made.card.machine.armCut(command)
    made.card.serve(...sent)
    cutPower(made, OTHERS)
    const host = new HostMemory({ part: made.host.part, platform: DDIO_OFF })
    host.link.script = ({ kind, memory }) =>
      kind === 'write' && memory === 'persistent' ? 'removal' : undefined
    const next = cardOf(made.card.nvdimm, host)
    const local = next.open('local')
    for (let slot = 0; slot < RECORDS; slot++) {
      const [first, second] = shownCopies(next, local, slot)
      expect(second, `record ${slot}, cut at command ${command}`).toBe(first)
    }
  }
})
