/** A tunnel to a card that lets so much through, and then holds back what the client sends. */

import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { PASS } from '../../../firmware/board/fault.ts'
import { blankPacket, checkPacket } from '../../../firmware/wire/packet.ts'
import { blankPaeth, readPaeth, STATUS_DURABLE } from '../../../firmware/wire/persist-ack.ts'

/** Datagrams that are longer carry records. */
const RECORD_BYTES = 900

/** How often the client sends again what is held back, with nothing from the card between. */
const REPETITIONS = 2

export class HeldTunnel {
  /** Where clients reach the card through it. */
  readonly address: string
  /**
   * Resolves when a client waits for what is held back: it has heard that some records are durable,
   * its second operation among them, and the card has no more to say.
   */
  readonly stuck: Promise<void>
  private readonly near: Socket
  private readonly cardPort: number
  /** For each client its own way to the card. */
  private readonly ways = new Map<number, Socket>()
  private left = Number.POSITIVE_INFINITY
  /** Frames with records that were let through: they are again, if the client repeats them. */
  private readonly passed = new Set<string>()
  private readonly held = new Set<string>()
  private isAcknowledged = false
  private repetitions = 0
  private tellStuck: () => void = () => {}

  private constructor(near: Socket, cardPort: number) {
    this.near = near
    this.cardPort = cardPort
    this.address = `perdure://127.0.0.1:${near.address().port}`
    this.stuck = new Promise((resolve) => {
      this.tellStuck = resolve
    })
    near.on('message', (frame, { port }) => this.forward(frame, port))
  }

  static async to(address: string): Promise<HeldTunnel> {
    const near = createSocket('udp4')
    near.bind(0, '127.0.0.1')
    await once(near, 'listening')
    return new HeldTunnel(near, Number(new URL(address).port))
  }

  /** Holds back everything behind so many frames with records. */
  holdAfter(frames: number): void {
    this.left = frames
  }

  letThrough(): void {
    this.left = Number.POSITIVE_INFINITY
  }

  close(): void {
    for (const way of this.ways.values()) way.close()
    this.near.close()
  }

  private forward(frame: Buffer, port: number): void {
    const text = frame.toString('latin1')
    const isNew = frame.length > RECORD_BYTES && !this.passed.has(text)
    if (this.left > 0 || this.passed.has(text)) {
      if (isNew) this.left--
      if (isNew) this.passed.add(text)
      this.wayOf(port).send(frame, this.cardPort, '127.0.0.1')
      return
    }
    if (this.held.has(text) && this.isAcknowledged) this.repetitions++
    if (this.repetitions === REPETITIONS) this.tellStuck()
    this.held.add(text)
  }

  private wayOf(port: number): Socket {
    let way = this.ways.get(port)
    if (way === undefined) {
      way = createSocket('udp4')
      way.on('message', (frame) => {
        this.near.send(frame, port, '127.0.0.1')
        this.repetitions = 0
        this.isAcknowledged ||= acknowledgesSecond(frame)
      })
      this.ways.set(port, way)
    }
    return way
  }
}

/** Whether a frame says that an operation behind the client's first one is durable. */
function acknowledgesSecond(frame: Buffer): boolean {
  const packet = blankPacket()
  const fault = checkPacket(packet, frame, 0, frame.length)
  if (fault !== PASS || packet.row === null || packet.row.paethAt === 0) return false
  const paeth = blankPaeth()
  readPaeth(paeth, frame, packet.bthAt + packet.row.paethAt)
  return paeth.status === STATUS_DURABLE && paeth.operationLow > 1
}
