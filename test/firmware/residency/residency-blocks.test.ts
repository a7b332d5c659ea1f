/**
 * What a requester knows of the memory of a responder: states, groups, hints, and sizes of blocks.
 * Small worlds are walked through completely; the model beside each is the rule in plain words.
 */

import { describe, expect, test } from 'vitest'
import {
  associated,
  BLOCK_UNKNOWN,
  type Blocks,
  createBlocks,
  findReady,
  groupSize,
  isRangeReady,
  PHASE_SILENT,
  PHASE_TOLD,
  resize,
  setBlock,
} from '../../../firmware/residency/blocks.ts'
import {
  ASK_AGAIN_US,
  doubtHint,
  isAsking,
  isNotice,
  NOTICE_STALE,
  NOTICE_TAKEN,
  nextAskUs,
  REFRESH_US,
} from '../../../firmware/residency/heard.ts'
import {
  ACCESS_BLIND,
  ACCESS_READY,
  ACCESS_WAITS,
  judgeAccess,
  nextHintedBlocks,
  waitUntilUs,
} from '../../../firmware/residency/hints.ts'
import {
  ANSWER_OFFER,
  ANSWER_REFUSED,
  ANSWER_SETTLED,
  answerProposal,
  isBlockSize,
  takeWishAnswer,
} from '../../../firmware/residency/wish.ts'
import {
  blankBseth,
  SIZE_GRANTED,
  SIZE_OFFERED,
  SIZE_REFUSED,
} from '../../../firmware/wire/block-size.ts'
import {
  FORM_LIST,
  HEALTH_DEGRADED,
  STATUS_CURRENT,
  STATUS_ERROR,
  STATUS_HEALTH,
  STATUS_RESET,
  STATUS_UNAVAILABLE,
} from '../../../firmware/wire/memory-status.ts'
import {
  changeOf,
  currentOf,
  type Entry,
  groupsOf,
  hear,
  INCARNATION,
  noticeOf,
  PAGE,
  picture,
  sequencesOf,
  toldBlocks,
} from '../../support/residency/residency.ts'

