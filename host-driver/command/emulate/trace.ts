/**
 * `emulate --trace FILE`: what passes between client, card and the host inside, a line for each, in
 * the order in which it leaves its sender. Packets have the text of `perdure capture`.
 *
 *   client > card   WRITE_PERSIST Only qp 0x101 psn 256 va 0x0 key 0x1fe82160 27 B op 1 wait 2 slot
 *   card > host     DMA write, 64 B at 0x5000 of the persistent memory, past the caches
 *   card > host     DMA read, 1 B at 0x5000 of the persistent memory
 *   card > client   PERSIST_ACK …
 *
 * Invariants:
 * - Who watches changes nothing: what cannot be written is told at the end, by `close`.
 * - A file that is there is as it was until `begin`; one that was not is gone again without it.
 */

import {
  closeSync,
  existsSync,
  fstatSync,
  ftruncateSync,
  openSync,
  unlinkSync,
  writeSync,
} from 'node:fs'
import type { Access, LinkEnd, RegisterWrite } from '../../../boards/emulator/index.ts'
import { blankPacket, type Packet } from '../../../firmware/wire/packet.ts'
import type { Flushed } from '../../target/flush-agent.ts'
import { textOfFrame } from '../capture/frame-text.ts'

/** Lines that wait before they go to the file. */
const LINES = 1000

/** Room for who sends to whom. */
const ENDS_WIDTH = 16

export class Trace {
  private readonly packet: Packet = blankPacket()
  private lines: string[] = []
  private path = ''
  private file: number | null = null
  private failure: Error | null = null
  /** The file was not there, and nothing is in it yet. */
  private isNew = false
  private begun = false

  /** It will go to that file. */
  open(path: string): void {
    this.isNew = !existsSync(path)
    this.file = openSync(path, 'a')
    this.path = path
  }

  /** From now on it goes there, in the place of what is there: first what is here already. */
  begin(): void {
    const { file } = this
    if (file === null) return
    if (fstatSync(file).isFile()) ftruncateSync(file)
    this.isNew = false
    this.begun = true
  }

  frame(frame: Uint8Array, from: LinkEnd): void {
    const ends = from === 'a' ? 'client > card' : 'card > client'
    this.add(ends, textOfFrame(this.packet, frame).text)
  }

  /** An access of the card to a memory of the host; `cached`: its writes go to the caches. */
  access({ kind, memory, at, length }: Access, cached: boolean): void {
    const isPersistent = memory === 'persistent'
    const way = cached ? ', into the caches' : ', past the caches'
    const how = isPersistent && kind === 'write' ? way : ''
    const where = isPersistent ? 'the persistent memory' : 'the queues'
    this.add('card > host', `DMA ${kind}, ${length} B at 0x${at.toString(16)} of ${where}${how}`)
  }

  register({ form }: RegisterWrite): void {
    this.add('host > card', form === 'ring' ? 'doorbell' : 'register write')
  }

  /** The host's CPU begins to write lines back. */
  clean(at: number, length: number): void {
    this.add('host', `writes back ${length} B at 0x${at.toString(16)}`)
  }

  /** It has waited for all of them. */
  fence(): void {
    this.add('host', 'fence')
  }

  /** The flush agent's SEND, of the data with that PSN. */
  flushed({ number, psn, operationId }: Flushed): void {
    this.add('host > card', `SEND, request ${number} is done, psn ${psn} op ${operationId}`)
  }

  close(): void {
    if (this.file === null) return
    if (this.begun) this.flush()
    closeSync(this.file)
    this.file = null
    if (this.isNew) unlinkSync(this.path)
    if (this.failure === null) return
    const { message } = this.failure
    throw new Error(`${this.path} cannot be written: ${message}`, { cause: this.failure })
  }

  private add(ends: string, text: string): void {
    this.lines.push(`${ends.padEnd(ENDS_WIDTH)}${text}\n`)
    if (this.begun && this.lines.length >= LINES) this.flush()
  }

  private flush(): void {
    const { file, lines } = this
    this.lines = []
    try {
      if (file !== null && this.failure === null) writeSync(file, lines.join(''))
    } catch (error) {
      this.failure = error as Error
    }
  }
}
