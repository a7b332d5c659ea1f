/**
 * The pager of an emulated host: what is in a page is always what was stored there last, whatever
 * comes and goes, and no frame changes hands before the card has let go of it.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { HostRam } from '../../../../boards/emulator/host/host-ram.ts'
import { NO_TRANSLATION } from '../../../../boards/emulator/host/iommu.ts'
import {
  fileSwap,
  Pager,
  Random,
  SwapDevice,
  VirtualClock,
} from '../../../../boards/emulator/index.ts'
import { PageLost, type PageUse, type PageUser } from '../../../../boards/host-port.ts'
import { PAGE_BYTES } from '../../../../firmware/board/limits.ts'
import { PagedCard, type PagedCardOptions, turn } from '../../../support/cards/paged-card.ts'

/** CPU and card store at places of their own: the order between the two is no matter. */
const CPU_AT = 0
const CARD_AT = 100

type Step =
  | { readonly kind: 'cpu' | 'card' | 'read' | 'evict'; readonly page: number }
  | { readonly kind: 'time'; readonly events: number }

/** Plays the steps; what every page then holds is what was stored there last. */
async function play(steps: readonly Step[], options: PagedCardOptions): Promise<PagedCard> {
  const rig = new PagedCard(options)
  const model = Array.from({ length: options.pages }, () => ({ cpu: 0, card: 0 }))
  let value = 0
  for (const step of steps) {
    if (step.kind === 'time') {
      await rig.settle(step.events)
    } else if (step.kind === 'evict') {
      rig.pager.evict(step.page)
    } else if (step.kind === 'read') {
      rig.read(step.page, CARD_AT)
    } else {
      value = (value % 255) + 1
      model[step.page]![step.kind] = value
      const at = step.page * PAGE_BYTES + CPU_AT
      if (step.kind === 'cpu') void rig.pager.store(at, Uint8Array.of(value))
      else rig.write(step.page, CARD_AT, value)
    }
    rig.check()
  }
  await rig.settle()
  for (const [page, { cpu, card }] of model.entries()) {
    const bytes = await rig.load(page * PAGE_BYTES, PAGE_BYTES)
    if (bytes[CPU_AT] === cpu && bytes[CARD_AT] === card) continue
    throw new Error(`page ${page}: ${bytes[CPU_AT]} ${bytes[CARD_AT]}, not ${cpu} ${card}`)
  }
  return rig
}

function alphabet(pages: number): Step[] {
  const steps: Step[] = []
  for (let page = 0; page < pages; page++) {
    for (const kind of ['cpu', 'card', 'read', 'evict'] as const) steps.push({ kind, page })
  }
  steps.push({ kind: 'time', events: 1 }, { kind: 'time', events: 3 })
  return steps
}

function* traces(letters: readonly Step[], length: number): Generator<Step[]> {
  const digits = new Array<number>(length).fill(0)
  for (;;) {
    yield digits.map((digit) => letters[digit]!)
    let i = 0
    while (i < length && ++digits[i]! === letters.length) digits[i++] = 0
    if (i === length) return
  }
}

describe('what is in a page', () => {
  test('P5-28: every trace of four steps on two pages and a frame keeps all', async () => {
    let count = 0
    for (const trace of traces(alphabet(2), 4)) {
      await play(trace, { frames: 1, pages: 2, stayUs: 10 })
      count++
    }
    expect(count).toBe(10 ** 4)
  })

  test.each([
    ['the card lets go at once', { frames: 2, pages: 5, answerUs: 0 }],
    ['the card takes its time', { frames: 3, pages: 7, answerUs: 60 }],
    ['frames are kept free', { frames: 4, pages: 8, spare: 2, stayUs: 5 }],
    ['everything is free to go', { frames: 2, pages: 4, stayUs: 0 }],
  ] as const)('P5-28: long random traces keep every store; %s', async (_, options) => {
    for (let seed = 1; seed <= 30; seed++) {
      const random = new Random(seed)
      const letters = alphabet(options.pages)
      const trace = Array.from({ length: 150 }, () => letters[random.below(letters.length)]!)
      await play(trace, options).catch((error: unknown) => {
        throw new Error(`seed ${seed}: ${String(error)}`, { cause: error })
      })
    }
  })

  test('a page that was never stored into is zeros, and costs no drive', async () => {
    const rig = new PagedCard({ frames: 1, pages: 3 })
    for (const page of [0, 1, 2, 0]) {
      const bytes = await rig.load(page * PAGE_BYTES, PAGE_BYTES)
      expect(bytes.every((byte) => byte === 0)).toBe(true)
    }
    expect(rig.swap.counts).toEqual({ reads: 0, writes: 0, errors: 0 })
    expect(rig.pager.counts).toMatchObject({ minorFaults: 4, majorFaults: 0, evictions: 3 })
  })

  test('only what was written goes to the drive: what the card read is dropped', async () => {
    const rig = new PagedCard({ frames: 1, pages: 2 })
    rig.write(0, 7, 42)
    await rig.settle()
    rig.use.want(1)
    await rig.settle()
    expect(rig.swap.counts.writes).toBe(1)
    expect(rig.read(0, 7)).toBe(null)
    await rig.settle()
    expect(rig.read(0, 7)).toBe(42)
    rig.use.want(1)
    await rig.settle()
    expect(rig.swap.counts.writes).toBe(1)
    expect(rig.pager.counts).toMatchObject({ majorFaults: 1, writeBacks: 1, unmapped: 3 })
  })
})

