/** C7 in short: failures of the board and of the engine, and that the judge notices. */

import { expect, test } from 'vitest'
import { DDIO_OFF } from '../../../boards/emulator/host/host-memory.ts'
import { placed } from '../../support/cards/placed.ts'
import { dataOf, persistFrames } from '../../support/cards/test-card.ts'
import { readSuperblock } from '../../support/judges/oracle.ts'
import { THOROUGH } from '../../support/run/thorough.ts'
import { FailingBoard } from '../failures/board.ts'
import { partOperations } from '../failures/operations.ts'
import { FAILURES } from '../failures/stage.ts'
import { playFailure } from '../failures/walk.ts'
import { missed, playAll } from '../stage.ts'

const SEED = 6

test(
  'X-1, H9: every seventh failure of some operations loses nothing acknowledged',
  THOROUGH,
  async () => {
    const total = await playAll(FAILURES, 'cut', SEED)
    expect(total.described).toEqual([])
    expect(total.violations).toBe(0)
    expect(missed(FAILURES, total, 'cut')).toEqual([])
    expect(FAILURES.lacks!(total, 'cut')).toEqual([])
  },
)

test('the judge notices: fences that are said to be done, and are not', () => {
  const lie = { k: 0, kind: 'lies', lasting: true } as const
  const noticed = partOperations().filter(({ name }) => {
    return name.startsWith('WRITE_PERSIST of 64') || name.startsWith('a batch')
  })
  expect(noticed.length).toBeGreaterThan(5)
  for (const operation of noticed) {
    const { complaints } = playFailure(operation, lie, new Map())
    expect(complaints.join(), operation.name).toMatch(/acknowledged/)
  }
})

test('H4: a host that does not answer the scrub loses no record by that', () => {
  const { card, region, qp } = placed(DDIO_OFF)
  card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
  card.idle()
  const board = new FailingBoard(card.machine, { k: 0, kind: 'dma', lasting: true })
  for (let i = 0; i < 40; i++) card.idle()
  expect(board.struck).toBeGreaterThan(0)
  expect(readSuperblock(card.nvdimm.durable)!.lost).toEqual([])
  board.heal()
  expect(card.read(card.connect(), card.open(), 0, 0, 64)).toEqual(dataOf(64, 1))
})
