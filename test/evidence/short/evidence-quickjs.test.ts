/**
 * The bundle in QuickJS leaves the traces of its sources in Node (C4): the short cut of the stage,
 * that a guest which is put back is the guest of before, and that the judge notices.
 */

import { describe, expect, test } from 'vitest'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { findBundle } from '../../../boards/emulator/run/bundle.ts'
import { EmulatedMachine } from '../../../boards/emulator/run/machine.ts'
import { AUX, COMMANDS_AT } from '../../../firmware/board/hal.ts'
import { ColdGuest } from '../../support/cards/cold-guest.ts'
import { FACTS } from '../../support/cards/test-card.ts'
import { THOROUGH } from '../../support/run/thorough.ts'
import { Guests } from '../quickjs/guests.ts'
import { playPair } from '../quickjs/pair.ts'
import { leastMemory } from '../quickjs/pressure.ts'
import { QUICKJS } from '../quickjs/stage.ts'
import { missed, playAll } from '../stage.ts'

const SEED = Number(process.env.SEED ?? 4)

const PART_BYTES = 1 << 18
const STEPS = 30

function machineFor(packets: Uint8Array): EmulatedMachine {
  const facts = { ...FACTS, nvdimmBytes: PART_BYTES }
  const nvdimm = new Nvdimm({ bytes: PART_BYTES })
  return new EmulatedMachine({ facts, nvdimm, packets, transmit: () => {} })
}

/** The bundle with that done before every command list. */
function tampered(before: string): string {
  return `${findBundle().source}
;((start) => {
  globalThis.perdure = { start: ({ facts, memory, run }) => {
    const words = new Float64Array(memory, ${COMMANDS_AT})
    const kept = []
    return start({ facts, memory, run: (count) => { ${before}; return run(count) } })
  } }
})(perdure.start)`
}

test(`QuickJS leaves the traces of Node, SEED=${SEED}`, THOROUGH, async () => {
  const tally = await playAll(QUICKJS, 'cut', SEED)
  expect(tally.described).toEqual([])
  expect(tally.violations).toBe(0)
  expect(missed(QUICKJS, tally, 'cut')).toEqual([])
  expect(QUICKJS.lacks!(tally, 'cut')).toEqual([])
  expect(tally.more['power cuts']).toBeGreaterThan(10)
  expect(tally.more['collections forced']).toBeGreaterThan(10)
})

test('a guest that is put back is the guest of before, in every byte of its memory', async () => {
  const guest = await ColdGuest.evaluate()
  const first = guest.start(machineFor)
  const before = guest.image()
  for (let i = 0; i < 50; i++) first.idle(i)
  guest.start(machineFor)
  expect(Buffer.compare(guest.image(), before)).toBe(0)
  expect(() => first.idle(99)).toThrow('powered on again')
  guest.dispose()
})

test('in less memory the firmware does not start, and says so', async () => {
  const { pages, refused } = await leastMemory()
  expect(pages).toBeLessThan(400)
  expect(refused).toBeGreaterThan(0)
  const start = async (): Promise<void> => {
    const guest = await ColdGuest.evaluate({ memoryPages: pages - 1 })
    guest.start(machineFor)
  }
  await expect(start()).rejects.toMatchObject({ code: 'FIRMWARE_STOPPED', reason: 'memory' })
})

describe('the judge notices', () => {
  test('one word of one command, which no board looks at', async () => {
    const guests = new Guests({ source: tampered(`words[${AUX}] += Number(count === 3)`) })
    const { node, quickjs, differs } = await playPair(SEED, STEPS, guests.boot)
    expect(node.violations).toEqual([])
    expect(quickjs.operations).toBe(node.operations)
    expect(differs).toContain('hash')
    guests.dispose()
  })

  test('a firmware that keeps what it should let go', async () => {
    const guests = new Guests({ source: tampered('kept.push(new Float64Array(4096))') }, 1)
    const { differs } = await playPair(SEED, STEPS, guests.boot)
    expect(differs).toBeNull()
    expect(guests.grown).toBeGreaterThan(0)
    guests.dispose()
  })

  test('a firmware that stops', async () => {
    const guests = new Guests({ source: tampered('if (words[0] === 7) null.x') })
    const { differs } = await playPair(SEED, STEPS, guests.boot)
    expect(differs).not.toBeNull()
    guests.dispose()
  })
})
