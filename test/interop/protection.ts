/**
 * Links that are protected below: what a stock client and its card say through MACsec, and through
 * IPsec, with somebody on the wire between the client and the machine in front of the card.
 *
 *     guest "client"            the wire            guest "gate"           the card
 *      rxe2 ─ macsec0 ─ eth0 ───── tap ───── eth0 ─ macsec0 ─ br0 ─ eth1 ─── netdev
 *      rxe0 ─ eth0, ESP ────────── tap ───── eth0, ESP ─ forwarding ─ eth1 ─ netdev
 *
 * Invariants:
 * - The commands that protect a link are those of the page, word for word.
 * - What must not stand on the wire is found there first, where nothing protects it.
 * - What is put on the wire is counted, and so is what the ends drop: both are equal.
 */

import type { DpuProcess } from './dpu-process.ts'
import { differences, type Piece, piecesOf } from './expectations.ts'
import type { Guest } from './guest.ts'
import { type Dropped, KINDS, type Kind, PLAIN } from './kinds.ts'
import { CLIENT_SECONDS, type Found, failuresOf, Session, stepsOf } from './session.ts'
import type { Outcome } from './table.ts'
import { ENDS, type End, type Tap } from './tap.ts'

/** A piece is looked for by its first bytes; a shorter one could stand anywhere. */
const NEEDLE_BYTES = { min: 13, max: 64 } as const

/** Of so many frames one has a changed one in front of it, and one an old one. */
const DISTURBED_EACH = 8

/** Where a client that is not waited for leaves what it says. */
const SAID = '/said'

/** Each end, and the one whose frames it gets. */
const ACROSS = [
  ['gate', 'client'],
  ['client', 'gate'],
] as const

interface Stage {
  readonly guests: Readonly<Record<End, Guest>>
  readonly tap: Tap
  readonly dpu: DpuProcess
  /** Path of the card's image. */
  readonly nvdimm: string
  /** The page, as text. */
  readonly page: string
  /** The port that the client writes at. */
  readonly port: number
  readonly talk: (line: string) => void
  readonly only: string
}

export class Protection {
  private readonly stage: Stage
  private readonly session: Session

  constructor(stage: Stage) {
    this.stage = stage
    this.session = new Session(stage.guests.client, stage.dpu, stage.talk, stage.only)
  }

  /** Tries all kinds but those that the guest's kernel has not. */
  async run(lacking: readonly string[]): Promise<readonly Outcome[]> {
    const { session } = this
    const kinds = KINDS.filter(({ name }) => !lacking.includes(name))
    if (kinds.length === 0) return []
    for (const end of ENDS) await this.tell(end, PLAIN.prepare[end])
    await session.one('a wire that nothing protects tells every record', () => this.plain())
    for (const kind of kinds) {
      const { name } = kind
      const trouble = await this.protect(kind, ENDS, kind.key)
      await session.one(`${name}: records are durable, and none stands on the wire`, () =>
        this.unread(kind, trouble),
      )
      await session.one(`${name}: what is forged or comes again is dropped`, () =>
        this.disturbed(kind),
      )
      await session.one(`${name}: without the key nobody is heard`, () => this.unheard(kind))
      for (const end of ENDS) await this.tell(end, kind.undo[end])
    }
    return session.outcomes
  }

  /** Runs commands at one end; what is wrong with how they ended. */
  private async tell(end: End, commands: string): Promise<string[]> {
    const { guests, talk } = this.stage
    talk(`${end}$ ${commands}`)
    const result = await guests[end].run(commands, CLIENT_SECONDS)
    for (const line of result.lines) talk(`  ${line}`)
    return failuresOf(result).map((failure) => `${end}: ${failure}`)
  }

  /** Protects the link at one end, or at both. */
  private async protect(kind: Kind, ends: readonly End[], key: string): Promise<string[]> {
    const failures: string[] = []
    for (const end of ends) {
      failures.push(...(await this.tell(end, kind.commands(this.stage.page, end, key))))
    }
    return failures
  }

  /** What the client says who does every operation, and the pieces that it made durable. */
  private async operations(): Promise<Found & { readonly pieces: readonly Piece[] }> {
    const { port } = this.stage
    const result = await this.session.client(`verbs-client operations ${PLAIN.card} ${port} 0`)
    return { ...stepsOf(result), pieces: piecesOf('durable', port, result.lines) }
  }

  /** How many of the pieces stand on the wire in one frame or another. */
  private onWire(pieces: readonly Piece[]): { readonly found: number; readonly of: number } {
    const { tap } = this.stage
    const all = Buffer.concat(ENDS.flatMap((end) => tap.from(end)))
    const long = pieces.filter(({ bytes }) => bytes.length >= NEEDLE_BYTES.min)
    const found = long.filter(({ bytes }) => {
      return all.includes(Buffer.from(bytes.subarray(0, NEEDLE_BYTES.max)))
    })
    return { found: found.length, of: long.length }
  }

  private async plain(): Promise<Found> {
    const { tap } = this.stage
    const failures: string[] = []
    for (const end of ENDS) failures.push(...(await this.tell(end, PLAIN.set[end])))
    tap.forget()
    const { pieces, ...done } = await this.operations()
    const { found, of } = this.onWire(pieces)
    for (const end of ENDS) failures.push(...(await this.tell(end, PLAIN.undo[end])))
    if (of === 0 || found < of) failures.push(`${found} of ${of} pieces were found on the wire`)
    return {
      steps: done.steps + 1,
      failures: [...done.failures, ...failures],
      note: `${found} pieces`,
    }
  }

