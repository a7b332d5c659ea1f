/** Slots in a file, or on a block device, by the program's calls (boards/flash/storage.ts). */

import type { Storage } from '../../../flash/storage.ts'
import type { Host } from './host.ts'

export class HostStorage implements Storage {
  private readonly host: Host
  private readonly descriptor: number

  /** Throws what the system says. */
  constructor(host: Host, path: string, bytes: number) {
    this.host = host
    this.descriptor = host.openStorage(path, bytes)
  }

  read(at: number, length: number): Uint8Array {
    return new Uint8Array(this.host.readAt(this.descriptor, at, length))
  }

  write(at: number, bytes: Uint8Array): void {
    this.host.writeAt(this.descriptor, at, bytes)
  }

  sync(): void {
    this.host.sync(this.descriptor)
  }
}
