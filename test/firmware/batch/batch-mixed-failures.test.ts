/**
 * Batches of records and plain bytes where something fails under them: a line of the medium, a
 * fence, the save energy, the host (S1-M9; source 4; P1-11, D-13).
 *
 * Invariant: whatever fails, and wherever, there is one status, or none and the queue pair is over;
 * what it calls durable is there behind the next start, with what the table knows; records are
 * whole, and in order none is there behind one that is not. Nothing is held any more, no lane is
 * lost but those of records that failed, and the batch again makes all of it durable.
 */

import { describe, expect, test } from 'vitest'
import { FENCE, HOST_SPACE, NVDIMM_SPACE } from '../../../firmware/board/hal.ts'
import { NO_LANE } from '../../../firmware/commit/commit.ts'
import { PLACEMENT_BYPASS, slotAddress } from '../../../firmware/medium/region.ts'
import {
  batchFrames,
  CONDITIONS,
  heldBy,
  IN_ORDER,
  NOTHING_HELD,
  type Status,
  statuses,
  upTo,
} from '../../support/cards/batch-card.ts'
import { atFence, failFence } from '../../support/cards/fences.ts'
import { isBytes, type MixedCard } from '../../support/cards/mixed-card.ts'
import { MixedStart, SHAPES } from '../../support/cards/mixed-start.ts'
import { believe, NOTHING } from '../../support/cards/placed.ts'
import { type Sent, withPassingCards } from '../../support/cards/test-card.ts'
import { LANES_AT, LINE_BYTES } from '../../support/judges/oracle.ts'
import { thoroughIf } from '../../support/run/thorough.ts'

/** A batch that something failed under. */
interface Played {
  readonly name: string
  readonly start: MixedStart
  readonly one: MixedCard
  readonly operation: number
  readonly sent: readonly Sent[]
}

/** Serves the batch on a card to which `fail` has done something. */
function play(start: MixedStart, name: string, fail: (one: MixedCard) => void): Played {
  const one = start.begin()
  const operation = one.qp.operation + 1
  const frames = start.frames(one)
  fail(one)
  const sent = one.card.serve(...frames)
  one.card.machine.observe({})
  return { name, start, one, operation, sent }
}

/** The one status, if the queue pair lives; nothing is held, and no lane is taken that is none. */
function judgeStatus({ name, one, sent }: Played): Status | null {
  const said = statuses(sent)
  expect(said.length, name).toBeLessThanOrEqual(1)
  expect(heldBy(one.state), name).toEqual(NOTHING_HELD)
  const { held, takenBack, unsettled, pending, undecided, count } = one.state.commit
  for (const lanes of [held, takenBack, unsettled, pending, undecided]) {
    expect(Object.keys(lanes), name).not.toContain(`${NO_LANE}`)
  }
  expect(count, name).toBe(0)
  return said[0] ?? null
}

/** What is there behind the next start, and what is known. */
function judgeAfter(played: Played, status: Status | null, again: MixedCard): void {
  const { name, start, operation } = played
  const stand = start.stand(again)
  expect(start.badLeft(again, stand), name).toBe(null)
  for (const i of status?.durable ?? []) {
    expect(stand[i], `${name}, member ${i}: ${stand}`).toBe('new')
    expect(again.knows(operation + i), `${name}, member ${i}`).toBe(true)
  }
  for (const i of upTo(stand.length)) {
    if (again.knows(operation + i)) expect(stand[i], `${name}, known ${i}: ${stand}`).toBe('new')
  }
}

/** The batch again, which nothing fails under: all of it is durable. */
function judgeAgain({ name, start, operation }: Played, again: MixedCard): void {
  const { card } = again
  const members = start.members(again)
  const repeated = members.map((member) => ({
    ...member,
    pweth: { ...member.pweth, repetition: true },
  }))
  const options = { condition: start.condition, operation, id: 10 }
  const sent = card.serve(...batchFrames(card.connect(), again.first, repeated, options))
  const durable = upTo(members.length)
  expect(statuses(sent), name).toMatchObject([{ said: 'durable', durable }])
  expect(start.stand(again), name).toEqual(members.map(() => 'new'))
}

