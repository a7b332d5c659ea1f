/**
 * Parts that fail: no save energy, a fence that fails, a medium that refuses lines, now or later
 * (D-13, D-14, X-4, G2-5; faults H5 to H7).
 *
 * Invariant: after the worst the power is cut, nothing pending survives, and the part is
 * started again: what was acknowledged must then be read, or its loss be told.
 */

import { Random } from '../../../../boards/emulator/base/random.ts'
import { cut } from '../../../../boards/emulator/medium/power-cut.ts'
import { failFence } from '../../../support/cards/fences.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  type Sent,
  TestCard,
  type TestPeer,
  type TestRegion,
} from '../../../support/cards/test-card.ts'
import { LANES_AT, LINE_BYTES, sameBytes } from '../../../support/judges/oracle.ts'
import { flushFrame, slotOffset, writeFrames } from '../../../support/wire/requests.ts'
import type { Play } from '../killer.ts'
import { firstOf, syndromes, World } from './world.ts'

const OLD = dataOf(64, 1)
const NEW = dataOf(64, 2)

interface Sick {
  readonly card: TestCard
  readonly region: TestRegion
  readonly qp: TestPeer
}

/** Slot 0 holds the old record, durably, and no lane is set. */
function sick(copies = 2): Sick {
  const card = new TestCard(1 << 18).format()
  const region = card.provision({ slots: 8, capacity: 64, copies })
  const qp = card.connect()
  for (let slot = 0; slot < 4; slot++) card.serve(...persistFrames(qp, region, slot, OLD))
  card.idle()
  card.nvdimm.fence()
  return { card, region, qp }
}

const isDurable = (sent: readonly Sent[]): boolean =>
  persistAcks(sent).some(({ status }) => status === 0)

/** Cuts the power, starts again, and compares slot 0 with what was acknowledged. */
function afterCut({ card }: Sick, acknowledged: boolean): string | null {
  const part = card.nvdimm
  cut(part, { random: new Random(1), strategy: 'none' })
  part.armed = true
  part.fencesToFail = 0
  const again = new TestCard(part)
  const region = again.open('records')
  const data = again.read(again.connect(), region, 0, 0, 64)
  if (data === null) return region.unsettled > 0 ? null : 'a loss is not told'
  const copies = Array.from({ length: region.copies }, (_, copy) => {
    const at = slotOffset(region, copy, 0)
    return part.durable.slice(at, at + region.stride)
  })
  if (copies.some((copy) => !sameBytes(copy, copies[0]!))) return 'its copies are not one'
  if (sameBytes(data, NEW) || (sameBytes(data, OLD) && !acknowledged)) return null
  return acknowledged ? 'what was acknowledged is gone' : 'what is there is neither old nor new'
}

/** Fence number `at` of the write fails. */
function fenceFails(at: number, wait: number): string | null {
  const one = sick()
  const { card, region, qp } = one
  failFence(card, at)
  const frames = persistFrames(qp, region, 0, NEW, { wait })
  const sent = card.serve(...frames)
  card.machine.observe({})
  // What was refused once is not durable when it comes twice, here or on another connection.
  const { operation } = qp
  const again = persistFrames(card.connect(), region, 0, NEW, { wait, operation })
  sent.push(...card.serve(...frames), ...card.serve(...again))
  const later = card.serve(...persistFrames(qp, region, 1, NEW, { wait }))
  if (isDurable(later)) return `fence ${at}: a part that does not fence goes on`
  const said = afterCut(one, isDurable(sent))
  return said === null ? null : `fence ${at}, ${wait} copies: ${said}`
}

/** The medium refuses line `line` of copy `copy` of the record. */
function refuses(copy: number, line: number, wait: number, copies: number): string | null {
  const one = sick(copies)
  const { card, region, qp } = one
  const at = slotOffset(region, copy, 0) / LINE_BYTES + line
  card.nvdimm.refuseWrites(at)
  const frames = persistFrames(qp, region, 0, NEW, { wait })
  const { operation } = qp
  const sent = [...card.serve(...frames), ...card.serve(...frames)]
  // Nor is it when it comes on another connection.
  sent.push(...card.serve(...persistFrames(card.connect(), region, 0, NEW, { wait, operation })))
  const durable = isDurable(sent)
  const name = `line ${line} of copy ${copy} takes nothing, ${wait}of${copies}`
  const shown = card.read(card.connect(), region, 0, 0, 64)
  if (shown !== null && durable && sameBytes(shown, OLD)) return `${name}: an old record is read`
  // Its lane is cleared, and used again.
  for (let slot = 1; slot < 4; slot++) card.serve(...persistFrames(qp, region, slot, OLD))
  card.nvdimm.refuseWrites(at, false)
  const said = afterCut(one, durable)
  return said === null ? null : `${name}: ${said}`
}

