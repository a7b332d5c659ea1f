/**
 * The dissector for Wireshark against the readers of `firmware/wire/`: every field of every header,
 * of drawn frames, of the vectors and of the captures of the repository.
 *
 * Invariant: nothing is compared with itself. A dissector of which each header is moved by a byte
 * is found out, header by header.
 */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { dissectorText } from '../../../host-driver/command/capture/dissector/generate.ts'
import type { Header } from '../../../host-driver/command/capture/dissector/header.ts'
import { HEADERS } from '../../../host-driver/command/capture/dissector/headers.ts'
import { Asked } from '../../../host-driver/command/capture/dissector/place.ts'
import { readPcap } from '../../../host-driver/way/pcap.ts'
import { COMPARED, type Compared, compare, MALFORMED } from '../../support/dissector/differences.ts'
import { drawnCalls, drawnCm, drawnFrames, flushes } from '../../support/dissector/drawn.ts'
import { HAS_TSHARK, SOURCES, Tshark } from '../../support/dissector/tshark.ts'
import { ROOT } from '../../support/source/sources.ts'
import { CAPTURES, SCENARIO_FRAMES, VECTORS } from '../../support/wire/vectors.ts'

const SEED = Number(process.env.SEED ?? 17)
const EACH = 24

function drawn(): Uint8Array[] {
  const random = new Random(SEED)
  return [...drawnFrames(random, EACH), ...flushes(), ...drawnCalls(random), ...drawnCm(random)]
}

/** The header with every field a byte further back, or in front where there is no room. */
function shifted(header: Header): Header {
  const asked = new Asked(header.asked.read, header.length)
  asked.placeOf = (fields, given) => {
    const place = header.asked.placeOf(fields, given)
    const by = place.at + place.bytes < header.length ? 1 : -1
    return { ...place, at: place.at + by }
  }
  return { ...header, asked }
}

/** Names of fields that this header has, and no other of those. */
function ownFields(name: string, among: readonly string[]): string[] {
  const names = (header: string): string[] =>
    [...HEADERS[header]!.fields.values()].map((field) => field.name)
  const others = new Set(among.filter((one) => one !== name).flatMap(names))
  return names(name).filter((one) => !others.has(one))
}

describe.skipIf(!HAS_TSHARK)('the dissector, in tshark (Debian: tshark)', () => {
  let tshark: Tshark
  let bare: Tshark
  beforeAll(() => {
    tshark = new Tshark()
    bare = new Tshark()
    tshark.install(dissectorText(SOURCES))
  })
  afterAll(() => {
    tshark.close()
    bare.close()
  })

  let ofDrawn: Compared
  test('tells of drawn frames what our own readers tell', () => {
    const frames = drawn()
    ofDrawn = compare(tshark, tshark.capture('drawn.pcap', frames), frames)
    expect(ofDrawn.differences, `SEED=${SEED}`).toEqual([])
  })

  test('has shown every field that there is, with more values than one', () => {
    const few = COMPARED.filter((name) => (ofDrawn.seen.get(name)?.size ?? 0) < 2)
    expect(few).toEqual([])
  })

  test('tells of the vectors what our own readers tell', () => {
    const frames = [...VECTORS, ...SCENARIO_FRAMES].map(({ bytes }) => bytes)
    const file = tshark.capture('vectors.pcap', frames)
    const found = compare(tshark, file, frames)
    expect(found.differences).toEqual([])
    // Wireshark takes the payload of some for another protocol: as it does without us.
    const rows = bare.rows(file, [MALFORMED])
    const malformed = rows.flatMap((row, i) => (row.size > 0 ? [i + 1] : []))
    expect(found.malformed).toEqual(malformed)
  })

  test.each(CAPTURES.map(({ name }) => name))('tells the same of %s', (name) => {
    const file = join(ROOT, 'test/vectors/captures', name)
    const frames = [...readPcap(readFileSync(file))].map(({ frame }) => frame)
    const found = compare(tshark, file, frames)
    expect(found.differences).toEqual([])
    expect(found.malformed).toEqual([])
    expect(found.seen.get('opcode')!.size).toBeGreaterThan(0)
  })

  /** Those of the headers whose own fields are wrong where these headers, and no others, moved. */
  function foundOut(names: readonly string[]): string[] {
    const moved = names.map((name) => [name, shifted(HEADERS[name]!)] as const)
    const other = new Tshark()
    try {
      other.install(dissectorText(SOURCES, { ...HEADERS, ...Object.fromEntries(moved) }))
      const frames = drawn()
      const { wrong } = compare(other, other.capture('drawn.pcap', frames), frames)
      return names.filter((name) => ownFields(name, names).some((field) => wrong.has(field)))
    } finally {
      other.close()
    }
  }

  test('is found out where any header has moved by a byte', () => {
    const all = Object.keys(HEADERS)
    const distinct = all.filter((name) => ownFields(name, all).length > 0)
    const others = all.filter((name) => !distinct.includes(name))
    expect(foundOut(distinct)).toEqual(distinct)
    expect(foundOut(others)).toEqual(others)
  })
})