describe('frames', () => {
  test('P5-27: no frame is used again before the card has let go of it', async () => {
    const rig = new PagedCard({ frames: 1, pages: 2, answerUs: null })
    rig.write(0, 7, 1)
    await rig.settle()
    const at = rig.pager.addressOf(0)
    const loaded = rig.pager.load(PAGE_BYTES, 8)
    await rig.settle()
    // The host waits for as long as it takes, and what is written meanwhile counts.
    expect([rig.pager.stateOf(0), rig.pager.stateOf(1)]).toEqual(['leaving', 'queued'])
    rig.write(0, 7, 2)
    await rig.settle()
    rig.answer()
    await rig.settle()
    expect(await loaded).toEqual(new Uint8Array(8))
    expect(rig.pager.addressOf(1)).toBe(at)
    expect(await rig.load(7, 1)).toEqual(Uint8Array.of(2))
  })

  test('P5-27: behind that the IOMMU keeps the card away from the frame', async () => {
    const rig = new PagedCard({ frames: 1, pages: 2 })
    rig.use.want(0)
    await rig.settle()
    const at = rig.mapped.get(0)!
    rig.pager.evict(0)
    await rig.settle()
    expect(rig.ram.dmaRead(at, 8)).toBe(false)
    rig.ram.dmaWrite(at, Uint8Array.of(9), 0, 1)
    expect(rig.ram.link.counts.refused).toBe(2)
    expect(rig.ram.live[at]).toBe(0)
  })

  test('a card that writes into a frame behind its answer is found out', async () => {
    const rig = new PagedCard({ frames: 1, pages: 2 })
    rig.write(0, 7, 1)
    await rig.settle()
    const at = rig.mapped.get(0)!
    const violations: number[] = []
    rig.pager.onViolation = ({ frame }) => violations.push(frame)
    rig.pager.evict(0)
    // It was on its way when the card answered, which it must not be: the answer is behind it.
    while (rig.pager.stateOf(0) === 'leaving') rig.clock.step()
    rig.ram.land(at, Uint8Array.of(9))
    await rig.settle()
    expect(violations).toEqual([0])
  })

  test('a page that leaves and is wanted again stays, and nothing is read', async () => {
    const rig = new PagedCard({ frames: 2, pages: 2 })
    rig.write(0, 7, 1)
    await rig.settle()
    rig.pager.evict(0)
    rig.use.want(0)
    await rig.settle()
    expect(rig.pager.counts).toMatchObject({ rescued: 1, evictions: 0 })
    expect(rig.swap.counts).toMatchObject({ reads: 0, writes: 0 })
    expect(rig.read(0, 7)).toBe(1)
  })

  test('what the card uses stays before what it does not', async () => {
    const rig = new PagedCard({ frames: 3, pages: 4, stayUs: 0 })
    for (const page of [0, 1, 2]) rig.use.want(page)
    await rig.settle()
    for (const page of [0, 2]) rig.read(page, 0)
    rig.use.want(3)
    await rig.settle()
    expect([...rig.mapped.keys()].sort()).toEqual([0, 2, 3])
  })

  test('pages that came for the card are all there until it has used them', async () => {
    const rig = new PagedCard({ frames: 4, pages: 16, stayUs: 1000 })
    for (let page = 0; page < 16; page++) rig.use.want(page)
    const seen = new Set<number>()
    while (seen.size < 16) {
      await rig.settle(1)
      // It comes by every so often, and uses what is there four at a time.
      if (rig.mapped.size < 4 && rig.clock.eventCount > 0 && seen.size < 12) continue
      for (const page of rig.mapped.keys()) {
        rig.read(page, 0)
        seen.add(page)
      }
    }
    expect(rig.pager.counts.minorFaults).toBe(16)
  })

  test('P5-25: what is expected comes behind what is waited for, and gives way to it', async () => {
    const rig = new PagedCard({ frames: 4, pages: 64, stayUs: 1000 })
    for (let page = 0; page < 60; page++) rig.use.expect(page)
    await rig.settle(4)
    expect([...rig.mapped.keys()]).toEqual([0, 1, 2, 3])
    const begin = rig.clock.nowUs
    for (const page of [61, 62, 63, 40]) rig.use.want(page)
    while (![61, 62, 63, 40].every((page) => rig.mapped.has(page))) await rig.settle(1)
    expect(rig.clock.nowUs - begin).toBeLessThan(100)
    await rig.settle()
    expect(rig.pager.counts.minorFaults, 'the others come, too').toBe(63)
  })

  test('a page that leaves for one that is waited for is not kept as it is expected', async () => {
    const rig = new PagedCard({ frames: 1, pages: 2, stayUs: 0, answerUs: null })
    rig.use.want(0)
    await rig.settle()
    rig.use.want(1)
    rig.use.expect(0)
    rig.answer()
    await rig.settle()
    expect([...rig.mapped.keys()]).toEqual([1])
  })

  test('a card that is gone expects nothing', async () => {
    const rig = new PagedCard({ frames: 1, pages: 4 })
    for (let page = 0; page < 4; page++) rig.use.expect(page)
    rig.use.end()
    await rig.settle()
    expect(rig.pager.counts.minorFaults).toBe(1)
    expect(await rig.load(3 * PAGE_BYTES, 1)).toEqual(Uint8Array.of(0))
  })

  test('a card that is gone has let go of everything', async () => {
    const rig = new PagedCard({ frames: 1, pages: 2, answerUs: null })
    rig.write(0, 7, 1)
    await rig.settle()
    const loaded = rig.pager.load(PAGE_BYTES, 1)
    await rig.settle()
    rig.write(0, 8, 2)
    rig.mapped.clear()
    rig.use.end()
    await rig.settle()
    expect(await loaded).toEqual(Uint8Array.of(0))
    expect(await rig.load(7, 2)).toEqual(Uint8Array.of(1, 2))
    rig.answer()
    await rig.settle()
  })
})