/** Everything is refused while the save energy is not armed. */
function notArmed(): string | null {
  const world = new World()
  const { card, records, bytes, kept, qp } = world
  card.nvdimm.armed = false
  card.machine.tellHealth()
  if (isDurable(card.serve(...persistFrames(qp, records, 0, NEW)))) return 'a record is durable'
  card.serve(...writeFrames(qp, bytes, 0, NEW))
  const flushed = card.serve(flushFrame(qp, bytes))
  if (flushed.some(({ opcode }) => opcode === 0x10)) return 'a FLUSH is answered'
  const other = card.connect(256)
  if (syndromes(card.serve(...writeFrames(other, kept, 0, NEW))).includes(0x1f)) {
    return 'a WRITE that is kept is acknowledged'
  }
  // When it is armed again, nothing has been lost, and the part goes on.
  card.nvdimm.armed = true
  card.machine.tellHealth()
  const last = card.connect(256)
  if (!isDurable(card.serve(...persistFrames(last, records, 1, NEW)))) return 'it does not go on'
  const answered = card.serve(flushFrame(last, bytes)).some(({ opcode }) => opcode === 0x10)
  return answered ? null : 'no FLUSH is answered any more'
}

/** Copy B takes nothing, level 1 is acknowledged, and then copy A decays: B is not shown. */
function held(): string | null {
  const { card, region, qp } = sick()
  const part = card.nvdimm
  part.refuseWrites(slotOffset(region, 1, 0) / LINE_BYTES)
  if (!isDurable(card.serve(...persistFrames(qp, region, 0, NEW, { wait: 1 })))) return 'no receipt'
  part.poison(slotOffset(region, 0, 0) / LINE_BYTES + 1)
  const data = card.read(card.connect(), region, 0, 0, 64)
  return data === null ? null : 'an older copy stands for what was acknowledged'
}

/** A record that is lost, or whose copies could not be made one, takes no write. */
function unsettled(): string | null {
  const one = sick()
  const { card } = one
  const part = card.nvdimm
  const { region } = one
  for (let copy = 0; copy < 2; copy++) part.poison(slotOffset(region, copy, 0) / LINE_BYTES)
  part.failSave()
  let again = new TestCard(part)
  part.failSave(false)
  again = new TestCard(part)
  const opened = again.open('records')
  if (opened.unsettled !== 1) return 'a lost record is not told'
  const sent = again.serve(...persistFrames(again.connect(), opened, 1, NEW))
  return isDurable(sent) ? 'a region with a lost record takes writes' : null
}

/** Copy `copy` decays while nobody looks; the scrub makes it whole before the other one decays. */
function scrub(copy: number): string | null {
  const { card, region } = sick()
  const part = card.nvdimm
  part.poison(slotOffset(region, copy, 0) / LINE_BYTES + 1)
  for (let i = 0; i < 64; i++) card.idle()
  part.poison(slotOffset(region, 1 - copy, 0) / LINE_BYTES + 1)
  const data = card.read(card.connect(), region, 0, 0, 64)
  return data !== null && sameBytes(data, OLD) ? null : 'a copy that decayed was not repaired'
}

/** The lane's own line takes nothing more: writes go on in others. */
function laneRefuses(): string | null {
  const one = sick()
  const { card, region, qp } = one
  card.nvdimm.refuseWrites(LANES_AT / LINE_BYTES)
  card.serve(...persistFrames(qp, region, 0, NEW))
  const sent = card.serve(...persistFrames(qp, region, 0, NEW))
  if (!isDurable(sent)) return 'one bad lane is the end of the part'
  return afterCut(one, true)
}

export const SICK: Readonly<Record<string, Play>> = {
  'a fence fails': () =>
    firstOf(...[1, 2, 3, 4].flatMap((at) => [1, 2].map((wait) => () => fenceFails(at, wait)))),
  'a copy refuses': () =>
    firstOf(
      ...[0, 1].flatMap((copy) =>
        [0, 1].flatMap((line) => [1, 2].map((wait) => () => refuses(copy, line, wait, 2))),
      ),
    ),
  'a third copy refuses': () =>
    firstOf(...[0, 1, 2].flatMap((copy) => [1, 2, 3].map((w) => () => refuses(copy, 1, w, 3)))),
  'a lane refuses': laneRefuses,
  'a copy that is held': held,
  'not armed': notArmed,
  'an unsettled region': unsettled,
  'the scrub': () => scrub(0) ?? scrub(1),
}