describe('states and groups', () => {
  test('P5-11, P5-12, P5-13, P5-14: every sequence of notices about three blocks', () => {
    const letters: Entry[] = [0, 1, 2].flatMap((block): Entry[] => [
      [block, true],
      [block, false],
    ])
    for (const before of [true, false]) {
      for (const sequence of sequencesOf(letters, 4)) {
        const b = toldBlocks(3, before)
        const model = [before, before, before]
        const flags = [!before, !before]
        sequence.forEach(([block, ready], i) => {
          hear(b, changeOf(i + 2, 12, [block, ready]))
          model[block] = ready
          const members = [model.slice(0, 2), model.slice(2)]
          // Set by a member that is not in memory; cleared when all of them are.
          if (!ready) flags[block >> 1] = true
          else if (members[block >> 1]!.every(Boolean)) flags[block >> 1] = false
          const counters = members.map((group) => group.filter(Boolean).length)
          const wanted = counters.map((n, g) => `${n}${flags[g] ? '!' : ''}`).join()
          if (groupsOf(b).join() !== wanted) expect(groupsOf(b), `${sequence}`).toEqual(wanted)
        })
        expect(picture(b)).toBe(model.map((ready) => (ready ? 'R' : 'n')).join(''))
        expect(b.ready).toBe(model.filter(Boolean).length)
      }
    }
  })

  test('P5-13: what is told twice adjusts no counter, and is no change', () => {
    const b = toldBlocks(4, false)
    hear(b, changeOf(2, 12, [1, true]))
    const { revision } = b
    expect(groupsOf(b)).toEqual(['1!', '0!'])
    hear(b, changeOf(3, 12, [1, true], [0, false]))
    expect(groupsOf(b)).toEqual(['1!', '0!'])
    expect(b.revision).toBe(revision)
  })

  test('P5-2: what was told has changed, also where a block comes and goes', () => {
    const b = toldBlocks(4, false)
    const seen = [b.revision]
    for (const ready of [true, false, true, false]) {
      hear(b, changeOf(1 + seen.length, 12, [1, ready]))
      seen.push(b.revision)
    }
    expect(new Set(seen).size).toBe(5)
  })

  test('P5-12: the last group may have fewer blocks', () => {
    const b = toldBlocks(5, true, 2)
    expect([0, 1, 2].map((group) => groupSize(b, group))).toEqual([2, 2, 1])
    hear(b, changeOf(2, 12, [4, false]))
    expect(groupsOf(b)).toEqual(['2', '2', '0!'])
  })

  test('P5-7: blocks from the whole of it down to a page, all of one size', () => {
    const length = 5 * PAGE + 100
    for (const sizeLog2 of [15, 14, 13, 12]) {
      const b = createBlocks(64, 4)
      associated(b, length, INCARNATION)
      expect(b.count, 'without an agreement').toBe(1)
      resize(b, sizeLog2)
      expect(b.count).toBe(Math.ceil(length / 2 ** sizeLog2))
      expect(picture(b)).toBe('?'.repeat(b.count))
    }
  })

  test('P5-3: a range is ready if every block that it touches is, whatever the groups are', () => {
    for (const groupBlocks of [1, 2, 3, 5, 8]) {
      for (let mask = 0; mask < 2 ** 6; mask++) {
        const b = toldBlocks(6, false, groupBlocks)
        const ready = (block: number): boolean => ((mask >> block) & 1) === 1
        for (let block = 0; block < 6; block++) setBlock(b, block, ready(block))
        for (let from = 0; from < 6; from++) {
          for (let to = from; to < 6; to++) {
            const all = Array.from({ length: to - from + 1 }, (_, i) => ready(from + i))
            const offset = from * PAGE + 17
            const length = to * PAGE + 20 - offset
            expect(isRangeReady(b, offset, length)).toBe(all.every(Boolean))
          }
        }
        expect(isRangeReady(b, 3 * PAGE, 0)).toBe(true)
      }
    }
  })

  test('P5-5: another place that is ready is found, the next one behind, and round', () => {
    for (const groupBlocks of [1, 2, 4]) {
      for (let mask = 0; mask < 2 ** 6; mask++) {
        const b = toldBlocks(6, false, groupBlocks)
        const ready = (block: number): boolean => block < 6 && ((mask >> block) & 1) === 1
        for (let block = 0; block < 6; block++) setBlock(b, block, ready(block))
        for (const run of [1, 2, 3]) {
          const starts = [0, 1, 2, 3, 4, 5].filter((block) =>
            Array.from({ length: run }, (_, i) => ready(block + i)).every(Boolean),
          )
          for (let near = 0; near < 6; near++) {
            const wanted = starts.find((block) => block >= near) ?? starts[0] ?? -1
            expect(findReady(b, run, near), `${mask} ${run} ${near}`).toBe(wanted)
          }
        }
      }
    }
  })
})

