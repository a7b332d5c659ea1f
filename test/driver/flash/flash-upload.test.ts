/**
 * An upload over ways that lose, double, turn round and cut what they carry: the whole file comes.
 */

import { describe, expect, test } from 'vitest'
import { answerSmp } from '../../../boards/flash/smp.ts'
import { SMP_HEADER_BYTES } from '../../../boards/flash/smp-packet.ts'
import { FlashTarget } from '../../../host-driver/flash/card.ts'
import { SmpClient } from '../../../host-driver/flash/smp-client.ts'
import type { SmpPort } from '../../../host-driver/flash/smp-port.ts'
import { SmpWorld, vectorOf } from '../../support/flash/smp-world.ts'
import { PATIENCE_MS } from '../../support/run/patience.ts'

/** Small, so that the file is many pieces. */
const PACKET_BYTES = 512
/** Where something is lost it is soon asked for again; nowhere else. */
const SOON_MS = 5
const FILE = vectorOf('b-1.1.0')

/** What a way does to the packet of that number: nothing, unless it is asked. */
type Fault = 'lose request' | 'lose answer' | 'double' | 'late' | 'end'

/** A way to a card in this process; packets are counted as they are sent. */
class Way implements SmpPort {
  readonly packetBytes = PACKET_BYTES
  onPacket: (packet: Uint8Array) => void = () => {}
  onText: (text: string) => void = () => {}
  onEnd: (why: string) => void = () => {}
  sent = 0
  /** Bytes of all requests. */
  bytes = 0
  /** How many requests had no answer yet when another was sent, at the most. */
  ahead = 0
  private waiting = 0
  private late: Uint8Array | null = null
  private readonly card: SmpWorld
  private readonly fault: Fault | null
  private readonly at: number

  constructor(card: SmpWorld, fault: Fault | null = null, at = 0) {
    this.card = card
    this.fault = fault
    this.at = at
  }

  send(packet: Uint8Array): void {
    const fault = this.sent++ === this.at ? this.fault : null
    this.bytes += packet.length
    this.waiting++
    this.ahead = Math.max(this.ahead, this.waiting)
    setImmediate(() => {
      this.waiting--
      if (fault === 'end') this.onEnd('cut')
      else if (fault === 'late') this.late = packet
      else if (fault !== 'lose request') this.serve(packet, fault)
    })
  }

  private serve(packet: Uint8Array, fault: Fault | null): void {
    const answer = answerSmp(this.card, packet)!
    if (fault !== 'lose answer') this.onPacket(answer)
    if (fault === 'double') this.onPacket(answerSmp(this.card, packet)!)
    const { late } = this
    this.late = null
    if (late !== null) this.serve(late, null)
  }

  close(): void {}
}

/** Uploads the file; how far it was told to be, in order. */
async function upload(way: Way, timeoutMs: number = PATIENCE_MS): Promise<number[]> {
  const told: number[] = []
  const card = new FlashTarget(new SmpClient(way, 'a way', timeoutMs), way.packetBytes)
  await card.upload(FILE, (done) => told.push(done))
  return told
}

function holds(card: SmpWorld): boolean {
  return card.slots.list().some(({ slot, version }) => slot === 1 && version.minor === 1)
}

describe('an upload', () => {
  test('has two pieces under way, and says how far it is', async () => {
    const card = new SmpWorld()
    const way = new Way(card)
    const told = await upload(way)
    expect(way.ahead).toBe(2)
    expect(told).toEqual(told.toSorted((a, b) => a - b))
    expect(told.at(-1)).toBe(FILE.length)
    expect(holds(card)).toBe(true)
    // What is there is not sent again.
    const again = new Way(card)
    await upload(again)
    expect(again.sent).toBe(2)
  })

  test.each(['lose request', 'lose answer', 'double', 'late'] as const)(
    '%s, at every packet: the whole file comes',
    async (fault) => {
      const whole = new Way(new SmpWorld())
      await upload(whole)
      for (let at = 0; at < whole.sent; at++) {
        const card = new SmpWorld()
        const way = new Way(card, fault, at)
        const told = await upload(way, SOON_MS)
        expect({ at, end: told.at(-1), holds: holds(card) }).toEqual({
          ...{ at, end: FILE.length, holds: true },
        })
      }
    },
  )

  test('ended at every packet: another goes on there, and sends only the rest', async () => {
    const whole = new Way(new SmpWorld())
    await upload(whole)
    for (let at = 1; at < whole.sent; at++) {
      const card = new SmpWorld()
      const first = new Way(card, 'end', at)
      await expect(upload(first)).rejects.toMatchObject({ code: 'PERDURE_UNREACHABLE' })
      const rest = new Way(card)
      await upload(rest)
      expect(holds(card)).toBe(true)
      // The parameters, and the first piece, which asks where it goes on, come twice.
      expect(first.bytes + rest.bytes).toBeLessThan(whole.bytes + 4 * PACKET_BYTES)
    }
  })

  test('answers of a card that makes no sense end it, in words', async () => {
    for (const off of [-1, 1.5, FILE.length + 1, 'far', null]) {
      const way = new Way(new SmpWorld())
      const ask = { ask: () => Promise.resolve({ off, buf_size: 4096, buf_count: 4 }) }
      const card = new FlashTarget(ask as unknown as SmpClient, way.packetBytes)
      await expect(card.upload(FILE, () => {})).rejects.toThrow(/stays at byte 0: try again/)
    }
    const stays = { ask: () => Promise.resolve({ off: 100, buf_size: 4096, buf_count: 4 }) }
    const card = new FlashTarget(stays as unknown as SmpClient, SMP_HEADER_BYTES + 504)
    await expect(card.upload(FILE, () => {})).rejects.toThrow(/stays at byte 100: try again/)
  })
})
