/**
 * A card whose host's persistent memory lies in pieces, and where a byte of it lies by a reckoning
 * of its own: page by page, from the list that the host has stated.
 */

import { HostMemory, type Platform } from '../../../boards/emulator/host/host-memory.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import type { Watch } from '../../../boards/emulator/run/machine.ts'
import { PLACEMENT_BYPASS, PLACEMENT_THROUGH } from '../../../firmware/medium/region.ts'
import * as mad from '../../../firmware/wire/management.ts'
import type { MemoryPiece } from '../../../host-driver/base/pieces.ts'
import { memoryInPieces } from '../../../host-driver/target/pieces.ts'
import { RawAgentQueues } from '../queues/agent-host.ts'
import {
  type Agent,
  attachedAgent,
  believe,
  cardOf,
  hostSideOf,
  PART_BYTES,
  type Placed,
  putPieces,
  queueHostOf,
  work,
} from './placed.ts'
import type { RegionShape, TestCard } from './test-card.ts'

export const PAGE = 4096

/** Pages of the host's memory, in pieces: first page, pages. */
export type Table = readonly (readonly [number, number])[]

/** The table as the driver is told it, in bytes. */
export function piecesOf(table: Table): MemoryPiece[] {
  return table.map(([page, pages]) => ({ at: page * PAGE, bytes: pages * PAGE }))
}

/** Puts the pieces into the body of a call. */
function naming(table: Table): (request: Uint8Array) => void {
  return (request) => putPieces(request, 0, piecesOf(table))
}

/** The PROBE of a host that knows of those pieces; its fault. */
export function probePieces(card: TestCard, table: Table): string {
  return card.manage(mad.METHOD_SET, mad.ATTRIBUTE_PROBE, naming(table)).fault
}

/** The PIECES call; what it was answered with. */
export function statePieces(
  card: TestCard,
  table: Table,
): { readonly fault: string; readonly holds: Table } {
  const { fault, body } = card.manage(mad.METHOD_SET, mad.ATTRIBUTE_PIECES, naming(table))
  const view = new DataView(body.buffer, body.byteOffset)
  const count = fault === 'PASS' ? view.getUint32(mad.PIECES_COUNT) : 0
  const holds = Array.from({ length: count }, (_, i) => {
    const at = mad.PIECES_FIRST + 8 * i
    return [view.getUint32(at), view.getUint32(at + 4)] as const
  })
  return { fault, holds }
}

/** Where that byte, by the card's reckoning, lies in the memory of its host. */
export function placeIn(table: Table, offset: number): number {
  const pages = table.flatMap(([page, count]) => Array.from({ length: count }, (_, i) => page + i))
  return pages[Math.floor(offset / PAGE)]! * PAGE + (offset % PAGE)
}

/** Bytes of a memory, byte by byte. */
export function bytesIn(
  memory: Uint8Array,
  table: Table,
  offset: number,
  length: number,
): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => memory[placeIn(table, offset + i)]!)
}

/** States the pieces and shows how they are written, as a host does that has just started. */
export function showPieces(card: TestCard, table: Table, placement: number): Agent | null {
  const { fault } = statePieces(card, table)
  if (fault !== 'PASS') throw new Error(`the pieces were refused: ${fault}`)
  believe(card, placement, placeIn(table, 0), naming(table))
  if (placement === PLACEMENT_BYPASS) return null
  const memory = memoryInPieces(hostSideOf(card), piecesOf(table))
  return attachedAgent(card, new RawAgentQueues(queueHostOf(card)), memory)
}

/** A card with a region in such pieces of a memory of so many pages. */
export function placedInPieces(
  platform: Platform,
  table: Table,
  shape: RegionShape = {},
  pages = 32,
): Placed {
  const host = new HostMemory({ part: new Nvdimm({ bytes: pages * PAGE }), platform })
  const card = cardOf(PART_BYTES, host)
  card.format()
  const placement = platform.ddio ? PLACEMENT_THROUGH : PLACEMENT_BYPASS
  if (placement === PLACEMENT_THROUGH) queueHostOf(card)
  const agent = showPieces(card, table, placement)
  const region = card.provision({ slots: 2, ...shape, placement })
  if (agent !== null) work(card, agent)
  return { card, host, region, qp: card.connect(), agent }
}

/** The same part and memory behind a start, its window of so many pages. */
export function restartedInWindow(from: Placed, pages: number, watch?: Watch): TestCard {
  const { part, platform } = from.host
  const content = part.durable.slice(0, pages * PAGE)
  const smaller = new Nvdimm({ bytes: content.length, content })
  return cardOf(from.card.nvdimm, new HostMemory({ part: smaller, platform }), watch)
}