// ---- the medium --------------------------------------------------------------------------------

/** A line of the medium that takes nothing, from before the batch or from that fence on. */
interface Bad {
  readonly name: string
  readonly line: number
  /** The member that it is of. */
  readonly member: number
  readonly said: 'MEDIA' | 'IN_DOUBT'
}

/** Every line that a store of bytes touches, the first lines of copies, and the lanes. */
function badLines(start: MixedStart): Bad[] {
  const one = start.begin()
  const { places } = one.state.regions
  const space = one.card.host === null ? NVDIMM_SPACE : HOST_SPACE
  const members = start.members(one)
  return members.flatMap((member, i): Bad[] => {
    const region = places.find((place) => place?.rkey === member.reth!.rkey)!
    if (isBytes(member)) {
      const from = region.base - space + member.reth!.vaLow!
      const lines = new Set(upTo(member.data.length).map((at) => Math.floor((from + at) / 64)))
      return [...lines].map((line) => {
        return { name: `bytes ${i}, line ${line}`, line, member: i, said: 'MEDIA' }
      })
    }
    return [0, 1].map((copy) => ({
      name: `copy ${copy} of ${i}`,
      line: (slotAddress(region, copy, member.slot) - space) / LINE_BYTES,
      member: i,
      said: copy === 0 ? 'MEDIA' : 'IN_DOUBT',
    }))
  })
}

/** Which members are durable where one is refused. */
function acceptedWithout(condition: number, count: number, bad: number): number[] {
  return upTo(count).filter((i) => (condition === IN_ORDER ? i < bad : i !== bad))
}

function checkBadLine(start: MixedStart, bad: Bad): void {
  const { member, line, name } = bad
  const played = play(start, name, ({ card }) => card.nvdimm.refuseWrites(line))
  const status = judgeStatus(played)!
  const { one } = played
  const count = start.members(one).length
  // Bytes side by side share lines: the first of them is told.
  const hit = badLines(start).filter((other) => other.line === line)
  const first = Math.min(member, ...hit.map((other) => other.member))
  if (hit.length === 1) {
    expect(status, name).toMatchObject({ said: bad.said })
    expect(status.durable, name).toEqual(acceptedWithout(start.condition, count, member))
  } else expect(status.said, name).toBe('MEDIA')
  expect(status.durable, name).not.toContain(first)
  if (bad.said === 'MEDIA') expect(one.first.unsettled + one.second.unsettled, name).toBe(0)
  const again = one.after(NOTHING)
  judgeAfter(played, status, again)
  again.card.nvdimm.refuseWrites(line, false)
  judgeAgain(played, again.again())
}

for (const [name, condition] of Object.entries(CONDITIONS)) {
  describe.each(SHAPES)(`S1-M9: ${name}, %s`, (_, shape) => {
    const isLong = condition !== IN_ORDER
    test('S1-M9, P1-11: the medium refuses a line', thoroughIf(isLong), () => {
      const start = new MixedStart(shape, condition, false)
      for (const bad of badLines(start)) withPassingCards(() => checkBadLine(start, bad))
    })

    test('S1-M9, P1-11: it refuses a lane, or its phase word', thoroughIf(isLong), () => {
      const start = new MixedStart(shape, condition, false)
      for (const lane of upTo(3)) {
        for (const fence of upTo(12)) withPassingCards(() => checkLane(start, lane, fence))
      }
    })

    test('S1-M9, P1-11: power goes while it refuses bytes', thoroughIf(isLong), () => {
      const start = new MixedStart(shape, condition, false)
      const bytes = badLines(start).filter(({ name: which }) => which.startsWith('bytes'))
      for (const bad of bytes.filter((_one, i) => i % 13 === 0)) checkCuts(start, bad)
    })

    test('S1-M9, D-13: a fence fails', thoroughIf(isLong), () => {
      const start = new MixedStart(shape, condition, false)
      let failed = 0
      for (let fence = 1; withPassingCards(() => checkFence(start, fence)); fence++) failed += 1
      expect(failed).toBeGreaterThan(3)
    })

    test('S1-M9, D-13: the save energy is away', thoroughIf(isLong), () => {
      const start = new MixedStart(shape, condition, false)
      for (let command = 0; withPassingCards(() => checkArmed(start, command)); command++);
    })

    test('S1-M9, R1-A1: the host goes at any access', thoroughIf(isLong), () => {
      const start = new MixedStart(shape, condition, true)
      let gone = 0
      for (let at = 0; withPassingCards(() => checkHost(start, at)); at++) gone += 1
      expect(gone).toBeGreaterThan(10)
    })
  })
}

