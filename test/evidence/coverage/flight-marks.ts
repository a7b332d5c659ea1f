/** What the marks of the firmware write to, before any of it is loaded (vitest, setupFiles). */

import { BRANCHES } from './flight-names.ts'

const hits = new Uint8Array(Number(process.env[BRANCHES]))

Object.assign(globalThis, {
  __hits: hits,
  __hit: (branch: number): void => {
    hits[branch] = 1
  },
})
