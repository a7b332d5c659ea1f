/** Headers in scratch, read in place for each packet: the slice of the state that wire/ owns. */

import type { Atomic } from './atomic.ts'
import type { Feth } from './feth.ts'
import type { Ieth } from './ieth.ts'
import type { Packet } from './packet.ts'
import type { Pweth } from './persist.ts'
import type { Reth } from './reth.ts'

export interface WireState {
  readonly packet: Packet
  readonly reth: Reth
  readonly extension: Reth
  readonly pweth: Pweth
  readonly feth: Feth
  readonly atomic: Atomic
  readonly ieth: Ieth
}
