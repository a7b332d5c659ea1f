/** Values of every kind, and the places of a call that they are put into. */

import type { Slot, Sort } from '../source/types.ts'

/** A value of each sort that may be wrong, and of which it is. */
export const VALUES: readonly (readonly [string, unknown, Sort | null])[] = [
  ['undefined', undefined, 'undefined'],
  ['null', null, 'null'],
  ['true', true, 'boolean'],
  ['a text', 'abcdefgh', 'string'],
  ['NaN', Number.NaN, null],
  ['8', 8, 'number'],
  ['8n', 8n, 'bigint'],
  ['-1n', -1n, null],
  ['a symbol', Symbol('one'), null],
  ['an object', {}, 'object'],
  ['an object of no class', Object.create(null), 'object'],
  ['what only looks like bytes', Object.create(Uint8Array.prototype), 'object'],
  ['a list', [], 'list'],
  ['a function', () => {}, 'function'],
  ['a Uint16Array', new Uint16Array(4), 'object'],
  ['a Float64Array', new Float64Array(1), 'object'],
  ['a DataView', new DataView(new ArrayBuffer(8)), 'object'],
  ['an ArrayBuffer', new ArrayBuffer(8), 'object'],
]

/** An error can be made of anything. */
export function isError(value: unknown): boolean {
  return typeof value === 'function' && value.prototype instanceof Error
}

/** Every place of a call, and what is made of its good arguments to have a wrong value there. */
export function* placesOf(slots: readonly Slot[]): Generator<{
  readonly what: string
  readonly slot: Slot
  put(args: readonly unknown[], value: unknown): unknown[]
}> {
  for (const [i, slot] of slots.entries()) {
    const at = (args: readonly unknown[], value: unknown): unknown[] => args.with(i, value)
    yield { what: slot.name, slot, put: at }
    for (const field of slot.fields) {
      yield {
        what: `${slot.name}.${field.name}`,
        slot: field,
        put: (args, value) => at(args, { ...(args[i] as object), [field.name]: value }),
      }
    }
  }
}
