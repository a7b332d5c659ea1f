/** A card as the transcripts of SMP clients have met it: their images, what it says of itself. */

import { createPublicKey } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { decode } from 'cbor2'
import { ImageError } from '../../../boards/flash/image-error.ts'
import { checkSignature, readImage } from '../../../boards/flash/mcuboot.ts'
import { SlotError } from '../../../boards/flash/slot-error.ts'
import { type Check, SlotStore } from '../../../boards/flash/slot-store.ts'
import type { SmpCard } from '../../../boards/flash/smp.ts'
import { ROOT } from '../source/sources.ts'
import { CutStorage } from './cut-storage.ts'
import { keyOf, remembering } from './slot-model.ts'

export const SMP_VECTORS: string = join(ROOT, 'test/vectors/smp')

const SLOT_BYTES = 1 << 17
const SLOTS_AT = 16384

export function vectorOf(name: string): Uint8Array {
  return new Uint8Array(readFileSync(join(SMP_VECTORS, 'images', `${name}.bin`)))
}

const TRUSTED = [createPublicKey(keyOf(0x11))]

/** Their manifests are of another form; what counts of them is the same. */
const CHECK: Check = remembering((bytes) => {
  const image = readImage(bytes)
  checkSignature(image, TRUSTED)
  const length = new DataView(image.payload.buffer, image.payload.byteOffset).getUint32(8, true)
  const found: unknown = decode(image.payload.slice(12, 12 + length))
  const { counter, targets } = found as { counter: number; targets: string[] }
  if (!targets.includes('linux-x86-64')) {
    throw new SlotError('SLOT_TARGET', `made for ${targets.join(', ')}; this is linux-x86-64`)
  }
  if (image.payload.length === 0) throw new ImageError('IMAGE_PAYLOAD', 'it has no payload')
  return { version: image.version, hash: image.hash, counter, formats: [0, 255] }
})

/** It runs a-1.0.0. An image whose payload says CRASH ends by itself when it is started. */
export class SmpWorld implements SmpCard {
  readonly slotBytes: number = SLOT_BYTES
  readonly statisticsGroups: readonly string[] = ['boot', 'card']
  readonly lines: string[] = []
  readonly storage: CutStorage
  slots: SlotStore

  constructor(first = 'a-1.0.0') {
    const durable = new Uint8Array(SLOTS_AT + 2 * SLOT_BYTES)
    durable.set(vectorOf(first), SLOTS_AT)
    this.storage = new CutStorage(durable)
    this.slots = this.open()
    this.slots.start()
    this.slots.confirm()
  }

  private open(): SlotStore {
    const slots = { check: CHECK, slotBytes: SLOT_BYTES, slotsAt: SLOTS_AT }
    return new SlotStore(this.storage, slots)
  }

  reset(): void {
    this.slots = this.open()
    const { image } = this.slots.start()
    if (image !== null && Buffer.from(image).includes('CRASH')) {
      this.slots.noteReason('the image ended by itself')
      this.slots.start()
    }
    this.slots.selfTestPassed()
  }

  describe(format: string): string {
    const all = 'perdure-boot card 6.12 1.0.0 aarch64 cortex-a78 bluefield3 Linux'
    return format.includes('a') ? all : 'perdure-boot'
  }

  shell(line: string): string {
    this.lines.push(line)
    return JSON.stringify({ state: 'serving', line })
  }

  statistics(group: string): Readonly<Record<string, number>> | null {
    return this.statisticsGroups.includes(group) ? { starts: 3, reverts: 1, uploads: 2 } : null
  }

  about(): Readonly<Record<string, unknown>> {
    return { trial: this.slots.onTrial, reason: this.slots.reason }
  }
}

/** What clients have sent in the transcripts: packets, and what was on the line, or a datagram. */
export function smpExchanges(): { packets: Uint8Array[]; wires: Uint8Array[] } {
  const folder = join(SMP_VECTORS, 'captures')
  const names = readdirSync(folder).filter((name) => name.endsWith('.jsonl'))
  const lines = names.flatMap((name) => {
    const text = readFileSync(join(folder, name), 'utf8').trimEnd()
    return text.split('\n').map((line) => JSON.parse(line) as Record<string, string>)
  })
  const bytes = (hex = ''): Uint8Array => new Uint8Array(Buffer.from(hex, 'hex'))
  const sent = lines.filter(({ dir }) => dir === 'host>card')
  return {
    packets: sent.flatMap(({ smp }) => (smp === undefined ? [] : [bytes(smp)])),
    wires: sent.map(({ wire }) => bytes(wire)),
  }
}
