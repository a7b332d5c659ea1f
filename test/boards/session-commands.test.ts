/**
 * The commands that sessions are made of (hal.ts, AGREE to UNSEAL), on the emulated machine and on
 * the native one: published answers, forgeries, and operands of every wrong kind.
 *
 * The native machine is compiled here with the sanitizers; without a compiler, or without
 * libsodium, its part is skipped.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Random } from '../../boards/emulator/base/random.ts'
import {
  AGREE,
  AUTHENTICATION_FAILED,
  BAD_COMMAND,
  DMA_SPACE,
  DONE,
  HASH,
  HOST_SPACE,
  NVDIMM_SPACE,
  PRIVATE_AT,
  SEAL,
  SEAL_DATA_BYTES,
  SEAL_TAG_BYTES,
  SHARED_SPACE,
  UNSEAL,
} from '../../firmware/board/hal.ts'
import { MEMORY_BYTES } from '../../firmware/board/memory-map.ts'
import {
  AGREEMENTS,
  HASHES,
  PAST_PRIME,
  SEALED,
  SMALL_ORDER,
} from '../support/judges/noise-vectors.ts'
import { because, compileMachine, noMachine } from '../support/native/machine-program.ts'
import {
  type Command,
  type Outcome,
  type Trial,
  tryEmulated,
  tryNative,
} from '../support/native/machine-trials.ts'

const SEED = Number(process.env.SEED ?? 7748)

/** Where operands lie, with room for what stands behind. */
const FROM = PRIVATE_AT
const TO = PRIVATE_AT + 4096
const AUX = PRIVATE_AT + 8192
/** Bytes that a command may take besides: a text of a million bytes. */
const LONG = PRIVATE_AT + 16_384

/** What stands where nothing was written. */
const UNTOUCHED = new Uint8Array(256).fill(0xa5)

