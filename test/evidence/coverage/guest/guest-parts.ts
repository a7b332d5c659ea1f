/**
 * Tests that call the firmware's parts, and not a board, played in QuickJS as they stand.
 *
 * Invariant: one bundle of a test file, with a mark at every branch of the firmware, runs
 * in Node and in QuickJS. Every value that a test looks at is the same in both, or it is told. Of
 * the tests of a file those play that QuickJS needs (parts-plan.ts).
 */

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { build, type Plugin } from 'esbuild'
import { newQuickJSWASMModule } from 'quickjs-emscripten'
import { ROOT } from '../../../support/source/sources.ts'
import { testFile } from '../../../support/source/test-files.ts'
import { type MarkedFirmware, markedSources, marksOf } from './guest-branches.ts'
import { Counter, LOADED, needed, type Taken } from './parts-plan.ts'

/** What a play came to. */
interface Looked {
  readonly hash: number
  readonly values: number
  readonly tests: number
  readonly failed: readonly string[]
}

interface PartsCoverage {
  readonly tests: number
  /** Values that were the same in both. */
  readonly values: number
  /** A byte for each branch: 1 if it was taken in QuickJS. */
  readonly hits: Uint8Array
  readonly differences: readonly string[]
}

/** Test files that need nothing of Node, and take branches that no call of a board takes. */
export const PARTS: readonly string[] = [
  'batch-edges',
  'batch-requester',
  'connect-active',
  'connect-doubt',
  'connect-link',
  'criteria',
  'noise-points',
  'operations-table',
  'part-report',
  'queue-control',
  'queues-completion',
  'queues-element',
  'queues-limits',
  'refused-commands',
  'region-name',
  'requester',
  'requester-doubt',
  'requester-edges',
  'requester-kinds',
  'residency-blocks',
  'residency-responder',
  'responder',
  'superblock-lost',
  'wire',
  'wire-hostile',
].map(testFile)

const STACK_BYTES = 2 ** 20

/** Where tests that read files find them, and what they may read. */
const VECTORS = 'test/vectors/'

/** What QuickJS has not, as far as these tests need it: both play with the same. */
const PLATFORM = `
var process = { env: {}, memoryUsage: () => ({ heapUsed: 0 }) }
var console = { log() {}, error() {}, warn() {} }
var setTimeout = () => 0
var clearTimeout = () => {}
var Atomics = { load: (of, at) => of[at], store: (of, at, value) => (of[at] = value) }
var Buffer = {
  alloc: (length) => new Uint8Array(length),
  from: (of, encoding) => {
    if (typeof of !== 'string') return Uint8Array.from(of)
    if (encoding === 'hex') return Uint8Array.from(of.match(/../g) || [], (two) => +('0x' + two))
    if (encoding === 'latin1') return Uint8Array.from(of, (letter) => letter.charCodeAt(0))
    return new TextEncoder().encode(of)
  },
  compare: (a, b) => {
    for (let i = 0; i < a.length && i < b.length; i++) if (a[i] !== b[i]) return a[i] - b[i]
    return a.length - b.length
  },
}
class URL {
  constructor(path, base) {
    const parts = String(base).split('/').slice(0, -1).concat(path.split('/'))
    for (let at = parts.indexOf('..'); at > 0; at = parts.indexOf('..')) parts.splice(at - 1, 2)
    this.href = parts.join('/')
  }
  toString() {
    return this.href
  }
}
class TextEncoder {
  encode(text) {
    return Uint8Array.from(unescape(encodeURIComponent(text)), (c) => c.charCodeAt(0))
  }
}
class TextDecoder {
  decode(bytes) {
    let letters = ''
    for (const byte of bytes) letters += String.fromCharCode(byte)
    return decodeURIComponent(escape(letters))
  }
}
`

/** What both play with in the place of Node's. */
const FILES = `
var read = (path) => new Uint8Array(readFile(String(path)))
var textOf = (bytes) => new TextDecoder().decode(bytes)
module.exports = {
  readFileSync: (path, encoding) => encoding === undefined ? read(path) : textOf(read(path)),
  readdirSync: (path) => textOf(read(path)).split('\\n'),
}`

