/**
 * Text from elsewhere on its way to a terminal: every code point, alone and among others; what the
 * driver's errors and warnings say; the names of regions on their way to the card and back.
 */

import { describe, expect, test } from 'vitest'
import { isControl, isSurrogate } from '../../../firmware/medium/region-name.ts'
import { OutcomeUnknown, PerdureError, RefusedError } from '../../../host-driver/base/errors.ts'
import { check } from '../../../host-driver/base/kinds.ts'
import { printable, printableJson } from '../../../host-driver/base/printable.ts'
import { toJson } from '../../../host-driver/command/base/output.ts'
import {
  NEW_REGION_NAME,
  nameBytesOf,
  nameOf,
  REGION_NAME,
} from '../../../host-driver/control/region-name.ts'
import { SmpRefusal } from '../../../host-driver/flash/smp-client.ts'
import { warn } from '../../../host-driver/way/options.ts'
import {
  GOOD_NAMES,
  HOSTILE_NAMES,
  NAME_BYTES,
  obeyedIn,
} from '../../support/cards/hostile-names.ts'

const POINTS = 0x110000
/** So many in one value. */
const TOGETHER = 256
const HOSTILE = '\u001b[31m\r\n\u0007\u009b\u202e\u2028\ufeff'

describe('printable', () => {
  test('every code point that no name may have is escaped, and no other is', () => {
    const wrong: string[] = []
    const counts = { escaped: 0, kept: 0 }
    for (let point = 0; point < POINTS; point++) {
      const letter = String.fromCodePoint(point)
      const shown = printable(`a${letter}b`)
      const escapes = isControl(point) || isSurrogate(point)
      counts[escapes ? 'escaped' : 'kept'] += 1
      if (escapes ? !/^a\\(x[\da-f]{2}|u[\da-f]{4})b$/.test(shown) : shown !== `a${letter}b`) {
        wrong.push(point.toString(16))
      }
      if (escapes && Number.parseInt(shown.slice(3, -1), 16) !== point) wrong.push(shown)
      if (obeyedIn(shown.replaceAll('\n', '\r')).length > 0) wrong.push(`obeyed ${shown}`)
      if (printable(shown) !== shown) wrong.push(`twice ${shown}`)
    }
    expect(wrong.slice(0, 10)).toEqual([])
    expect(counts).toEqual({ escaped: 65 + 3 + 2 + 5 + 4 + 1 + 2048, kept: POINTS - 2128 })
  })

  test('a surrogate pair stays a pair, and its halves apart are escaped', () => {
    expect(printable('🗄')).toBe('🗄')
    expect(printable('\ud83d')).toBe('\\ud83d')
    expect(printable('\uddc4\ud83d')).toBe('\\uddc4\\ud83d')
  })

  test('JSON reads back what it was, and has nothing in it to obey', () => {
    const wrong: string[] = []
    for (let first = 0; first < POINTS; first += TOGETHER) {
      const points = Array.from({ length: TOGETHER }, (_, i) => first + i)
      const letters = points.map((point) => `${String.fromCodePoint(point)} `).join('')
      const value = { [letters]: letters }
      const json = toJson(value)
      if (obeyedIn(json.replaceAll('\n', '\r')).length > 0) wrong.push(`obeyed ${first}`)
      if (JSON.stringify(JSON.parse(json)) !== JSON.stringify(value)) wrong.push(String(first))
    }
    expect(wrong.slice(0, 10)).toEqual([])
    expect(printableJson('{"a":1}')).toBe('{"a":1}')
  })
})

