/**
 * Images that a card can be given: byte for byte what MCUboot's own tool makes, and every change of
 * one, wherever, refused in words. The vectors were made by that tool from keys of fixed seeds.
 */

import { createPublicKey } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync } from 'node:zlib'
import { encode } from 'cbor2'
import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { joined } from '../../../boards/flash/bytes.ts'
import { ImageError } from '../../../boards/flash/image-error.ts'
import {
  checkSignature,
  HEADER_BYTES,
  type Image,
  keyHash,
  readImage,
  sha256,
  versionOf,
  versionText,
  writeImage,
} from '../../../boards/flash/mcuboot.ts'
import {
  HAL_BYTES,
  MANIFEST_BYTES_MAX,
  PART_BYTES_MAX,
  type Part,
  readPart,
  readPayload,
  writePayload,
} from '../../../boards/flash/payload.ts'
import { keyOf } from '../../support/flash/slot-model.ts'
import { THOROUGH } from '../../support/run/thorough.ts'
import { ROOT } from '../../support/source/sources.ts'

const SEED = Number(process.env.SEED ?? 33)

const KEY = keyOf(0x11)
const TRUSTED = [createPublicKey(KEY)]
const VERSION = { major: 1, minor: 2, revision: 3, build: 4 }

const vector = (name: string): Uint8Array =>
  readFileSync(join(ROOT, 'test/vectors/smp/images', `${name}.bin`))

/** The code of the refusal; null if there is none. Nothing but an ImageError may come. */
function refusalOf(work: () => unknown): string | null {
  try {
    work()
    return null
  } catch (error) {
    if (!(error instanceof ImageError) || !/^\S.{10,}[^.]$/.test(error.message)) throw error
    return error.code
  }
}

/** All that a card looks at. */
function take(bytes: Uint8Array): Image {
  const image = readImage(bytes)
  checkSignature(image, TRUSTED)
  const payload = readPayload(image.payload)
  for (const { kind } of payload.manifest.parts) readPart(payload, kind)
  return image
}

/** Of a payload alone. */
function takePayload(bytes: Uint8Array): void {
  const payload = readPayload(bytes)
  for (const { kind } of payload.manifest.parts) readPart(payload, kind)
}

const PURPOSE = {
  ...{ counter: 7, targets: ['emulator', 'bluefield3'] },
  formats: [2, 3] as const,
  hal: Uint8Array.from({ length: HAL_BYTES }, (_, i) => i),
}
const BUNDLE = new TextEncoder().encode('var perdure = {};'.repeat(20))

const PAYLOAD = writePayload(PURPOSE, [
  ['bundle', BUNDLE],
  ['signature', sha256(BUNDLE)],
])
const IMAGE = writeImage(PAYLOAD, VERSION, KEY)

/** What is right, and who is to refuse it when it is changed. */
const LOOKS: readonly (readonly [Uint8Array, (bytes: Uint8Array) => unknown])[] = [
  [IMAGE, take],
  [vector('tiny-prot'), take],
  [PAYLOAD, takePayload],
]

describe('what MCUboot’s own tool makes', () => {
  test('of the same input is the same, byte for byte', () => {
    const made = writeImage(new TextEncoder().encode('perdure'), VERSION, KEY)
    expect(Buffer.from(made).toString('hex')).toBe(Buffer.from(vector('tiny')).toString('hex'))
  })

  test('names its key by the hash that the tool gives it', () => {
    const hash = '503d8ee46d581c649966569ae095e27041de83322e8e0480e5539e00d2d5d874'
    expect(Buffer.from(keyHash(KEY)).toString('hex')).toBe(hash)
    expect(keyHash(TRUSTED[0]!)).toEqual(keyHash(KEY))
  })

  test('is read, protected entries and all', () => {
    const plain = readImage(vector('tiny'))
    expect(plain.version).toEqual(VERSION)
    expect(Buffer.from(plain.payload).toString()).toBe('perdure')
    expect(checkSignature(plain, TRUSTED)).toBe(TRUSTED[0])
    const counted = readImage(vector('tiny-prot'))
    expect(counted.protectedTlvs).toEqual([{ type: 0x50, value: Uint8Array.of(5, 0, 0, 0) }])
    expect(checkSignature(counted, [createPublicKey(keyOf(0x22)), ...TRUSTED])).toBe(TRUSTED[0])
  })

  test.each([
    ['badhash', 'IMAGE_HASH'],
    ['wrongkey', 'IMAGE_KEY'],
    ['flag-lzma2', 'IMAGE_HEADER'],
    ['pure', 'IMAGE_TLVS'],
    ['tiny', 'IMAGE_PAYLOAD'],
    ['a-1.0.0', 'IMAGE_PAYLOAD'],
  ])('and no card takes: %s is refused: %s', (name, code) => {
    expect(refusalOf(() => take(vector(name)))).toBe(code)
  })
})

