/**
 * One message of RDMA-CM on its way through the passive side.
 */

import type * as cm from '../wire/cm.ts'
import type { Packet } from '../wire/packet.ts'
import type { ConnectContext } from './context.ts'

/** One message: what it says, and where its body lies. */
export interface Call {
  readonly state: ConnectContext
  readonly header: cm.CmHeader
  readonly packet: Packet
  readonly at: number
}