describe('another size of block', () => {
  const LENGTH = 4 * PAGE + 1000
  const SIZES = [12, 13, 14, 15]

  /** What is known of each page: R, n or ?; a block is what its pages let it be. */
  function expected(pages: readonly number[], sizeLog2: number): string {
    const per = 2 ** (sizeLog2 - 12)
    const blocks: string[] = []
    for (let at = 0; at < pages.length; at += per) {
      const parts = pages.slice(at, at + per)
      const all = parts.every((state) => state === 1)
      blocks.push(all ? 'R' : parts.includes(0) ? 'n' : '?')
    }
    return blocks.join('')
  }

  test('P5-10: every state of five blocks is mapped to every size, byte by byte', () => {
    for (const pages of sequencesOf([0, 1, BLOCK_UNKNOWN], 5)) {
      for (const to of SIZES) {
        const b = createBlocks(8, 2)
        associated(b, LENGTH, INCARNATION)
        resize(b, 12)
        pages.forEach((state, page) => {
          if (state !== BLOCK_UNKNOWN) setBlock(b, page, state === 1)
        })
        resize(b, to)
        expect(picture(b)).toBe(expected(pages, to))
        expect(b.ready).toBe([...picture(b)].filter((state) => state === 'R').length)
      }
    }
  })

  test('P5-10: between all sizes, there and back, nothing becomes ready that was not', () => {
    for (const from of SIZES) {
      for (const to of SIZES) {
        for (let mask = 0; mask < 2 ** Math.ceil(LENGTH / 2 ** from); mask++) {
          const b = createBlocks(8, 2)
          associated(b, LENGTH, INCARNATION)
          resize(b, from)
          for (let block = 0; block < b.count; block++) {
            setBlock(b, block, ((mask >> block) & 1) === 1)
          }
          const readyBefore = readyPages(b)
          resize(b, to)
          const between = readyPages(b)
          expect(between.every((ready, page) => !ready || readyBefore[page])).toBe(true)
          if (to < from) expect(between).toEqual(readyBefore)
          resize(b, from)
          expect(readyPages(b).every((ready, page) => !ready || readyBefore[page])).toBe(true)
          if (to < from) expect(readyPages(b)).toEqual(readyBefore)
          expect(groupsOf(b)).toEqual(recounted(b))
        }
      }
    }
  })

  function readyPages(b: Blocks): boolean[] {
    return [0, 1, 2, 3, 4].map((page) => isRangeReady(b, page * PAGE, page === 4 ? 1000 : PAGE))
  }

  function recounted(b: Blocks): string[] {
    return Array.from({ length: b.groups }, (_, group) => {
      const members = [...b.states.subarray(group * 2, Math.min(group * 2 + 2, b.count))]
      return `${members.filter((state) => state === 1).length}${members.includes(0) ? '!' : ''}`
    })
  }

  test('P5-10: hints go along: finer blocks have that of the coarser, coarser the oldest', () => {
    const b = toldBlocks(4, false)
    expect(nextHintedBlocks(b, 0, PAGE, 0, 100)).toBe(true)
    expect(nextHintedBlocks(b, PAGE, PAGE, 10, 100)).toBe(true)
    resize(b, 13)
    expect(waitUntilUs(b, 0, 4 * PAGE)).toBe(100)
    expect(nextHintedBlocks(b, 2 * PAGE, PAGE, 20, 100)).toBe(true)
    resize(b, 12)
    expect([0, 1, 2, 3].map((page) => waitUntilUs(b, page * PAGE, 1))).toEqual([100, 100, 120, 120])
    resize(b, 14)
    setBlock(b, 0, true)
    expect(waitUntilUs(b, 0, 1)).toBe(0)
  })

  test('a size that there is no room for is not taken', () => {
    const b = createBlocks(4, 2)
    associated(b, LENGTH, INCARNATION)
    expect(resize(b, 13)).toBe(true)
    expect(resize(b, 12)).toBe(false)
    expect(b.sizeLog2).toBe(13)
  })
})