/** A lane refuses from that fence on. */
function checkLane(start: MixedStart, lane: number, fence: number): void {
  const line = LANES_AT / LINE_BYTES + lane
  const played = play(start, `lane ${lane} from fence ${fence} on`, ({ card }) => {
    if (fence === 0) card.nvdimm.refuseWrites(line)
    else atFence(card.machine, fence, () => card.nvdimm.refuseWrites(line))
  })
  const status = judgeStatus(played)
  expect(status, played.name).not.toBe(null)
  const again = played.one.after(NOTHING)
  judgeAfter(played, status, again)
  again.card.nvdimm.refuseWrites(line, false)
  judgeAgain(played, again.again())
}

function checkCuts(start: MixedStart, { name, line }: Bad): void {
  for (let command = 0, ended = false; !ended; command++) {
    withPassingCards(() => {
      const played = play(start, `${name}, cut before command ${command}`, ({ card }) => {
        card.nvdimm.refuseWrites(line)
        card.machine.armCut(command)
      })
      ended = !played.one.card.machine.dead
      const again = played.one.after(NOTHING)
      judgeAfter(played, statuses(played.sent)[0] ?? null, again)
      again.card.nvdimm.refuseWrites(line, false)
      judgeAgain(played, again.again())
    })
  }
}

/** That fence fails; false if there is none. */
function checkFence(start: MixedStart, fence: number): boolean {
  let passed = { passed: 0 }
  const played = play(start, `fence ${fence}`, ({ card }) => {
    passed = failFence(card, fence)
  })
  if (passed.passed < fence) return false
  const status = judgeStatus(played)!
  expect(status.said, played.name).toMatch(fence === passed.passed ? /./ : /FLUSH|IN_DOUBT/)
  const again = played.one.after(NOTHING)
  judgeAfter(played, status, again)
  judgeAgain(played, again)
  return true
}

/** The save energy is away from that command on; false if there is none. */
function checkArmed(start: MixedStart, command: number): boolean {
  let commands = 0
  const played = play(start, `not armed from command ${command} on`, ({ card }) => {
    card.machine.observe({
      onCommand: (_, op) => {
        if (commands++ >= command && op === FENCE) card.nvdimm.armed = false
      },
    })
  })
  const status = judgeStatus(played)
  const { nvdimm } = played.one.card
  if (nvdimm.armed) return false
  nvdimm.armed = true
  const again = played.one.after(NOTHING)
  judgeAfter(played, status, again)
  judgeAgain(played, again)
  return true
}

/** The host goes at that access to its memory; false if there is none. */
function checkHost(start: MixedStart, at: number): boolean {
  let accesses = 0
  const played = play(start, `access ${at}`, ({ card }) => {
    card.host!.link.script = ({ memory }) =>
      memory === 'persistent' && accesses++ === at ? 'removal' : undefined
  })
  const { card } = played.one
  const isGone = !card.host!.link.up
  const status = judgeStatus(played)
  expect(isGone || status?.said === 'durable', played.name).toBe(true)
  card.host!.link.script = null
  card.host!.comeBack()
  believe(card, PLACEMENT_BYPASS)
  card.idle()
  expect(start.badLeft(played.one), played.name).toBe(null)
  const again = played.one.after(NOTHING)
  judgeAfter(played, status, again)
  judgeAgain(played, again)
  return isGone
}
