/** The same programs of `wire/`. */

import type { Equivalent } from './equivalent.ts'

export const WIRE: readonly Equivalent[] = [
  {
    at: 'wire/immdt.ts blankImmdt',
    line: 'return { immediate: 0 }',
    mutant: 'return { immediate: 1 }',
    because: 'a header is read into it before anybody looks at it',
  },
  {
    at: 'wire/announcement.ts writeAnnouncement',
    line:
      'putU32(bytes, at + ADDRESS + 4, from.addressLow) ' +
      'putU32(bytes, at + LENGTH, from.lengthHigh)',
    mutant:
      ';putU32(bytes, at + LENGTH, from.lengthHigh) ' +
      ';putU32(bytes, at + ADDRESS + 4, from.addressLow)',
    because: 'they write different places',
  },
  {
    at: 'wire/librpma.ts blankLibrpma',
    line: 'return { addressHigh: 0, addressLow: 0, sizeHigh: 0, sizeLow: 0, rkey: 0, usage: 0 }',
    mutant: 'return { addressHigh: 0, addressLow: 0, sizeHigh: 0, sizeLow: 1, rkey: 0, usage: 0 }',
    because: 'whoever takes one writes the size, or reads a descriptor into it, before he looks',
  },
]
