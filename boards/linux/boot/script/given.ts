/** What the program has given, for those who cannot be handed it. */

import type { Host } from './host.ts'

let given: Host | null = null

export function give(it: Host): void {
  given = it
}

export function host(): Host {
  if (given === null) throw new Error('the program has given nothing yet')
  return given
}