describe('what the driver says', () => {
  test.each([
    ['an error', () => new PerdureError('PERDURE_CLOSED', `region '${HOSTILE}'`)],
    ['a refusal', () => new RefusedError('NO_REGION', 0, `open '${HOSTILE}'`)],
    ['a doubt', () => new OutcomeUnknown(HOSTILE, 1, 2n, HOSTILE)],
    ['a card that takes no firmware', () => new SmpRefusal(HOSTILE, 1, null)],
  ] as const)('%s is shown without what a terminal obeys', (_, make) => {
    const { message } = make()
    expect(message).toContain('\\x1b[31m\\x0d\\x0a\\x07\\x9b\\u202e\\u2028\\ufeff')
    expect(obeyedIn(message.replaceAll('\n', '\r'))).toEqual([])
  })

  test('the names that an error carries are as they are, for programs', () => {
    expect(new OutcomeUnknown(HOSTILE, 1, 2n, 'why').region).toBe(HOSTILE)
  })

  test('a warning, too', () => {
    const told: string[] = []
    warn({ warn: (text) => void told.push(text) }, `region '${HOSTILE}'`, 'PERDURE_GUARD')
    expect(told).toEqual([`region '${printable(HOSTILE)}'`])
    expect(obeyedIn(told[0]!.replaceAll('\n', '\r'))).toEqual([])
  })
})

function refusalOf(name: unknown, kind = NEW_REGION_NAME): string | null {
  try {
    check('region name', name, kind)
    return null
  } catch (error) {
    const { code, message } = error as PerdureError
    expect(code).toBe('PERDURE_ARGUMENT')
    return message
  }
}

function fieldOf(name: Uint8Array): Uint8Array {
  const field = new Uint8Array(NAME_BYTES)
  field.set(name)
  return field
}

describe('names of regions in the driver', () => {
  test('any bytes come back as they were', () => {
    const any = Array.from({ length: 255 }, (_, i) => i + 1)
    const pairs = any.flatMap((a) => any.map((b) => [a, b]))
    const long = [...HOSTILE_NAMES.map(([, name]) => [...name]), [0xf0, 0x9f, 0x97, 0x84, 0xf0]]
    for (const bytes of [...any.map((a) => [a]), ...pairs, ...long]) {
      const name = nameOf(fieldOf(Uint8Array.from(bytes)))
      expect([...nameBytesOf(name)!]).toEqual(bytes)
      if (refusalOf(name, REGION_NAME) !== null) throw new Error(`${bytes} cannot be opened`)
    }
  })

  test('UTF-8 is the text that it is', () => {
    for (const name of GOOD_NAMES) {
      expect(nameOf(fieldOf(Buffer.from(name)))).toBe(name)
      expect(nameBytesOf(name)).toEqual(Uint8Array.from(Buffer.from(name)))
      expect(refusalOf(name)).toBe(null)
      expect(refusalOf(name, REGION_NAME)).toBe(null)
    }
  })

  test('a new one that the card would refuse is refused, in words that say which character', () => {
    const give = '1 to 32 bytes of UTF-8 without control characters'
    expect(refusalOf('or\u001bders')).toBe(
      `region name 'or\\x1bders': character 3 is U+001B, a control character: ${give}`,
    )
    expect(refusalOf('🗄\u202e')).toBe(
      `region name '🗄\\u202e': character 2 is U+202E, a control character: ${give}`,
    )
    expect(refusalOf('a\ud83d')).toBe(
      `region name 'a\\ud83d': character 2 is U+D83D, half of a surrogate pair: ${give}`,
    )
    expect(refusalOf('a\0')).toContain('character 2 is U+0000, a control character')
    expect(refusalOf('')).toBe(`region name '': ${give}`)
    expect(refusalOf('é'.repeat(17))).toContain(give)
    expect(refusalOf(7)).toBe(`region name 7: ${give}`)
    for (const [what, bytes] of HOSTILE_NAMES) {
      expect(refusalOf(nameOf(fieldOf(bytes))), what).toContain('character ')
    }
  })

  test('one that is there may be any, but not empty, too long, or what stands for no byte', () => {
    for (const name of ['', 'a\0b', 'é'.repeat(17), '\ud83d', '\udc7f', '\udd00']) {
      expect(refusalOf(name, REGION_NAME), JSON.stringify(name)).not.toBe(null)
    }
    expect(refusalOf('\udc80', REGION_NAME)).toBe(null)
    expect(refusalOf('\udcff'.repeat(NAME_BYTES), REGION_NAME)).toBe(null)
    expect(refusalOf('\udcff'.repeat(NAME_BYTES + 1), REGION_NAME)).not.toBe(null)
  })
})