const CRC = `
module.exports = {
  crc32: (bytes, crc = 0) => {
    let rest = ~crc
    for (const byte of bytes) {
      rest ^= byte
      for (let i = 0; i < 8; i++) rest = (rest >>> 1) ^ ((rest & 1) * 0xedb88320)
    }
    return ~rest >>> 0
  },
}`

/** The generator's stream: ChaCha20 from block 0, a nonce of zeros (RFC 8439 2.3, 2.4). */
const CRYPTO = `
var rounds = [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15],
  [0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]]
var turned = (x, by) => (x << by) | (x >>> (32 - by))
function stream(key, bytes) {
  var words = new DataView(key.buffer, key.byteOffset, 32)
  for (var at = 0; at < bytes.length; at += 64) {
    var begun = [0x61707865, 0x3320646e, 0x79622d32, 0x6b206574]
    for (var i = 0; i < 8; i++) begun.push(words.getInt32(4 * i, true))
    begun.push(at / 64, 0, 0, 0)
    var x = begun.slice()
    for (var i = 0; i < 10; i++) {
      for (var [a, b, c, d] of rounds) {
        x[a] = (x[a] + x[b]) | 0, x[d] = turned(x[d] ^ x[a], 16)
        x[c] = (x[c] + x[d]) | 0, x[b] = turned(x[b] ^ x[c], 12)
        x[a] = (x[a] + x[b]) | 0, x[d] = turned(x[d] ^ x[a], 8)
        x[c] = (x[c] + x[d]) | 0, x[b] = turned(x[b] ^ x[c], 7)
      }
    }
    for (var i = 0; i < 64 && at + i < bytes.length; i++) {
      bytes[at + i] = ((x[i >> 2] + begun[i >> 2]) | 0) >>> (8 * (i & 3))
    }
  }
  return bytes
}
module.exports = {
  createCipheriv: (name, key) => {
    if (name !== 'chacha20') throw new Error('not here: ' + name)
    return { update: (bytes) => stream(key, new Uint8Array(bytes.length)) }
  },
}`

const TYPES = 'module.exports = { isUint8Array: (value) => value instanceof Uint8Array }'

const STAND_INS: Readonly<Record<string, string>> = {
  'node:crypto': CRYPTO,
  'node:fs': FILES,
  'node:util/types': TYPES,
  'node:zlib': CRC,
}

/** Bytes of a file below VECTORS; of a folder the names in it, a line each. */
function readFile(path: string): ArrayBuffer {
  const whole = join(ROOT, path)
  if (!path.startsWith(VECTORS)) throw new Error(`${path} is not for tests of parts`)
  const bytes = path.endsWith('/')
    ? Buffer.from(readdirSync(whole).join('\n'))
    : readFileSync(whole)
  return Uint8Array.from(bytes).buffer
}

/** The runner is the shim, and draws are few; of Node there is nothing but these. */
const standIns: Plugin = {
  name: 'stand-ins',
  setup(made) {
    const [shim, few] = ['guest/guest-shim.ts', 'few-draws.ts'].map((name) => {
      return join(ROOT, 'test/evidence/coverage', name)
    })
    made.onResolve({ filter: /^vitest$/ }, () => ({ path: shim! }))
    made.onResolve({ filter: /^fast-check$/ }, ({ importer }) => {
      return importer === few ? null : { path: few! }
    })
    made.onResolve({ filter: /^node:/ }, ({ path }) => ({ path, namespace: 'none' }))
    made.onLoad({ filter: /.*/, namespace: 'none' }, ({ path }) => {
      return { contents: STAND_INS[path] ?? 'module.exports = {}', loader: 'js' }
    })
  },
}

/** A test file and what it calls, without marks to write to. */
async function bundleTest(file: string, marked: MarkedFirmware): Promise<string> {
  const contents = `import ${JSON.stringify(`./${file}`)}
export { look, play } from 'vitest'`
  const { outputFiles } = await build({
    absWorkingDir: ROOT,
    stdin: { contents, resolveDir: ROOT, loader: 'ts' },
    bundle: true,
    write: false,
    platform: 'neutral',
    mainFields: ['module', 'main'],
    target: 'es2023',
    format: 'iife',
    globalName: 'parts',
    ignoreAnnotations: true,
    // Readers of files are in that folder.
    define: { 'import.meta.url': '"test/support/wire/"' },
    legalComments: 'none',
    logLevel: 'error',
    plugins: [standIns, markedSources(marked)],
  })
  return `${PLATFORM}${outputFiles[0]!.text}`
}

