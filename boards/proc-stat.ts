/** What Linux tells of a process, proc(5). */

import { readFileSync } from 'node:fs'

/** Places of fields behind the name of the process: its state, its parent, when it began. */
export const STATE = 0
export const PARENT = 1
/** In ticks since the machine's start. */
export const BEGAN = 19

/** The fields of its `stat` behind its name; none where there is no such process, or no /proc. */
export function statOf(process: number): readonly string[] {
  try {
    // The name before them may hold anything but ends with the last bracket.
    const text = readFileSync(`/proc/${process}/stat`, 'latin1')
    return text.replace(/^.*\)/s, '').trim().split(' ')
  } catch {
    return []
  }
}