describe('an image', () => {
  test('is read as it was written, and the same input makes the same bytes', () => {
    const image = take(IMAGE)
    const payload = readPayload(image.payload)
    expect(image.version).toEqual(VERSION)
    const { parts, ...purpose } = payload.manifest
    expect(purpose).toEqual(PURPOSE)
    expect(parts.map(({ kind, pack }) => [kind, pack])).toEqual([
      ['bundle', 'brotli'],
      ['signature', 'none'],
    ])
    expect(readPart(payload, 'bundle')).toEqual(BUNDLE)
    expect(readPart(payload, 'signature')).toEqual(sha256(BUNDLE))
    expect(readPart(payload, 'runtime')).toBe(null)
    const again = writePayload(PURPOSE, [
      ['bundle', BUNDLE],
      ['signature', sha256(BUNDLE)],
    ])
    expect(writeImage(again, VERSION, KEY)).toEqual(IMAGE)
  })

  test('is read where it lies in other memory', () => {
    const around = new Uint8Array(IMAGE.length + 20).fill(0xa5)
    around.set(IMAGE, 7)
    expect(take(around.subarray(7, 7 + IMAGE.length)).hash).toEqual(take(IMAGE).hash)
    expect(take(Buffer.from(IMAGE)).hash).toEqual(take(IMAGE).hash)
  })

  test('is refused with any one bit flipped', () => {
    const bytes = IMAGE.slice()
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      bytes[bit >> 3]! ^= 1 << (bit & 7)
      expect(
        refusalOf(() => take(bytes)),
        `bit ${bit}`,
      ).not.toBe(null)
      bytes[bit >> 3]! ^= 1 << (bit & 7)
    }
    expect(refusalOf(() => take(bytes))).toBe(null)
  })

  test('is refused cut short anywhere, and with anything behind it', () => {
    for (let length = 0; length < IMAGE.length; length++) {
      expect(
        refusalOf(() => take(IMAGE.subarray(0, length))),
        `${length} bytes`,
      ).not.toBe(null)
    }
    for (const more of [1, 4, 64]) {
      expect(refusalOf(() => take(joined([IMAGE, new Uint8Array(more)])))).toBe('IMAGE_TLVS')
    }
  })

  test('is refused with any length or size of its header and areas at another value', () => {
    const view = new DataView(IMAGE.buffer.slice(0))
    const bytes = new Uint8Array(view.buffer)
    const area = HEADER_BYTES + PAYLOAD.length
    const fields: readonly [at: number, bits: 16 | 32][] = [
      ...[8, 10, area + 2, area + 4, area + 6, area + 42].map((at): [number, 16] => [at, 16]),
      ...[12, 16].map((at): [number, 32] => [at, 32]),
    ]
    for (const [at, bits] of fields) {
      const whole = bits === 16 ? view.getUint16(at, true) : view.getUint32(at, true)
      const ends = [0, 1, whole - 1, whole + 1, 2 ** (bits - 1), 2 ** bits - 1]
      for (const value of ends.filter((one) => one !== whole)) {
        bits === 16 ? view.setUint16(at, value, true) : view.setUint32(at, value, true)
        expect(
          refusalOf(() => take(bytes)),
          `${value} at ${at}`,
        ).not.toBe(null)
      }
      bits === 16 ? view.setUint16(at, whole, true) : view.setUint32(at, whole, true)
    }
    expect(refusalOf(() => take(bytes))).toBe(null)
  })

  /** Inputs that are drawn: of a right one some bytes are others, or its end is missing. */
  function refuseDrawn(inputs: number): void {
    const random = new Random(SEED)
    for (let i = 0; i < inputs; i++) {
      const [from, look] = LOOKS[random.below(LOOKS.length)]!
      const bytes = from.slice(0, random.chance(0.2) ? random.below(from.length) : from.length)
      const changes = 1 + random.below(4)
      for (let n = 0; n < changes && bytes.length > 0; n++) {
        bytes[random.below(bytes.length)]! ^= 1 + random.below(255)
      }
      const refusal = refusalOf(() => look(bytes))
      // A payload has no hash of its own.
      if (refusal !== null || look === takePayload) continue
      expect(Buffer.from(bytes), `input ${i}, SEED=${SEED}`).toEqual(Buffer.from(from))
    }
  }

  test('that is drawn is refused, and stops nothing', () => refuseDrawn(10_000))
  test('that is drawn is refused, and no other error comes', THOROUGH, () => refuseDrawn(400_000))
})

