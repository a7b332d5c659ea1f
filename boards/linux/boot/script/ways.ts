/**
 * The ways on which SMP is asked: Unix sockets and serial lines, which carry lines, and UDP.
 *
 * Invariant: whatever one client does, the others are served; nobody has the card wait who
 * does not read. A serial line that is gone is opened again, once a second.
 */

import type { SmpCard } from '../../../flash/smp.ts'
import { SMP_WAY, udpWay } from '../../../flash/smp-packet.ts'
import { DatagramClients, LineClient } from '../../../flash/smp-served.ts'
import type { Came, Host } from './host.ts'
import type { SmpPlace } from './settings.ts'

/** Clients of all sockets, and what may wait for one that does not read, bytes. */
const CLIENTS_MAX = 16
const WAITING_BYTES_MAX = 1 << 20
const READ_BYTES = 1 << 16
const AGAIN_MS = 1000
/** Datagrams that are taken in one turn: others have theirs. */
const DATAGRAMS = 64

/** The other end of a line. */
interface Client {
  readonly line: LineClient
  /** Serial line that it is; '' of a socket. */
  readonly tty: string
  /** Answers that it has not taken yet. */
  waiting: Uint8Array[]
}

export class Ways {
  /** Where SMP is reached, one line each. */
  readonly names: readonly string[]
  private readonly host: Host
  private readonly card: SmpCard
  private readonly listeners = new Set<number>()
  private readonly datagrams = new Map<number, DatagramClients>()
  private readonly clients = new Map<number, Client>()
  /** Serial lines that are to be opened, and when, ms. */
  private readonly absent = new Map<string, number>()

  /** Opens all. Throws what the system says; a serial line may come later. */
  constructor(host: Host, card: SmpCard, places: readonly SmpPlace[]) {
    this.host = host
    this.card = card
    this.names = places.map((place) => this.open(place))
  }

  private open(place: SmpPlace): string {
    const { host } = this
    if (place.kind === 'udp') {
      const descriptor = host.listenUdp(place.address, place.port)
      this.datagrams.set(descriptor, new DatagramClients(this.card))
      return udpWay(place.address, host.portOf(descriptor))
    }
    if (place.kind === 'unix') this.listeners.add(host.listenUnix(place.path))
    else this.openTty(place.path)
    return `${SMP_WAY}${place.kind}:${place.path}`
  }

  private openTty(path: string): void {
    try {
      this.add(this.host.openTty(path), path)
      this.absent.delete(path)
    } catch (error) {
      if (!this.absent.has(path)) this.host.log('warning', `${(error as Error).message}: again`)
      this.absent.set(path, this.host.nowMs() + AGAIN_MS)
    }
  }

  private add(descriptor: number, tty: string): void {
    this.clients.set(descriptor, { line: new LineClient(this.card), tty, waiting: [] })
  }

  readable(): number[] {
    return [...this.listeners, ...this.datagrams.keys(), ...this.clients.keys()]
  }

  writable(): number[] {
    return [...this.clients].flatMap(([descriptor, { waiting }]) => {
      return waiting.length > 0 ? [descriptor] : []
    })
  }

  untilMs(): number {
    return Math.min(...this.absent.values())
  }

  turn({ readable, writable }: Came): void {
    for (const descriptor of writable) this.flush(descriptor)
    for (const descriptor of readable) {
      if (this.listeners.has(descriptor)) this.accept(descriptor)
      else if (this.datagrams.has(descriptor)) this.answerDatagrams(descriptor)
      else if (this.clients.has(descriptor)) this.answerLines(descriptor)
    }
    const now = this.host.nowMs()
    for (const [path, atMs] of this.absent) if (atMs <= now) this.openTty(path)
  }

  private accept(listener: number): void {
    const descriptor = this.host.accept(listener)
    if (descriptor < 0) return
    if (this.clients.size < CLIENTS_MAX) this.add(descriptor, '')
    else this.host.close(descriptor)
  }

  private answerDatagrams(descriptor: number): void {
    const { host } = this
    for (let i = 0; i < DATAGRAMS; i++) {
      const came = host.receiveFrom(descriptor)
      if (came === null) return
      const clients = this.datagrams.get(descriptor)!
      const answer = clients.take(came.peer, new Uint8Array(came.bytes), host.nowMs())
      if (answer !== null) host.sendTo(descriptor, came.peer, answer)
    }
  }

  private answerLines(descriptor: number): void {
    const client = this.clients.get(descriptor)!
    const bytes = this.host.read(descriptor, READ_BYTES)
    if (bytes === null) {
      this.drop(descriptor)
      return
    }
    for (const answer of client.line.take(new Uint8Array(bytes), this.host.nowMs())) {
      const waits = client.waiting.reduce((sum, one) => sum + one.length, 0)
      if (waits < WAITING_BYTES_MAX) client.waiting.push(answer)
    }
    this.flush(descriptor)
  }

  private flush(descriptor: number): void {
    const client = this.clients.get(descriptor)
    if (client === undefined) return
    while (client.waiting.length > 0) {
      const next = client.waiting[0]!
      const taken = this.host.write(descriptor, next)
      if (taken < 0) this.drop(descriptor)
      else if (taken === next.length) client.waiting.shift()
      else client.waiting[0] = next.subarray(taken)
      if (taken !== next.length) return
    }
  }

  private drop(descriptor: number): void {
    const { tty } = this.clients.get(descriptor)!
    this.clients.delete(descriptor)
    this.host.close(descriptor)
    if (tty !== '') this.absent.set(tty, this.host.nowMs() + AGAIN_MS)
  }

  /** Answers that are on their way leave, as far as the other ends take them. */
  flushAll(): void {
    for (const descriptor of [...this.clients.keys()]) this.flush(descriptor)
  }
}
