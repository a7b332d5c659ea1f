/**
 * The cable from the switch of an emulated card to that of another one (`emulate --join`).
 *
 * Invariants:
 * - It is plugged in before the card has power, or the start is refused. When it is pulled later
 *   that is told, and the card serves on without it.
 * - It is plugged in again as soon as somebody listens there. A card that others join plugs in once
 *   only: two that look for each other could form a ring (boards/emulator/network/netdev.ts).
 */

import {
  type EthernetSwitch,
  type JoinedNetdev,
  joinNetdev,
} from '../../../boards/emulator/index.ts'

interface CableOptions {
  /** Path of the Unix socket on which the other one listens. */
  readonly path: string
  readonly network: EthernetSwitch
  /** Whether others join this card: it plugs in once then. */
  readonly isJoined: boolean
  /** Told when it was pulled, and when it is plugged in again. */
  readonly tell: (json: object, text: string) => void
}

/** How often it looks whether the other one is back, ms. */
const LOOK_MS = 250

export class NetworkCable {
  private readonly options: CableOptions
  private joined: JoinedNetdev | null = null
  private timer: NodeJS.Timeout | undefined
  private isClosed = false

  constructor(options: CableOptions) {
    this.options = options
  }

  /** Plugs it in. Rejects as `joinNetdev` does. */
  async open(): Promise<void> {
    const { path, network } = this.options
    const joined = await joinNetdev(path, network)
    if (this.isClosed) {
      await joined.close()
      return
    }
    this.joined = joined
    joined.ended.then(() => this.pulled())
  }

  async close(): Promise<void> {
    this.isClosed = true
    clearTimeout(this.timer)
    await this.joined?.close()
  }

  private pulled(): void {
    this.joined = null
    if (this.isClosed) return
    const { isJoined, path } = this.options
    const next = isJoined ? 'without it until its next start' : 'and plugs in again when it can'
    this.tell(false, `the cable to unix:${path} is pulled; the card serves on, ${next}`)
    if (!isJoined) this.look()
  }

  private look(): void {
    if (this.isClosed) return
    this.timer = setTimeout(() => {
      this.open().then(
        () => this.tell(true, `the cable to unix:${this.options.path} is plugged in again`),
        () => this.look(),
      )
    }, LOOK_MS)
  }

  private tell(isPlugged: boolean, text: string): void {
    if (!this.isClosed) this.options.tell({ cable: this.options.path, plugged: isPlugged }, text)
  }
}