describe('a version', () => {
  test.each(['0.0.0', '1.2.3', '255.255.65535+4294967295', '1.2.3+4'])('%s is one', (text) => {
    expect(versionText(versionOf(text)!)).toBe(text)
  })

  test.each([
    '',
    '1',
    '1.2',
    '256.0.0',
    '0.256.0',
    '0.0.65536',
    '0.0.0+4294967296',
    'v1.2.3',
    '-1.0.0',
  ])("'%s' is none", (text) => expect(versionOf(text)).toBe(null))
})

describe('a manifest', () => {
  const bundle = {
    ...{ kind: 'bundle', pack: 'none', at: 0, packed: BUNDLE.length, size: BUNDLE.length },
    sha: sha256(BUNDLE),
  }
  const whole = { ...PURPOSE, parts: [bundle] }

  /** A payload whose manifest is that, in front of the bundle. */
  function payloadOf(manifest: unknown, content: Uint8Array = BUNDLE): Uint8Array {
    const bytes = manifest instanceof Uint8Array ? manifest : encode(manifest, { cde: true })
    const length = new Uint8Array(4)
    new DataView(length.buffer).setUint32(0, bytes.length, true)
    return joined([new TextEncoder().encode('PERDIMG1'), length, bytes, content])
  }

  const takePart = (bytes: Uint8Array): Uint8Array | null => readPart(readPayload(bytes), 'bundle')

  test('that is right is taken', () => {
    expect(takePart(payloadOf(whole))).toEqual(BUNDLE)
  })

  const { sha: _, ...noSha } = bundle
  const { hal: __, ...noHal } = whole
  test.each<[string, unknown]>([
    ['a list', []],
    ['a number', 1],
    ['nothing', null],
    ['no counter', { ...whole, counter: undefined }],
    ['a counter below 0', { ...whole, counter: -1 }],
    ['a counter of 33 bits', { ...whole, counter: 2 ** 32 }],
    ['a broken counter', { ...whole, counter: 1.5 }],
    ['no board', { ...whole, targets: [] }],
    ['17 boards', { ...whole, targets: Array.from({ length: 17 }, (_one, i) => `b${i}`) }],
    ['a board of no name', { ...whole, targets: [''] }],
    ['a board with an escape', { ...whole, targets: ['a\u001b[31m'] }],
    ['a board of 33 letters', { ...whole, targets: ['x'.repeat(33)] }],
    ['one format', { ...whole, formats: [2] }],
    ['formats backwards', { ...whole, formats: [3, 2] }],
    ['formats of 9 bits', { ...whole, formats: [2, 256] }],
    ['no hal', noHal],
    ['a hal of 7 bytes', { ...whole, hal: new Uint8Array(7) }],
    ['no parts', { ...whole, parts: [] }],
    ['a part that is none', { ...whole, parts: [3] }],
    ['four parts', { ...whole, parts: [bundle, bundle, bundle, bundle] }],
    ['two bundles', { ...whole, parts: [bundle, { ...bundle, at: BUNDLE.length, packed: 0 }] }],
    ['no bundle', { ...whole, parts: [{ ...bundle, kind: 'runtime' }] }],
    ['a part of another kind', { ...whole, parts: [{ ...bundle, kind: 'kernel' }] }],
    ['a part packed otherwise', { ...whole, parts: [{ ...bundle, pack: 'lzma2' }] }],
    ['a part that begins later', { ...whole, parts: [{ ...bundle, at: 1 }] }],
    ['a part that begins before', { ...whole, parts: [{ ...bundle, at: -1 }] }],
    ['a part that is shorter', { ...whole, parts: [{ ...bundle, packed: BUNDLE.length - 1 }] }],
    ['a part that is longer', { ...whole, parts: [{ ...bundle, packed: BUNDLE.length + 1 }] }],
    ['a part of 64 MiB and 1', { ...whole, parts: [{ ...bundle, size: PART_BYTES_MAX + 1 }] }],
    ['a part without a hash', { ...whole, parts: [noSha] }],
    ['what is not known', { ...whole, colour: 'blue' }],
    ['what is not known, of a part', { ...whole, parts: [{ ...bundle, colour: 'blue' }] }],
    ['the fields of every object', { ...whole, ['__proto__']: 1, constructor: 2 }],
    ['no CBOR', Uint8Array.of(0xff, 0xff)],
    ['CBOR with a byte behind it', joined([encode(whole, { cde: true }), Uint8Array.of(0)])],
    ['a map without an end', Uint8Array.of(0xbf)],
    ['a map of 2^64', Uint8Array.of(0xbb, 255, 255, 255, 255, 255, 255, 255, 255)],
    ['a list in a list, 4,000 deep', new Uint8Array(4000).fill(0x81)],
    ['another order of its fields', encode(whole)],
  ])('that has %s is refused', (_what, manifest) => {
    expect(refusalOf(() => takePart(payloadOf(manifest)))).toBe('IMAGE_PAYLOAD')
  })

  test('of no length, or of more bytes than there are, is refused', () => {
    const bytes = payloadOf(whole)
    const view = new DataView(bytes.buffer)
    for (const length of [0, 1, bytes.length, MANIFEST_BYTES_MAX + 1, 2 ** 31, 2 ** 32 - 1]) {
      view.setUint32(8, length, true)
      expect(
        refusalOf(() => takePart(bytes)),
        `${length}`,
      ).toBe('IMAGE_PAYLOAD')
    }
    for (let length = 0; length < 12; length++) {
      expect(refusalOf(() => takePart(bytes.subarray(0, length)))).toBe('IMAGE_PAYLOAD')
    }
  })

  test('whose parts are others is refused, and nothing is unpacked beyond what it says', () => {
    const large = new Uint8Array(1 << 24)
    const small = new Uint8Array(brotliCompressSync(large))
    const part = (over: Partial<Part>): Uint8Array => {
      const one = { ...bundle, pack: 'brotli', packed: small.length, size: large.length, ...over }
      return payloadOf({ ...whole, parts: [one] }, small)
    }
    const wrong = (bytes: Uint8Array) => refusalOf(() => takePart(bytes))
    expect(wrong(part({ sha: sha256(large) }))).toBe(null)
    for (const size of [0, 1, large.length - 1, large.length + 1]) {
      expect(wrong(part({ sha: sha256(large), size })), `${size} bytes`).toBe('IMAGE_PART')
    }
    expect(wrong(part({ sha: sha256(small) }))).toBe('IMAGE_PART')
    const noBrotli = { ...bundle, pack: 'brotli' }
    expect(wrong(payloadOf({ ...whole, parts: [noBrotli] }))).toBe('IMAGE_PART')
    const other = { ...bundle, sha: sha256(large) }
    expect(wrong(payloadOf({ ...whole, parts: [other] }))).toBe('IMAGE_PART')
  })
})
