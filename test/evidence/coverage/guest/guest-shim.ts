/**
 * What stands for the test runner when a test plays in QuickJS: it runs the tests, and folds every
 * value that a test looks at into one hash. Whether a value is right is judged in Node; here it has
 * to be the same. `look` says what a play came to.
 */

let hash = 0x811c9dc5
let values = 0
let played = 0
const failed: string[] = []
const before: (() => unknown)[] = []
const waiting: { readonly name: string; readonly run: () => unknown }[] = []

function fold(text: string): void {
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
}

/** A value as text: its numbers, strings and shape, not deeper than four. */
function textOf(value: unknown, depth = 0): string {
  if (typeof value === 'function') return 'function'
  if (typeof value !== 'object' || value === null) return `${typeof value} ${String(value)}`
  if (depth > 4) return 'deep'
  if (ArrayBuffer.isView(value)) {
    return Array.from(new Uint8Array(value.buffer, value.byteOffset, value.byteLength)).join()
  }
  if (value instanceof Map || value instanceof Set) return textOf([...value], depth)
  const entries = Object.entries(value)
  return `{${entries.map(([name, field]) => `${name}:${textOf(field, depth + 1)}`).join()}}`
}

function outcomeOf(run: () => unknown): string {
  try {
    return textOf(run())
  } catch (error) {
    return `throws ${String(error)}`
  }
}

/** Whatever is asked of a value, the value is what counts; of a function, what it comes to. */
export function expect(value: unknown): unknown {
  const matchers: unknown = new Proxy(() => {}, {
    get: (_, name) => {
      if (name === 'toThrow') fold(outcomeOf(value as () => unknown))
      return name === 'then' ? undefined : matchers
    },
    apply: () => matchers,
  })
  values++
  fold(textOf(value))
  return matchers
}

for (const name of ['any', 'anything', 'objectContaining', 'arrayContaining', 'stringContaining']) {
  Object.assign(expect, { [name]: () => name })
}

type Body = (...values: unknown[]) => unknown

export const test: unknown = Object.assign(
  (name: string, ...bodies: (object | Body)[]) => {
    // Options may stand between.
    waiting.push({ name, run: bodies.at(-1) as Body })
  },
  {
    each: (rows: readonly unknown[]) => (name: string, run: Body) => {
      for (const row of rows) {
        waiting.push({ name, run: () => (Array.isArray(row) ? run(...row) : run(row)) })
      }
    },
  },
)

export const describe: unknown = Object.assign((_name: string, run: () => void) => run(), {
  each: (rows: readonly unknown[]) => (_name: string, run: Body) => {
    for (const row of rows) Array.isArray(row) ? run(...row) : run(row)
  },
})

/** Nobody waits for a test here. */
export const vi: unknown = { setConfig: () => {} }

export function beforeEach(run: () => unknown): void {
  before.push(run)
}

/**
 * Runs the tests that were told, or those of these places; `ended` is told the place of each. The
 * promise is fulfilled when the last one has ended.
 */
export async function play(
  places: readonly number[] = [...waiting.keys()],
  ended: (place: number) => void = () => {},
): Promise<void> {
  for (const place of places) {
    const { name, run } = waiting[place]!
    played++
    try {
      for (const prepare of before) await prepare()
      await run()
    } catch (error) {
      failed.push(`${name}: ${String(error)}`)
    }
    ended(place)
  }
}

export function look(): string {
  return JSON.stringify({ hash: hash | 0, values, tests: played, failed })
}