const folder = mkdtempSync(join(tmpdir(), 'perdure-sessions-'))
let program = ''
beforeAll(() => {
  if (noMachine === null) program = compileMachine()
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** A trial, and what is to become of it. */
type Expected = readonly [name: string, trial: Trial, result: number, left: Uint8Array]

const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')
const joined = (...parts: readonly Uint8Array[]): Uint8Array => new Uint8Array(Buffer.concat(parts))

/** Bytes with that one changed. */
function changed(bytes: Uint8Array, at: number, by = 1): Uint8Array {
  const other = Uint8Array.from(bytes)
  other[at] = other[at]! ^ by
  return other
}

/** A command of three ranges: what lies at `from` and `aux`, and nothing of it where it goes. */
function trial(
  command: Command,
  from: Uint8Array,
  aux: Uint8Array | null,
  look: readonly [number, number],
): Trial {
  const inputs: [number, Uint8Array][] = [[command[1], from]]
  if (aux !== null) inputs.push([command[4], aux])
  return { puts: [[TO, UNTOUCHED], ...inputs], command, look }
}

function agreement(scalar: Uint8Array, point: Uint8Array): Trial {
  return trial([AGREE, FROM, TO, 32, AUX], scalar, point, [TO, 40])
}

/** What lies at `aux` of SEAL and UNSEAL. */
function sealing(key: Uint8Array, nonce: Uint8Array, data: Uint8Array): Uint8Array {
  return joined(key, nonce, new Uint8Array(new Uint32Array([data.length]).buffer), data)
}

function behind(bytes: Uint8Array, whole: number): Uint8Array {
  return joined(bytes, UNTOUCHED.subarray(0, whole - bytes.length))
}

const { key, nonce, data, plain, sealed } = SEALED
const AT_AUX = sealing(key, nonce, data)
/** Of it without data. */
const AUX_BYTES_MIN = AT_AUX.length - data.length

const BAD_ADDRESSES: readonly number[] = [
  ...[-1, -0.5, 0.5, PRIVATE_AT + 0.5, Number.NaN, Number.POSITIVE_INFINITY],
  ...[Number.NEGATIVE_INFINITY, -NVDIMM_SPACE, 2 ** 31, 2 ** 32, 2 ** 32 + PRIVATE_AT, 2 ** 64],
  ...[MEMORY_BYTES, MEMORY_BYTES + 1, NVDIMM_SPACE - 1, NVDIMM_SPACE, HOST_SPACE, DMA_SPACE],
  ...[SHARED_SPACE, NVDIMM_SPACE + 64, HOST_SPACE + 64, DMA_SPACE + 64, SHARED_SPACE + 64],
]
const BAD_LENGTHS: readonly number[] = [
  ...[-1, -32, 0.5, 32.5, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY],
  ...[MEMORY_BYTES + 1, 2 ** 31 - 1, 2 ** 31, 2 ** 32, 2 ** 32 + 32, 2 ** 53],
]

/** Well-formed commands, each with the bytes that each of its operands names. */
const GOOD: readonly {
  readonly op: number
  readonly length: number
  readonly bytes: readonly [from: number, to: number, aux: number]
}[] = [
  { op: AGREE, length: 32, bytes: [32, 32, 32] },
  { op: HASH, length: 100, bytes: [100, 32, 0] },
  { op: SEAL, length: plain.length, bytes: [plain.length, sealed.length, AUX_BYTES_MIN] },
  { op: UNSEAL, length: sealed.length, bytes: [sealed.length, plain.length, AUX_BYTES_MIN] },
]
const NAMES: ReadonlyMap<number, string> = new Map([
  [AGREE, 'AGREE'],
  [HASH, 'HASH'],
  [SEAL, 'SEAL'],
  [UNSEAL, 'UNSEAL'],
])

type Run = (trials: readonly Trial[]) => Outcome[]

const MACHINES: readonly (readonly [name: string, isMissing: boolean, run: Run])[] = [
  ['the emulated machine', false, tryEmulated],
  [
    `the native machine${because}`,
    noMachine !== null,
    (trials) => tryNative(program, folder, trials),
  ],
]

for (const [machine, isMissing, run] of MACHINES) {
  describe.skipIf(isMissing)(machine, () => {
    function hold(expected: readonly Expected[]): void {
      const outcomes: Outcome[] = run(expected.map(([, one]) => one))
      const told = expected.map(([name], i) => [name, ...outcomes[i]!])
      expect(told).toEqual(expected.map(([name, , result, left]) => [name, result, hexOf(left)]))
    }

    test('X25519 gives the published products, and nothing behind them', () => {
      hold(
        AGREEMENTS.map(({ scalar, point, product }, i): Expected => {
          return [`vector ${i}`, agreement(scalar, point), DONE, behind(product, 40)]
        }),
      )
    })

    test('a point of small order proves nothing, and nothing is written', () => {
      const scalars = [AGREEMENTS[0]!.scalar, AGREEMENTS[1]!.scalar, new Uint8Array(32)]
      const points = SMALL_ORDER.flatMap((point) => [point, changed(point, 31, 0x80)])
      hold(
        scalars.flatMap((scalar, s) =>
          points.map((point, p): Expected => {
            const name = `scalar ${s}, point ${p}`
            const left = UNTOUCHED.subarray(0, 40)
            return [name, agreement(scalar, point), AUTHENTICATION_FAILED, left]
          }),
        ),
      )
    })

    test('a point past the prime is taken modulo the prime, and its top bit is no part', () => {
      const { scalar } = AGREEMENTS[0]!
      const points = PAST_PRIME.flatMap(([written, is]) => [
        ...[is, written, changed(is, 31, 0x80), changed(written, 31, 0x80)],
      ])
      const outcomes = run(points.map((point) => agreement(scalar, point)))
      for (let i = 0; i < points.length; i += 4) {
        expect(outcomes[i]![0]).toBe(DONE)
        for (let k = 1; k < 4; k++) expect(outcomes[i + k], `${i / 4 + 2}`).toEqual(outcomes[i])
      }
      expect(new Set(outcomes.map(([, left]) => left)).size).toBe(PAST_PRIME.length)
    })

    test('the product may go over scalar and point, however they lie', () => {
      const { scalar, point, product } = AGREEMENTS[0]!
      const rows: Expected[] = []
      for (let shift = -40; shift <= 40; shift++) {
        for (const over of [FROM, AUX]) {
          const to = over + shift
          const puts = [[FROM, scalar] as const, [AUX, point] as const]
          const command = [AGREE, FROM, to, 32, AUX] as const
          const one: Trial = { puts, command, look: [to, 32] }
          rows.push([`${over === FROM ? 'scalar' : 'point'} ${shift}`, one, DONE, product])
        }
      }
      const same: Trial = {
        puts: [[FROM, scalar]],
        command: [AGREE, FROM, FROM, 32, FROM],
        look: [0, 0],
      }
      rows.push(['all of them', same, DONE, new Uint8Array(0)])
      hold(rows)
    })

    test('SHA-256 gives the published hashes, also over what is hashed, however they lie', () => {
      const rows = HASHES.map(([text, hash]): Expected => {
        const one = trial([HASH, LONG, TO, text.length, 0], text, null, [TO, 40])
        return [`${text.length} bytes`, one, DONE, behind(hash, 40)]
      })
      const [text, hash] = HASHES[3]!
      for (let shift = -40; shift <= 120; shift++) {
        const to = FROM + shift
        const one = trial([HASH, FROM, to, text.length, 0], text, null, [to, 32])
        rows.push([`to ${shift} bytes from the text`, one, DONE, hash])
      }
      hold(rows)
    })

    test('ChaCha20-Poly1305 gives the published text and tag, and opens it', () => {
      const seal = trial([SEAL, FROM, TO, plain.length, AUX], plain, AT_AUX, [TO, 140])
      const open = trial([UNSEAL, FROM, TO, sealed.length, AUX], sealed, AT_AUX, [TO, 140])
      hold([
        ['sealed', seal, DONE, behind(sealed, 140)],
        ['opened', open, DONE, behind(plain, 140)],
      ])
    })

    test('in place is as elsewhere, and the tag stays behind what was opened', () => {
      const { length } = plain
      const seal = trial([SEAL, FROM, FROM, length, AUX], plain, AT_AUX, [FROM, length + 16])
      const open = trial(
        [UNSEAL, FROM, FROM, sealed.length, AUX],
        ...([sealed, AT_AUX, [FROM, sealed.length]] as const),
      )
      hold([
        ['sealed', seal, DONE, sealed],
        ['opened', open, DONE, joined(plain, sealed.subarray(length))],
      ])
    })

    test('what was sealed opens to itself: every length of text and of data', () => {
      const random = new Random(SEED)
      const drawn = (length: number): Uint8Array => {
        const bytes = new Uint8Array(length)
        random.fill(bytes, 0, length)
        return bytes
      }
      const pairs = [...Array(131).keys()].map((length) => [length, length % 65] as const)
      const texts = [...pairs, [0, 64] as const, [4096, 64] as const].map(
        ([length, dataLength]) => ({
          text: drawn(length),
          aux: sealing(drawn(32), drawn(12), drawn(dataLength)),
        }),
      )
      const sealedTexts = run(
        texts.map(({ text, aux }) =>
          trial([SEAL, LONG, TO, text.length, AUX], text, aux, [TO, text.length + SEAL_TAG_BYTES]),
        ),
      )
      hold(
        texts.flatMap(({ text, aux }, i): Expected[] => {
          const [result, left] = sealedTexts[i]!
          expect(result).toBe(DONE)
          const bytes = new Uint8Array(Buffer.from(left, 'hex'))
          const open = (to: number): Trial =>
            trial([UNSEAL, LONG, to, bytes.length, AUX], bytes, aux, [to, text.length])
          const name = `${text.length} bytes, ${aux.length - 48} of data`
          return [
            [name, open(TO), DONE, text],
            [`${name}, in place`, open(LONG), DONE, text],
          ]
        }),
      )
    })

    test('another tag, text, nonce, key or data does not open, and nothing is written', () => {
      const left = UNTOUCHED.subarray(0, 140)
      const rows: Expected[] = []
      const refused = (name: string, text: Uint8Array, aux: Uint8Array): void => {
        const { length } = text
        const aside = trial([UNSEAL, FROM, TO, length, AUX], text, aux, [TO, 140])
        const inPlace = trial([UNSEAL, FROM, FROM, length, AUX], text, aux, [FROM, length])
        rows.push([name, aside, AUTHENTICATION_FAILED, left])
        rows.push([`${name}, in place`, inPlace, AUTHENTICATION_FAILED, text])
      }
      // The last 16 bytes are the tag.
      for (let at = 0; at < sealed.length; at++) {
        for (const by of [1, 0x80]) refused(`byte ${at} by ${by}`, changed(sealed, at, by), AT_AUX)
      }
      for (let at = 0; at < AT_AUX.length; at++) {
        if (at >= 44 && at < 48) continue
        refused(`byte ${at} of key, nonce and data`, sealed, changed(AT_AUX, at))
      }
      for (let length = 0; length <= SEAL_DATA_BYTES; length++) {
        if (length === data.length) continue
        const other = behind(data, SEAL_DATA_BYTES).subarray(0, length)
        const others = length < data.length ? data.subarray(0, length) : other
        refused(`${length} bytes of data`, sealed, sealing(key, nonce, others))
      }
      for (let length = SEAL_TAG_BYTES; length < sealed.length; length++) {
        refused(`the first ${length} bytes`, sealed.subarray(0, length), AT_AUX)
        refused(`the last ${length} bytes`, sealed.subarray(-length), AT_AUX)
      }
      hold(rows)
    })

    test('SEAL may write over key, nonce and data, which it has read', () => {
      const rows: Expected[] = []
      for (let shift = -140; shift <= 70; shift++) {
        const command = [SEAL, FROM, AUX + shift, plain.length, AUX] as const
        const one = trial(command, plain, AT_AUX, [AUX + shift, sealed.length])
        rows.push([`${shift}`, one, DONE, sealed])
      }
      hold(rows)
    })

    test('text and what becomes of it are one place, or they share no byte', () => {
      const rows: Expected[] = []
      const tried: [number, Uint8Array, Uint8Array][] = [
        [SEAL, plain, sealed],
        [UNSEAL, sealed, plain],
      ]
      for (const [op, text, made] of tried) {
        for (let shift = -140; shift <= 140; shift++) {
          const crosses = shift !== 0 && shift < text.length && -shift < made.length
          const look = [TO + shift, made.length] as const
          const one: Trial = {
            puts: [
              [TO - 140, joined(UNTOUCHED, UNTOUCHED)],
              [TO, text],
              [AUX, AT_AUX],
            ],
            command: [op, TO, TO + shift, text.length, AUX],
            look,
          }
          const before = joined(UNTOUCHED.subarray(0, 140), text, UNTOUCHED, UNTOUCHED)
          const untouched = before.subarray(140 + shift, 140 + shift + made.length)
          const name = `${NAMES.get(op)} ${shift}`
          rows.push([name, one, crosses ? BAD_COMMAND : DONE, crosses ? untouched : made])
        }
      }
      hold(rows)
    })

    test('an address that is not wholly in packet memory is refused, each of every command', () => {
      const rows: Expected[] = []
      for (const { op, length, bytes } of GOOD) {
        const inputs = op === UNSEAL ? sealed : behind(plain, 140)
        const good = [op, FROM, TO, length, AUX] as const
        const puts = [[TO, UNTOUCHED] as const, [FROM, inputs] as const, [AUX, AT_AUX] as const]
        for (const word of [1, 2, 4] as const) {
          const size = bytes[word === 4 ? 2 : word - 1]!
          if (size === 0) continue
          for (const bad of [...BAD_ADDRESSES, MEMORY_BYTES - size + 1]) {
            const command = good.with(word, bad) as unknown as Command
            const one: Trial = { puts, command, look: [TO, 140] }
            const name = `${NAMES.get(op)}, word ${word} is ${bad}`
            rows.push([name, one, BAD_COMMAND, UNTOUCHED.subarray(0, 140)])
          }
        }
      }
      hold(rows)
    })

    test('operands may end where packet memory ends', () => {
      const atEnd = (bytes: Uint8Array): number => MEMORY_BYTES - bytes.length
      const { scalar, point, product } = AGREEMENTS[0]!
      const [text, hash] = HASHES[2]!
      const end = MEMORY_BYTES - 32
      const rows: [string, Trial, Uint8Array][] = [
        ['a scalar', trial([AGREE, end, TO, 32, AUX], scalar, point, [TO, 32]), product],
        ['a point', trial([AGREE, FROM, TO, 32, end], scalar, point, [TO, 32]), product],
        ['a product', trial([AGREE, FROM, end, 32, AUX], scalar, point, [end, 32]), product],
        ['a text', trial([HASH, atEnd(text), TO, text.length, 0], text, null, [TO, 32]), hash],
        ['a hash', trial([HASH, FROM, end, text.length, 0], text, null, [end, 32]), hash],
        [
          'no text',
          trial([HASH, MEMORY_BYTES, TO, 0, 0], HASHES[0]![0], null, [TO, 32]),
          HASHES[0]![1],
        ],
      ]
      const { length } = plain
      const [from, to, aux] = [atEnd(plain), atEnd(sealed), atEnd(AT_AUX)]
      const size = sealed.length
      rows.push(
        ['SEAL from', trial([SEAL, from, TO, length, AUX], plain, AT_AUX, [TO, size]), sealed],
        ['SEAL to', trial([SEAL, FROM, to, length, AUX], plain, AT_AUX, [to, size]), sealed],
        ['SEAL aux', trial([SEAL, FROM, TO, length, aux], plain, AT_AUX, [TO, size]), sealed],
        ['UNSEAL from', trial([UNSEAL, to, TO, size, AUX], sealed, AT_AUX, [TO, length]), plain],
        [
          'UNSEAL to',
          trial([UNSEAL, FROM, from, size, AUX], sealed, AT_AUX, [from, length]),
          plain,
        ],
        ['UNSEAL aux', trial([UNSEAL, FROM, TO, size, aux], sealed, AT_AUX, [TO, length]), plain],
      )
      hold(rows.map(([name, one, left]): Expected => [name, one, DONE, left]))
    })

    test('a length that no such command can have is refused', () => {
      const rows: Expected[] = []
      const refuse = (op: number, length: number): void => {
        const command = [op, FROM, TO, length, AUX] as const
        const one = trial(command, behind(plain, 140), AT_AUX, [TO, 140])
        const name = `${NAMES.get(op)}, length ${length}`
        rows.push([name, one, BAD_COMMAND, UNTOUCHED.subarray(0, 140)])
      }
      for (const { op } of GOOD) for (const length of BAD_LENGTHS) refuse(op, length)
      for (let length = 0; length < 100; length++) if (length !== 32) refuse(AGREE, length)
      for (let length = 0; length < SEAL_TAG_BYTES; length++) refuse(UNSEAL, length)
      hold(rows)
    })

    test('more data than there may be, or data beyond packet memory, is refused', () => {
      const rows: Expected[] = []
      const left = UNTOUCHED.subarray(0, 140)
      const lengths = [SEAL_DATA_BYTES + 1, 100, 2 ** 16, 2 ** 31, 2 ** 32 - 48, 2 ** 32 - 1]
      for (const [op, text] of [
        [SEAL, plain],
        [UNSEAL, sealed],
      ] as const) {
        const tell = (name: string, aux: number, bytes: Uint8Array): void => {
          const one = trial([op, FROM, TO, text.length, aux], text, bytes, [TO, 140])
          rows.push([`${NAMES.get(op)}, ${name}`, one, BAD_COMMAND, left])
        }
        for (const length of lengths) {
          const word = new Uint8Array(new Uint32Array([length]).buffer)
          tell(`${length} bytes of data`, AUX, joined(key, nonce, word, new Uint8Array(128)))
        }
        for (let missing = 1; missing <= SEAL_DATA_BYTES; missing++) {
          const whole = sealing(key, nonce, new Uint8Array(SEAL_DATA_BYTES))
          const there = whole.subarray(0, whole.length - missing)
          tell(`${missing} bytes of data missing`, MEMORY_BYTES - there.length, there)
        }
      }
      hold(rows)
    })
  })
}