describe('notices', () => {
  test('P5-2: of changes, of the status as it is now, and of blocks in any order', () => {
    const b = toldBlocks(8, false)
    hear(b, changeOf(2, 12, [5, true], [6, true], [0, true]))
    expect(picture(b)).toBe('RnnnnRRn')
    hear(b, currentOf(3, 12, [true, false, true, false, true, false, true, false]))
    expect(picture(b)).toBe('RnRnRnRn')
  })

  test('P5-10, D-12: a notice in another size means its bytes', () => {
    const finer = toldBlocks(8, false, 2, 14)
    hear(finer, changeOf(2, 12, [0, true], [1, true], [2, true]))
    expect(picture(finer), 'three pages of four').toBe('nn')
    hear(finer, changeOf(3, 12, [4, true], [5, true], [6, true], [7, true]))
    expect(picture(finer)).toBe('nR')
    hear(finer, changeOf(4, 12, [6, false]))
    expect(picture(finer)).toBe('nn')
    const behind = toldBlocks(8, false, 2, 14)
    const pages = [1, 2, 3, 4, 5, 6, 7].map((page): Entry => [page, true])
    hear(behind, changeOf(2, 12, ...pages))
    expect(picture(behind), 'all but the first page').toBe('nR')
    const coarser = toldBlocks(8, true)
    hear(coarser, changeOf(2, 14, [1, false]))
    expect(picture(coarser)).toBe('RRRRnnnn')
    hear(coarser, changeOf(3, 13, [2, true], [9, true], [0xffffffff, false]))
    expect(picture(coarser)).toBe('RRRRRRnn')
  })

  test('P5-10: the size of a current status is the one in force', () => {
    const b = toldBlocks(8, false)
    hear(b, currentOf(2, 14, [true, false]))
    expect(picture(b)).toBe('Rn')
    expect(b.sizeLog2).toBe(14)
  })

  test('D-12, P5-28: an older notice, or the same again, changes nothing', () => {
    const b = toldBlocks(2, false)
    hear(b, changeOf(2, 12, [0, true]))
    hear(b, changeOf(3, 12, [0, false]))
    expect(hear(b, changeOf(2, 12, [0, true]))).toBe(NOTICE_STALE)
    expect(hear(b, changeOf(3, 12, [1, true]))).toBe(NOTICE_STALE)
    expect(picture(b)).toBe('nn')
    expect(b.counts).toMatchObject({ stale: 2, gaps: 0 })
  })

  test('D-12: the sequence wraps', () => {
    const b = createBlocks(4, 2)
    associated(b, 2 * PAGE, INCARNATION)
    hear(b, currentOf(0xffffffff, 12, [false, false]))
    expect(hear(b, changeOf(0, 12, [0, true]))).toBe(NOTICE_TAKEN)
    expect(hear(b, changeOf(0xffffffff, 12, [0, false]))).toBe(NOTICE_STALE)
    expect(picture(b)).toBe('Rn')
    expect(b.counts.gaps).toBe(0)
  })

  test('D-12, P5-28: a gap makes the requester ask until a current status came', () => {
    const b = toldBlocks(2, false)
    expect(nextAskUs(b)).toBe(REFRESH_US)
    hear(b, changeOf(3, 12, [0, true]), 1000)
    expect(picture(b), 'what was heard counts').toBe('Rn')
    expect(isAsking(b, 1000)).toBe(true)
    expect(isAsking(b, 1000)).toBe(false)
    expect(nextAskUs(b)).toBe(1000 + ASK_AGAIN_US)
    expect(isAsking(b, 1000 + ASK_AGAIN_US)).toBe(true)
    hear(b, currentOf(4, 12, [true, true]), 50_000)
    expect(nextAskUs(b)).toBe(50_000 + REFRESH_US)
    expect(b.counts).toMatchObject({ gaps: 1, asked: 2 })
  })

  test('D-12: who has heard nothing for long asks, until it hears something', () => {
    const b = toldBlocks(2, true)
    hear(b, noticeOf({ kind: STATUS_HEALTH, sequence: 2 }), 1000)
    const { revision } = b
    expect(isAsking(b, REFRESH_US)).toBe(false)
    expect(isAsking(b, 1000 + REFRESH_US)).toBe(true)
    expect(nextAskUs(b)).toBe(1000 + REFRESH_US + ASK_AGAIN_US)
    hear(b, currentOf(3, 12, [true, true]), 1000 + REFRESH_US + 10)
    expect(nextAskUs(b)).toBe(1000 + 2 * REFRESH_US + 10)
    expect(b.revision, 'nothing is other than it was').toBe(revision)
    hear(b, noticeOf({ kind: STATUS_ERROR, sequence: 4 }), 5_000_000)
    const { forgotten } = b.counts
    expect(isAsking(b, 5_000_000 + REFRESH_US)).toBe(true)
    hear(b, noticeOf({ kind: STATUS_ERROR, sequence: 5 }), 7_000_000)
    expect(b.counts.forgotten).toBe(forgotten)
    expect(nextAskUs(b)).toBe(7_000_000 + REFRESH_US)
  })

  test('D-12: a part that was started again: everything is forgotten and asked for', () => {
    const b = toldBlocks(2, true)
    hear(
      b,
      noticeOf(
        { ...changeOf(1, 12, [0, false]).mseth, incarnation: INCARNATION + 1 },
        changeOf(1, 12, [0, false]).bytes,
      ),
      5,
    )
    expect(picture(b)).toBe('n?')
    expect(b.phase).toBe(PHASE_SILENT)
    expect(nextAskUs(b)).toBe(5)
    expect(hear(b, changeOf(9, 12, [1, true])), 'of the part before').toBe(NOTICE_STALE)
  })

  test('P5-2: a current status in several messages is told when it came whole', () => {
    const b = createBlocks(16, 4)
    associated(b, 6 * PAGE, INCARNATION)
    const part = (sequence: number, firstBlock: number, more: boolean): void => {
      hear(b, currentOf(sequence, 12, [true, true], { firstBlock, more }))
    }
    resize(b, 12)
    part(1, 0, true)
    expect(picture(b)).toBe('RR????')
    expect(b.phase).toBe(PHASE_SILENT)
    part(3, 4, false)
    expect(b.phase, 'one is missing').toBe(PHASE_SILENT)
    expect(b.wanted).toBe(true)
    part(4, 0, true)
    part(5, 2, true)
    part(6, 4, false)
    expect(b.phase).toBe(PHASE_TOLD)
    expect(b.wanted).toBe(false)
    expect(picture(b)).toBe('RRRRRR')
  })

  test('P5-28: nor is it told when a change between two parts of it was not heard', () => {
    const b = toldBlocks(4, false)
    hear(b, currentOf(2, 12, [true, true], { firstBlock: 0, more: true }))
    hear(b, currentOf(4, 12, [true, true], { firstBlock: 2 }))
    expect(b.wanted).toBe(true)
  })

  test('D-12: after associating again a current status counts, whatever its number', () => {
    const b = toldBlocks(2, true)
    hear(b, changeOf(57, 12, [0, false]))
    associated(b, 2 * PAGE, INCARNATION)
    // The last notice of the association before comes late.
    hear(b, changeOf(58, 12, [0, true]))
    expect(hear(b, currentOf(1, 12, [true, false]))).toBe(NOTICE_TAKEN)
    expect(picture(b)).toBe('Rn')
    expect(hear(b, changeOf(2, 12, [1, true]))).toBe(NOTICE_TAKEN)
    expect(hear(b, currentOf(1, 12, [false, false])), 'once it was told').toBe(NOTICE_STALE)
  })

  test('P5-2: what changes between two parts of a current status is not lost', () => {
    const b = toldBlocks(4, false)
    hear(b, currentOf(2, 12, [true, true], { firstBlock: 0, more: true }))
    hear(b, changeOf(3, 12, [0, false], [3, true]))
    hear(b, currentOf(4, 12, [false, true], { firstBlock: 2 }))
    expect(picture(b)).toBe('nRnR')
  })

  test.each([
    ['error', STATUS_ERROR],
    ['unavailable', STATUS_UNAVAILABLE],
    ['reset', STATUS_RESET],
  ])(
    'P5-15: %s: everything is forgotten, no hint goes out, until the status was told',
    (_, kind) => {
      const b = toldBlocks(4, true)
      hear(b, changeOf(2, 12, [1, false]))
      expect(nextHintedBlocks(b, 0, 4 * PAGE, 0, 100)).toBe(true)
      hear(b, noticeOf({ kind, sequence: 3 }), 10)
      expect(picture(b)).toBe('????')
      expect(groupsOf(b)).toEqual(['0', '0'])
      expect(b.phase).toBe(kind)
      expect(judgeAccess(b, 0, PAGE)).toBe(ACCESS_BLIND)
      expect(nextHintedBlocks(b, 0, 4 * PAGE, 1000, 100)).toBe(false)
      // Only a region that begins again tells its status by itself; then it is waited for.
      expect(nextAskUs(b)).toBe(10 + (kind === STATUS_RESET ? ASK_AGAIN_US : REFRESH_US))
      hear(b, currentOf(4, 12, [true, false, true, true]))
      expect(judgeAccess(b, 0, PAGE)).toBe(ACCESS_READY)
      expect(judgeAccess(b, PAGE, PAGE)).toBe(ACCESS_WAITS)
      expect(nextHintedBlocks(b, PAGE, PAGE, 20, 100), 'no hint of before counts').toBe(true)
    },
  )

  test('health is told without blocks', () => {
    const b = toldBlocks(2, true)
    hear(b, noticeOf({ kind: STATUS_HEALTH, sequence: 2, health: HEALTH_DEGRADED }))
    expect(b.health).toBe(HEALTH_DEGRADED)
    expect(picture(b)).toBe('RR')
  })

  test('X-7: what makes no sense is no notice', () => {
    const change = changeOf(1, 12, [0, true])
    const odd = (fields: object, bytes: Uint8Array = change.bytes): boolean =>
      isNotice({ ...change.mseth, ...fields }, bytes, 0, bytes.length)
    expect(odd({})).toBe(true)
    for (const fields of [
      ...[{ version: 2 }, { words: 7 }, { reserved: 1 }, { kind: 0 }, { kind: 7 }, { form: 2 }],
      ...[{ entries: 2 }, { blockSizeLog2: 64 }, { kind: STATUS_RESET }, { form: 1, entries: 41 }],
    ]) {
      expect(odd(fields), JSON.stringify(fields)).toBe(false)
    }
    expect(odd({}, Uint8Array.of(0, 0, 0, 0, 2)), 'a state that is none').toBe(false)
    expect(isNotice(noticeOf({ kind: STATUS_RESET }).mseth, change.bytes, 0, 0)).toBe(true)
  })
})