describe('faults of the drive', () => {
  test('a page that cannot be read is lost, says so, and can be written again', async () => {
    const rig = new PagedCard({ frames: 1, pages: 3 })
    rig.write(0, 7, 1)
    await rig.settle()
    rig.swap.script = ({ kind }) => (kind === 'read' ? 'error' : undefined)
    rig.pager.evict(0)
    await rig.settle()
    rig.use.want(0)
    await rig.settle()
    expect([...rig.lostPages]).toEqual([0])
    await expect(rig.pager.load(0, 8)).rejects.toEqual(new PageLost(0))
    await expect(rig.pager.store(4, new Uint8Array(8))).rejects.toMatchObject({ page: 0 })
    // Its frame is free for others.
    rig.write(1, 0, 5)
    await rig.settle()
    expect(rig.pager.stateOf(1)).toBe('present')
    const stored = rig.pager.store(0, new Uint8Array(PAGE_BYTES).fill(3))
    await rig.settle()
    await stored
    expect(rig.lostPages.size).toBe(0)
    expect(rig.read(0, 7)).toBe(null)
    await rig.settle()
    expect(rig.read(0, 7)).toBe(3)
  })

  test('a page that cannot be written stays where it is, until it can', async () => {
    const rig = new PagedCard({ frames: 1, pages: 2, stayUs: 10 })
    rig.write(0, 7, 1)
    await rig.settle()
    let failures = 3
    rig.swap.script = ({ kind }) => (kind === 'write' && failures-- > 0 ? 'error' : undefined)
    rig.use.want(1)
    await rig.settle()
    expect(rig.swap.counts.errors).toBe(3)
    expect([...rig.mapped.keys()]).toEqual([1])
    rig.use.want(0)
    await rig.settle()
    expect(rig.read(0, 7)).toBe(1)
  })

  test('R31-5: a swap file that cannot be written, or read, is a drive that fails', async () => {
    const clock = new VirtualClock()
    const full = (): never => {
      throw new Error('no space left on device')
    }
    const store = { read: full, write: full, close: () => {} }
    const swap = new SwapDevice({ clock, pageBytes: 64, store })
    const said: string[] = []
    swap.onFailure = ({ message }) => said.push(message)
    const done: unknown[] = []
    swap.write(1, new Uint8Array(64), (kept) => done.push(kept))
    swap.read(1, (bytes) => done.push(bytes))
    clock.runUntilIdle()
    await turn()
    expect(new Set(done)).toEqual(new Set([false, null]))
    expect(said).toEqual(['no space left on device', 'no space left on device'])
    expect(swap.counts.errors).toBe(2)
    swap.close()
  })

  test('drives take so many commands at once, in their order, and a file keeps pages', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'perdure-swap-'))
    const clock = new VirtualClock()
    const store = fileSwap(join(folder, 'swap'))
    const swap = new SwapDevice({ clock, pageBytes: 64, store, depth: 2, readUs: 10, writeUs: 4 })
    try {
      const done: string[] = []
      const page = (fill: number): Uint8Array => new Uint8Array(64).fill(fill)
      for (const i of [5, 0, 2]) {
        swap.write(i, page(i + 1), (kept) => done.push(`${i} ${kept} ${clock.nowUs}`))
      }
      swap.read(5, (bytes) => done.push(`${bytes![63]} ${clock.nowUs}`))
      clock.runUntilIdle()
      await turn()
      expect(done).toEqual(['5 true 4', '0 true 4', '2 true 8', '6 14'])
    } finally {
      swap.close()
      rmSync(folder, { recursive: true, force: true })
    }
  })
})

