/**
 * Numbers that others are compiled against: drivers, boards, other cards, parts that were written
 * by an earlier build. Firmware and host driver share these constants, so a wrong one is wrong on
 * both sides of every other test; here they stand as they were agreed.
 *
 * Invariant: a number changes in vectors/layout.json only together with the version of the
 * format, or before anybody has seen it; a new one is added there.
 */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { FAULTS } from '../../firmware/board/fault.ts'
import * as hal from '../../firmware/board/hal.ts'
import * as view from '../../firmware/burst/view.ts'
import * as placement from '../../firmware/commit/proof.ts'
import * as element from '../../firmware/host/element.ts'
import * as headerPage from '../../firmware/host/header-page.ts'
import * as queueInfo from '../../firmware/host/queue-info.ts'
import * as hostPieces from '../../firmware/medium/host-pieces.ts'
import * as lane from '../../firmware/medium/lane.ts'
import * as operationLine from '../../firmware/medium/operation-line.ts'
import * as region from '../../firmware/medium/region.ts'
import * as slot from '../../firmware/medium/slot.ts'
import * as superblock from '../../firmware/medium/superblock.ts'
import * as aeth from '../../firmware/wire/aeth.ts'
import * as announcement from '../../firmware/wire/announcement.ts'
import * as arp from '../../firmware/wire/arp.ts'
import * as atomic from '../../firmware/wire/atomic.ts'
import * as blockSize from '../../firmware/wire/block-size.ts'
import * as bth from '../../firmware/wire/bth.ts'
import * as capability from '../../firmware/wire/capability.ts'
import * as cm from '../../firmware/wire/cm.ts'
import * as deth from '../../firmware/wire/deth.ts'
import * as ethernet from '../../firmware/wire/ethernet.ts'
import * as feth from '../../firmware/wire/feth.ts'
import * as icrc from '../../firmware/wire/icrc.ts'
import * as ieth from '../../firmware/wire/ieth.ts'
import * as immdt from '../../firmware/wire/immdt.ts'
import * as ipv4 from '../../firmware/wire/ipv4.ts'
import * as ipv6 from '../../firmware/wire/ipv6.ts'
import * as librpma from '../../firmware/wire/librpma.ts'
import * as management from '../../firmware/wire/management.ts'
import * as memoryStatus from '../../firmware/wire/memory-status.ts'
import * as neighbour from '../../firmware/wire/neighbour.ts'
import * as opcode from '../../firmware/wire/opcode.ts'
import * as persist from '../../firmware/wire/persist.ts'
import * as persistAck from '../../firmware/wire/persist-ack.ts'
import * as persistQuery from '../../firmware/wire/persist-query.ts'
import * as prefetch from '../../firmware/wire/prefetch.ts'
import * as reth from '../../firmware/wire/reth.ts'
import * as tag from '../../firmware/wire/tag.ts'
import * as udp from '../../firmware/wire/udp.ts'
import { ROOT } from '../support/source/sources.ts'

/** Each fault by its number, which control calls and counters say; its code is on the wire. */
const ofFaults = FAULTS.map(({ name }, number) => [name, number] as const)
const ofCodes = FAULTS.filter(({ code }) => code > 0).map(({ name, code }) => [name, code] as const)

const MODULES: Readonly<Record<string, object>> = {
  'board/fault.ts, numbers': Object.fromEntries(ofFaults),
  'board/fault.ts, codes': Object.fromEntries(ofCodes),
  'hal.ts': hal,
  'wire/aeth.ts': aeth,
  'wire/announcement.ts': announcement,
  'wire/arp.ts': arp,
  'wire/atomic.ts': atomic,
  'wire/block-size.ts': blockSize,
  'wire/bth.ts': bth,
  'wire/capability.ts': capability,
  'wire/cm.ts': cm,
  'wire/deth.ts': deth,
  'wire/ethernet.ts': ethernet,
  'wire/feth.ts': feth,
  'wire/icrc.ts': icrc,
  'wire/ieth.ts': ieth,
  'wire/immdt.ts': immdt,
  'wire/ipv4.ts': ipv4,
  'wire/ipv6.ts': ipv6,
  'wire/librpma.ts': librpma,
  'wire/management.ts': management,
  'wire/memory-status.ts': memoryStatus,
  'wire/neighbour.ts': neighbour,
  'wire/opcode.ts': opcode,
  'wire/persist-ack.ts': persistAck,
  'wire/persist-query.ts': persistQuery,
  'wire/persist.ts': persist,
  'wire/prefetch.ts': prefetch,
  'wire/reth.ts': reth,
  'wire/tag.ts': tag,
  'wire/udp.ts': udp,
  'host/element.ts': element,
  'host/header-page.ts': headerPage,
  'host/queue-info.ts': queueInfo,
  'medium/slot.ts': slot,
  'medium/lane.ts': lane,
  'medium/operation-line.ts': operationLine,
  'commit/proof.ts': placement,
  'medium/superblock.ts': superblock,
  'medium/host-pieces.ts': hostPieces,
  'medium/region.ts': region,
  'burst/view.ts': view,
}

type Numbers = Readonly<Record<string, number>>

const AGREED = JSON.parse(readFileSync(join(ROOT, 'test/vectors/layout.json'), 'utf8')) as Readonly<
  Record<string, Numbers>
>

/** What a module exports that is a number. */
function numbersOf(module: object): Numbers {
  const numbers = Object.entries(module).filter(([, value]) => typeof value === 'number')
  return Object.fromEntries(numbers) as Numbers
}

/** What is another number than the agreed one, or has none, a line each. */
function changesOf(now: Numbers, agreed: Numbers): string[] {
  const names = [...new Set([...Object.keys(agreed), ...Object.keys(now)])]
  return names
    .filter((name) => now[name] !== agreed[name])
    .map((name) => `${name} is ${now[name] ?? 'gone'}, agreed is ${agreed[name] ?? 'nothing'}`)
}

describe('the numbers that others know are those that were agreed', () => {
  for (const [file, module] of Object.entries(MODULES)) {
    test(file, () => {
      const changes = changesOf(numbersOf(module), AGREED[file] ?? {})
      expect(changes, `${changes.join('; ')}: see test/vectors/layout.json`).toEqual([])
    })
  }

  test('and of no other file', () => {
    expect(Object.keys(AGREED).sort()).toEqual(Object.keys(MODULES).sort())
  })
})
