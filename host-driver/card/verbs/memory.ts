/**
 * Memory of work requests on the local card: pieces of what host and card share, registered one by
 * one.
 *
 * Invariant: the bytes are freed when the card has been told that they are no region any
 * more, not before. A card that was gone knows none of them: what is left is memory, to be freed.
 */

import { CardRemoved } from '../../way/queue-errors.ts'
import type { MemoryPort } from '../../way/verbs-way.ts'
import type { PcieDevice } from '../device.ts'

/** So many bytes, zeros, that the domain may name. */
export async function registerMemory(
  device: PcieDevice,
  domain: number,
  length: number,
): Promise<MemoryPort> {
  const buffer = device.alloc(length)
  try {
    buffer.store(new Uint8Array(length))
    const card = await device.regMr(buffer.address, length, domain)
    return {
      ...{ lkey: card.lkey, addr: buffer.address, length },
      store: (bytes, at) => buffer.store(bytes, at),
      load: (at, count) => buffer.load(at, count),
      free: async (isKnown) => {
        try {
          if (isKnown) await device.deregMr(card)
        } catch (error) {
          if (!(error instanceof CardRemoved)) throw error
        }
        buffer.free()
      },
    }
  } catch (error) {
    buffer.free()
    throw error
  }
}
