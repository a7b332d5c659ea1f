/**
 * A part beside another one, on which images of it are put together chunk by chunk.
 *
 * Invariant: nothing is pending on it before a start, and after `take` or `restore` it is
 * what was durable on the other one.
 */

import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import type { PendingChunk } from '../../../boards/emulator/medium/power-cut.ts'

export class Scratch {
  readonly part: Nvdimm
  private base: Uint8Array

  constructor({ bytes, durable, dirtyShutdowns, saveFailed }: Nvdimm) {
    const condition = { dirtyShutdowns, saveFailed, poisonedLines: [] }
    this.part = new Nvdimm({ bytes, content: durable, condition })
    this.base = durable.slice()
  }

  /** Takes over what is durable there now. */
  take({ durable }: Nvdimm): void {
    this.base = durable.slice()
    this.restore()
  }

  /** Of these chunks the newest version where it survives, and else the durable one. */
  show(chunks: readonly PendingChunk[], survivors: readonly boolean[]): void {
    chunks.forEach(({ at, versions }, i) => {
      this.put(at, versions[survivors[i] === true ? versions.length - 1 : 0]!)
    })
  }

  put(at: number, bytes: Uint8Array): void {
    this.part.durable.set(bytes, at)
    this.part.live.set(bytes, at)
  }

  restore(): void {
    this.part.pendingStores.clear()
    this.put(0, this.base)
  }
}