describe('S1-M13: two memories whose cards were given one number', () => {
  const FRAME = PAGE_BYTES

  /** Two pagers of one host, of two pages and frames each, at the same virtual addresses. */
  function two(): { readonly ram: HostRam; readonly pagers: Pager[]; readonly uses: PageUse[] } {
    const clock = new VirtualClock()
    const ram = new HostRam(8 * FRAME)
    const user: PageUser = { arrived() {}, lost() {}, healed() {}, letGo: (_, done) => done() }
    const pagers = [0, 1].map((i) => {
      const swap = new SwapDevice({ clock, pageBytes: PAGE_BYTES })
      return new Pager({ ram, at: 2 * i * FRAME, frames: 2, pages: 2, swap, clock, stayUs: 0 })
    })
    const uses = pagers.map((pager) => pager.use(user))
    for (const use of uses) use.want(0)
    clock.runUntilIdle()
    return { ram, pagers, uses }
  }

  const where = (ram: HostRam, page: number): number =>
    ram.iommu.translate(0, 2 ** 32 + page * PAGE_BYTES)

  test('the one that was bound last is translated, whatever becomes of the other', () => {
    const { ram, pagers, uses } = two()
    const [former, later] = pagers as [Pager, Pager]
    former.shared.bind(0)
    expect(where(ram, 0)).toBe(former.addressOf(0))
    later.shared.bind(0)
    const isLater = (): void => {
      expect(where(ram, 0)).toBe(later.addressOf(0))
      expect(where(ram, 1)).toBe(NO_TRANSLATION)
    }
    isLater()
    // Pages of the former come, go, and are given back altogether.
    uses[0]!.want(1)
    uses[0]!.want(0)
    isLater()
    expect(former.evict(0)).toBe(true)
    isLater()
    former.shared.bind(null)
    isLater()
    uses[0]!.end()
    isLater()
    later.shared.bind(null)
    expect(where(ram, 0)).toBe(NO_TRANSLATION)
  })

  test('a page that is away is translated for nobody, and none before there is a number', () => {
    const { ram, pagers } = two()
    const [pager] = pagers as [Pager, Pager]
    expect(where(ram, 0)).toBe(NO_TRANSLATION)
    pager.shared.bind(0)
    expect(where(ram, 0)).toBe(pager.addressOf(0))
    pager.evict(0)
    expect(where(ram, 0)).toBe(NO_TRANSLATION)
  })
})