/** What a bundle leaves: the exports of the shim. */
interface Parts {
  play(places?: readonly number[], ended?: (place: number) => void): Promise<void>
  look(): string
}

/** Loads a bundle in Node. Not in a context of its own: there each global costs a call. */
function load(source: string, given: string): (...values: unknown[]) => Parts {
  const make = new Function('readFile', given, `${source}\nreturn parts`)
  return (...values) => make(readFile, ...values) as Parts
}

interface Survey {
  readonly tests: readonly Taken[]
  /** Tests that lack something of Node, and what. */
  readonly failed: readonly string[]
}

/** Plays all tests of a file in Node, and says what each of them takes. */
async function survey(bare: string, branches: number): Promise<Survey> {
  const counter = new Counter(branches)
  const parts = load(bare, '__hits, __hit')(counter.marks, counter.hit)
  counter.ended(LOADED)
  await parts.play(undefined, counter.ended)
  const { failed } = JSON.parse(parts.look()) as Looked
  return { tests: counter.tests, failed }
}

async function inNode(source: string, places: readonly number[]): Promise<Looked> {
  const parts = load(source, '_')()
  await parts.play(places)
  return JSON.parse(parts.look()) as Looked
}

async function inQuickJs(
  source: string,
  places: readonly number[],
): Promise<{ looked: Looked; marks: string }> {
  const quickjs = await newQuickJSWASMModule()
  const context = quickjs.newContext()
  context.runtime.setMaxStackSize(STACK_BYTES)
  const reader = context.newFunction('readFile', (path) => {
    return context.newArrayBuffer(readFile(context.getString(path)))
  })
  context.setProp(context.global, 'readFile', reader)
  reader.dispose()
  const evaluate = (code: string): string => {
    const value = context.unwrapResult(context.evalCode(code, 'parts.js', { type: 'global' }))
    const text = context.typeof(value) === 'string' ? context.getString(value) : ''
    value.dispose()
    return text
  }
  evaluate(source)
  evaluate(`parts.play([${places.join()}])`)
  while (context.runtime.hasPendingJob()) context.unwrapResult(context.runtime.executePendingJobs())
  return {
    looked: JSON.parse(evaluate('parts.look()')) as Looked,
    marks: evaluate('__hits.join("")'),
  }
}

/** Plays of those test files in both what takes a branch that is `wanted`. */
export async function playParts(
  files: readonly string[],
  marked: MarkedFirmware,
  wanted: Uint8Array,
  progress: (file: string) => void = () => {},
): Promise<PartsCoverage> {
  const hits = new Uint8Array(marked.branches.length)
  const differences: string[] = []
  let [played, values] = [0, 0]
  for (const file of files) {
    progress(file)
    const bare = await bundleTest(file, marked)
    const left = wanted.map((want, i) => (want === 1 && hits[i] === 0 ? 1 : 0))
    const { tests: taken, failed } = await survey(bare, hits.length)
    // Of one file they lack the same.
    const [first] = failed
    if (first !== undefined) {
      differences.push(`${file}: ${failed.length} without what QuickJS has not: ${first}`)
    }
    const places = needed(taken, left)
    if (places.length === 0) continue
    const tests = places.filter((place) => place !== LOADED)
    const source = marksOf(marked) + bare
    const node = await inNode(source, tests)
    const { looked, marks } = await inQuickJs(source, tests)
    for (let i = 0; i < marks.length; i++) if (marks[i] === '1') hits[i] = 1
    played += looked.tests
    values += looked.values
    const told = [node, looked].map((each) => JSON.stringify(each).slice(0, 400))
    if (told[0] !== told[1]) differences.push(`${file}: ${told.join(' in Node, in QuickJS ')}`)
    else differences.push(...looked.failed.map((what) => `${file}: in both: ${what}`))
  }
  return { tests: played, values, hits, differences }
}
