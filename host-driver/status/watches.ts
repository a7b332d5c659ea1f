/**
 * The watches of one connection, by region: what the DPU tells goes to the one that it is about.
 *
 * Invariant: a region has one watch at the most, since a queue pair has one association of
 * it; what is told of a region that nobody watches any more is taken and forgotten.
 */

import { isNotice } from '../../firmware/residency/heard.ts'
import { type Bseth, SIZE_REFUSED } from '../../firmware/wire/block-size.ts'
import type { Mseth } from '../../firmware/wire/memory-status.ts'
import { ArgumentError, RefusedError, TransportError } from '../base/errors.ts'
import { type Caller, within } from '../base/give-up.ts'
import type { Notices } from '../way/inbox.ts'
import type { OpenRegion } from '../way/region-handle.ts'
import type { JobQueue } from '../way/way.ts'
import type { WatchOptions } from './criteria.ts'
import type { Ranges } from './residency-status.ts'
import { Watch, type Watched, type WatchPort } from './watch.ts'

/** What the connection needs of a watch, whatever its ranges are. */
type AnyWatch = Pick<
  Watch<never>,
  'rkey' | 'begin' | 'lost' | 'end' | 'notice' | 'proposal' | 'pause' | 'isOpen'
>

export class Watches implements Pick<Notices, 'notice' | 'proposal'> {
  private readonly byRegion: Map<OpenRegion, AnyWatch> = new Map()

  /** Opens the watch of a region; resolves when its status was told. */
  open<Range>(
    connection: WatchPort,
    region: OpenRegion,
    watched: Watched,
    ranges: Ranges<Range>,
    options: WatchOptions<Range>,
  ): Promise<Watch<Range>> {
    const watch = new Watch(connection, watched, ranges, options)
    const what = (): string => `watch ${watched.what}`
    return within(connection.way, what, options, async (caller) => {
      caller.onGivenUp(() => void watch.close())
      await this.start(connection, region, watched, watch, caller)
      return watch
    })
  }

  private async start<Range>(
    connection: WatchPort,
    region: OpenRegion,
    watched: Watched,
    watch: Watch<Range>,
    caller: Caller,
  ): Promise<void> {
    if (connection.current === null) await connection.reconnect()
    caller.check()
    if (this.byRegion.has(region)) throw new ArgumentError(`${watched.what} is watched already`)
    const { current } = connection
    if (current !== null && current.hearsStatus !== true) {
      const why = "a host can watch another card's memory, not its local card's"
      throw new TransportError('LOC_QP_OP_ERR', `watch ${watched.what}: ${why}`)
    }
    this.byRegion.set(region, watch as unknown as AnyWatch)
    watch.start()
    await watch.told()
  }

  /** The open watch of a region, or null; its ranges are those of the region's kind. */
  of<Range>(region: OpenRegion): Watch<Range> | null {
    return (this.byRegion.get(region) ?? null) as Watch<Range> | null
  }

  remove(watch: unknown): void {
    for (const [region, one] of this.byRegion) if (one === watch) this.byRegion.delete(region)
  }

  // ---- for the connection ----------------------------------------------------------------------

  begin(queuePair: JobQueue): void {
    for (const [region, watch] of [...this.byRegion]) {
      if (region.gone !== true) watch.begin(queuePair)
      else watch.end(new RefusedError('NO_REGION', 0, `watch '${region.info.name}'`))
    }
  }

  lost(): void {
    for (const watch of this.byRegion.values()) watch.lost()
  }

  end(error: Error): void {
    for (const watch of [...this.byRegion.values()]) watch.end(error)
  }

  notice(mseth: Mseth, bytes: Uint8Array, at: number, length: number): boolean {
    if (!isNotice(mseth, bytes, at, length)) return false
    this.watchOf(mseth.rkey)?.notice(mseth, bytes, at)
    return true
  }

  proposal(rkey: number, bseth: Bseth): Bseth {
    const watch = this.watchOf(rkey)
    return watch?.proposal(bseth) ?? { ...bseth, status: SIZE_REFUSED, commit: false }
  }

  private watchOf(rkey: number): AnyWatch | null {
    for (const watch of this.byRegion.values()) if (watch.rkey === rkey) return watch
    return null
  }
}
