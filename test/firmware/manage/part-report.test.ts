/**
 * The line that the firmware says of its start: it is what STATUS says to a driver, of every state
 * that a part may be in, and short enough for who reads it.
 */

import { expect, test } from 'vitest'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { EmulatedMachine } from '../../../boards/emulator/run/machine.ts'
import { FAULTS, PASS } from '../../../firmware/board/fault.ts'
import { start } from '../../../firmware/main.ts'
import { u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { dataOf, FACTS, persistFrames, TestCard } from '../../support/cards/test-card.ts'
import { slotOffset } from '../../support/wire/requests.ts'

const BYTES = 1 << 16

interface Start {
  readonly report: string
  /** The same of what a driver reads from the next start. */
  readonly status: string
}

function started(content: Uint8Array, mark: (part: Nvdimm) => void = () => {}): Start {
  const made = (): Nvdimm => {
    const part = new Nvdimm({ bytes: content.length, content })
    mark(part)
    return part
  }
  const nvdimm = made()
  const facts = { ...FACTS, nvdimmBytes: nvdimm.bytes, dirtyShutdowns: nvdimm.dirtyShutdowns }
  const { report } = start(new EmulatedMachine({ facts, nvdimm, transmit: () => {} }))
  const status = new TestCard(made()).status()
  const state = mad.STATE_NAMES[status[mad.PART_STATE]!]!
  const serves = state === 'serving' || state === 'failedClosed'
  const format = serves ? u32(status, mad.PART_FORMAT_VERSION) : 0
  const words = `state=${state} format=${format} lost=${u32(status, mad.PART_UNSETTLED)}`
  const fault = status[mad.PART_FAULT]!
  const told = fault === PASS ? words : `${words} fault=${FAULTS[fault]!.name}`
  return { report: report(), status: told }
}

/** A part of four records; what a cut left of its second slot, nothing can tell. */
const { content: SERVED, second: SECOND } = (() => {
  const card = new TestCard(BYTES).format()
  const region = card.provision({ slots: 4 })
  const qp = card.connect()
  for (let i = 0; i < 4; i++) card.serve(...persistFrames(qp, region, i, dataOf(64, i)))
  card.idle()
  card.machine.die()
  return {
    content: card.nvdimm.durable.slice(),
    second: [0, 1].map((i) => slotOffset(region, i, 1)),
  }
})()

function newer(): Uint8Array {
  const content = SERVED.slice()
  for (const page of [0, 4096]) content[page + 24] = 5
  return content
}

function loseSecond(part: Nvdimm): void {
  for (const at of SECOND) part.poison(at / 64)
  part.dirtyShutdowns++
}

test.each<[string, Uint8Array, (part: Nvdimm) => void, string]>([
  ['a part that serves', SERVED, () => {}, 'state=serving format=3 lost=0'],
  ['a record that is lost', SERVED, loseSecond, 'state=serving format=3 lost=1'],
  ['a blank part', new Uint8Array(BYTES), () => {}, 'state=blank format=0 lost=0 fault=BLANK'],
  ['a part of tomorrow', newer(), () => {}, 'state=refused format=0 lost=0 fault=NEWER'],
  [
    'a superblock that takes no stores',
    SERVED,
    (part) => part.refuseWrites(0),
    'state=failedClosed format=3 lost=0 fault=SUPERBLOCK',
  ],
])('says of %s what STATUS says', (_, content, mark, words) => {
  const { report, status } = started(content, mark)
  expect(report).toBe(words)
  expect(report).toBe(status)
})