  private async unread(kind: Kind, trouble: readonly string[]): Promise<Found> {
    const { tap, dpu, nvdimm } = this.stage
    const failures = [...trouble]
    tap.forget()
    const { pieces, ...done } = await this.operations()
    const frames = ENDS.flatMap((end) => tap.from(end))
    const sealed = frames.filter(kind.isSealed).length
    const open = frames.filter((frame) => !kind.isSealed(frame) && !kind.isOpen(frame)).length
    const { found, of } = this.onWire(pieces)
    await dpu.cutPower()
    failures.push(...done.failures, ...differences(nvdimm, pieces))
    if (found > 0 || of === 0) failures.push(`${found} of ${of} pieces stand on the wire`)
    if (open > 0) failures.push(`${open} frames are not sealed`)
    if (sealed < done.steps) failures.push(`only ${sealed} frames are sealed`)
    return { steps: done.steps + pieces.length, failures, note: `${sealed} frames` }
  }

  /** Changed frames, and such that were there before, come between those of the ends. */
  private async disturbed(kind: Kind): Promise<Found> {
    const { tap } = this.stage
    const before = {
      client: await this.dropped(kind, 'client'),
      gate: await this.dropped(kind, 'gate'),
    }
    const put = this.disturb(kind)
    const done = await this.operations()
    tap.before = () => null
    const failures = [...done.failures]
    for (const [end, other] of ACROSS) {
      const { changed, again } = put[other]
      const isAll = (more: Dropped): boolean => more.changed === changed && more.again === again
      const more = await this.moreDropped(kind, end, before[end], isAll)
      if (isAll(more) && changed > 0 && again > 0) continue
      failures.push(
        `${end} dropped ${more.changed} of ${changed} frames that were changed, ` +
          `${more.again} of ${again} that came again`,
      )
    }
    const note = ENDS.map((end) => `${put[end].changed} + ${put[end].again}`).join(' and ')
    return { steps: done.steps + 4, failures, note: `${note} frames` }
  }

  /** Begins to put frames on the wire; returns how many it has put there from each end. */
  private disturb(kind: Kind): Readonly<Record<End, Readonly<Omit<Dropped, 'open'>>>> {
    const old: Partial<Record<End, Buffer>> = {}
    const put = { client: { changed: 0, again: 0 }, gate: { changed: 0, again: 0 } }
    const passed = { client: 0, gate: 0 }
    this.stage.tap.before = (from, frame) => {
      if (!kind.isSealed(frame)) return null
      old[from] ??= Buffer.from(frame)
      const place = ++passed[from] % DISTURBED_EACH
      if (place !== 0 && place !== DISTURBED_EACH / 2) return null
      put[from][place === 0 ? 'again' : 'changed']++
      return place === 0 ? old[from] : withOneBit(frame)
    }
    return put
  }

  /** A client without protection, and then one with another key: neither has an answer. */
  private async unheard(kind: Kind): Promise<Found> {
    const failures: string[] = []
    for (const bare of kind.bare) {
      failures.push(...(await this.tell('client', bare)))
      failures.push(...(await this.inVain(kind, 'open')))
    }
    // Both begin anew, or the other key would be taken for frames that come again.
    for (const end of ENDS) await this.tell(end, kind.undo[end])
    failures.push(...(await this.protect(kind, ['gate'], kind.key)))
    failures.push(...(await this.protect(kind, ['client'], kind.otherKey)))
    failures.push(...(await this.inVain(kind, 'changed')))
    return { steps: 2 * (kind.bare.length + 1), failures }
  }

  /** The gate drops what the client says, and nobody answers. */
  private async inVain(kind: Kind, why: 'changed' | 'open'): Promise<string[]> {
    const { tap, port } = this.stage
    const before = await this.dropped(kind, 'gate')
    tap.forget()
    await this.tell('client', `verbs-client operations ${PLAIN.card} ${port} 0 >${SAID} 2>&1 &`)
    const more = await this.moreDropped(kind, 'gate', before, (some) => some[why] > 0)
    const { lines } = await this.session.client(`killall verbs-client; cat ${SAID}`)
    const answers = tap.from('gate').filter((frame) => !kind.isOpen(frame)).length
    return [
      ...(more[why] > 0 ? [] : [`nothing was dropped (${why})`]),
      ...(answers === 0 ? [] : [`${answers} frames came back (${why})`]),
      ...lines.filter((line) => line.startsWith('ok ')),
    ]
  }

  private async dropped(kind: Kind, end: End): Promise<Dropped> {
    const { lines } = await this.stage.guests[end].run(kind.ask, CLIENT_SECONDS)
    return kind.dropped(lines)
  }

  /** What an end has dropped since, once that is enough, or the time is over. */
  private async moreDropped(
    kind: Kind,
    end: End,
    since: Dropped,
    isEnough: (more: Dropped) => boolean,
  ): Promise<Dropped> {
    const endMs = performance.now() + CLIENT_SECONDS * 1000
    for (;;) {
      const { changed, again, open } = await this.dropped(kind, end)
      const more = {
        changed: changed - since.changed,
        again: again - since.again,
        open: open - since.open,
      }
      if (isEnough(more) || performance.now() > endMs) return more
    }
  }
}

/** One bit in the middle is another one. */
function withOneBit(frame: Buffer): Buffer {
  const copy = Buffer.from(frame)
  copy[frame.length >> 1]! ^= 1
  return copy
}