describe('hints', () => {
  test('P5-6: to go at once, to wait and to go blindly are three answers', () => {
    expect(new Set([ACCESS_READY, ACCESS_WAITS, ACCESS_BLIND]).size).toBe(3)
  })

  test('P5-4, P5-6: what is ready gets no hint and does not wait', () => {
    const b = toldBlocks(4, true)
    expect(judgeAccess(b, 0, 4 * PAGE)).toBe(ACCESS_READY)
    expect(nextHintedBlocks(b, 0, 4 * PAGE, 0, 100)).toBe(false)
  })

  test('P5-5, P5-6: runs of blocks that are not ready, each hinted at once', () => {
    const b = toldBlocks(6, true)
    hear(b, changeOf(2, 12, [1, false], [2, false], [4, false]))
    const hintsAt = (nowUs: number): string[] => {
      const runs: string[] = []
      while (nextHintedBlocks(b, 100, 6 * PAGE - 200, nowUs, 50))
        runs.push(`${b.hintFirst}+${b.hintCount}`)
      return runs
    }
    expect(hintsAt(0)).toEqual(['1+2', '4+1'])
    expect(hintsAt(49)).toEqual([])
    hear(b, changeOf(3, 12, [2, true]))
    expect(waitUntilUs(b, 0, 6 * PAGE)).toBe(50)
    expect(hintsAt(50)).toEqual(['1+1', '4+1'])
    expect(b.counts).toMatchObject({ hints: 4, hintedBlocks: 5 })
  })

  test('P5-6: a block that came and went again is hinted at again', () => {
    const b = toldBlocks(1, false)
    expect(nextHintedBlocks(b, 0, PAGE, 0, 1000)).toBe(true)
    hear(b, changeOf(2, 12, [0, true]))
    hear(b, changeOf(3, 12, [0, false]))
    expect(nextHintedBlocks(b, 0, PAGE, 1, 1000)).toBe(true)
  })

  test('P5-15: before the status was told there are no hints, and accesses go at once', () => {
    const b = createBlocks(4, 2)
    associated(b, 2 * PAGE, INCARNATION)
    expect(judgeAccess(b, 0, PAGE)).toBe(ACCESS_BLIND)
    expect(nextHintedBlocks(b, 0, PAGE, 0, 100)).toBe(false)
    hear(b, changeOf(1, 12, [0, false]))
    expect(judgeAccess(b, 0, PAGE)).toBe(ACCESS_BLIND)
  })

  test('P5-28: a hint in vain makes the requester ask, but not more often than it may', () => {
    const b = toldBlocks(2, false)
    doubtHint(b, 100)
    const at = nextAskUs(b)
    doubtHint(b, 50)
    expect(nextAskUs(b), 'it is wanted already').toBe(at)
    expect(isAsking(b, 100)).toBe(true)
    hear(b, currentOf(2, 12, [false, false]))
    doubtHint(b, 200)
    expect(isAsking(b, 200)).toBe(false)
    expect(isAsking(b, 100 + ASK_AGAIN_US)).toBe(true)
  })
})

