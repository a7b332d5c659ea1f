/** The file behind the machine's disk: the two slots of firmware (boards/flash/slot-store.ts). */

import { closeSync, existsSync, ftruncateSync, openSync, statSync } from 'node:fs'
import { STORAGE_BYTES } from '../flash/slot-store.ts'
import { Trouble } from '../tools/debian/programs.ts'

/** Where it lies, by the part's file. */
export function slotsPath(memory: string): string {
  return `${memory}.slots`
}

/** Makes the file, with holes, if it is not there, else looks at its size. Throws a Trouble. */
export function prepareSlots(path: string): void {
  if (existsSync(path)) {
    const { size } = statSync(path)
    if (size === STORAGE_BYTES) return
    throw new Trouble(`${path} has ${size} bytes, and slots have ${STORAGE_BYTES}`)
  }
  const file = openSync(path, 'wx')
  try {
    ftruncateSync(file, STORAGE_BYTES)
  } finally {
    closeSync(file)
  }
}