describe('agreeing on a size', () => {
  function begun(pages: number, capacity = 64): Blocks {
    const b = createBlocks(capacity, 2)
    associated(b, pages * PAGE, INCARNATION)
    return b
  }

  test('P5-7, P5-8, P5-29: a wish is in force when the answer commits to it', () => {
    const b = begun(8)
    const granted = { ...blankBseth(), status: SIZE_GRANTED, blockSizeLog2: 13 }
    expect(takeWishAnswer(b, granted)).toBe(ANSWER_SETTLED)
    expect(b.count, 'not committed').toBe(1)
    expect(takeWishAnswer(b, { ...granted, commit: true })).toBe(ANSWER_SETTLED)
    expect(b.count).toBe(4)
  })

  test('P5-9, P5-29: an offer is taken if there is room for it, else nothing is', () => {
    const offer = { ...blankBseth(), status: SIZE_OFFERED, blockSizeLog2: 12 }
    expect(takeWishAnswer(begun(8), offer)).toBe(ANSWER_OFFER)
    const small = begun(8, 4)
    expect(takeWishAnswer(small, offer)).toBe(ANSWER_SETTLED)
    expect(small.count).toBe(1)
    expect(takeWishAnswer(small, { ...offer, status: SIZE_REFUSED })).toBe(ANSWER_REFUSED)
  })

  test('P5-10: a size that the responder proposes: taken, or answered by the nearest', () => {
    for (let size = 0; size <= 20; size++) {
      const b = begun(8, 4)
      const answer = blankBseth()
      answerProposal(b, { ...blankBseth(), blockSizeLog2: size }, answer)
      const taken = size >= 13 && size <= 15
      expect(answer.commit).toBe(taken)
      expect(answer.status).toBe(taken ? SIZE_GRANTED : SIZE_OFFERED)
      expect(answer.blockSizeLog2).toBe(Math.min(15, Math.max(13, size)))
      expect(b.sizeLog2).toBe(taken ? size : 15)
    }
  })

  test('X-7: a header that is none', () => {
    for (const status of [SIZE_GRANTED, SIZE_OFFERED, SIZE_REFUSED]) {
      expect(isBlockSize({ ...blankBseth(), status })).toBe(true)
    }
    for (const fields of [{ version: 2 }, { words: 5 }, { reserved: 8 }, { status: 3 }]) {
      expect(isBlockSize({ ...blankBseth(), ...fields })).toBe(false)
    }
  })
})

test('an access of no bytes waits for nothing', () => {
  const b = toldBlocks(4, false)
  nextHintedBlocks(b, 0, 4 * PAGE, 5, 100)
  expect(waitUntilUs(b, 0, 1)).toBe(105)
  expect(waitUntilUs(b, 0, 0)).toBe(0)
})

test('P5-2: the current status may come as a list: it is that of all blocks or of none', () => {
  const list = (first: number, count: number): Uint8Array =>
    Uint8Array.from(
      { length: 5 * count },
      (_, i) => [0, 0, 0, first + Math.floor(i / 5), 1][i % 5]!,
    )
  const current = (sequence: number, count: number) =>
    noticeOf(
      { ...{ kind: STATUS_CURRENT, form: FORM_LIST, sequence, blockSizeLog2: 12 }, entries: count },
      list(0, count),
    )
  for (const count of [3, 4]) {
    const b = createBlocks(64, 2)
    associated(b, 4 * PAGE, INCARNATION)
    hear(b, current(1, count))
    expect(b.phase === PHASE_TOLD).toBe(count === 4)
  }
})
