/**
 * The frames of an episode (traffic.ts, control.ts), played at a card outside this process, too.
 *
 * The world of the episode is the reference: it has the state from which frames are drawn. What it
 * has drawn gets the numbers of the other card: of its queue pairs, from their first PSNs on, the
 * keys of its regions, the ids of its connections, and the check code that it had, right or wrong.
 *
 * Invariant: where the two cards part, the other one's answers lead back. A NAK of a sequence says
 * which PSN is due; a queue pair that ended is opened again.
 */

import { fillIcrc, icrcGood, icrcGoodLinuxFlush } from '../../../../boards/software/icrc.ts'
import { u32 } from '../../../../firmware/wire/bytes.ts'
import * as cm from '../../../../firmware/wire/cm.ts'
import { OPCODES } from '../../../../firmware/wire/opcode.ts'
import type { Sent } from '../../../support/wire/conversation.ts'
import { isRoce } from '../../../support/wire/frames.ts'
import type { Arena, Pair } from '../arena.ts'
import { bthOf } from '../guard.ts'
import { put } from '../mutate.ts'
import type { Step } from '../script.ts'
import type { Honest } from './honest.ts'

const UD = 0x64
const NAK_SEQUENCE = 0x60
/** What ends a queue pair: an invalid request, a refused access, a failed operation. */
const NAK_FATAL = 0x61
/** A queue pair of which the card says nothing for so many answers of the reference has parted. */
const SILENT = 4
/** Of a control message: where its body begins behind BTH and DETH, and its longest header. */
const MAD_AT = 20
/** Where PWETH has the lower word of its operation. */
const OPERATION_AT = 12
const CM_BYTES = MAD_AT + 32 + 8

/** A queue pair of the other card. */
export interface Opened {
  readonly number: number
  /** Its first PSN. */
  readonly psn: number
}

/** The other card. */
export interface Side<One extends Opened = Opened> {
  /** The other card's key of that region. */
  keyOf(name: string): number
  /** Opens queue pairs for those peers; null for one that the card does not give. */
  connect(pairs: readonly Pair[]): (One | null)[]
  /** The frame as the card wants it, or as somebody who attacks would have it. */
  dress(frame: Uint8Array, one: One | null): Uint8Array
  /** Sends frames; all that the card sent by then. */
  ask(frames: readonly Uint8Array[]): Sent[]
}

interface Twin<One> {
  readonly one: One
  /** What is added to a PSN of the reference. */
  shift: number
}

/** A script that is played while it is written. */
class Live extends Array<Step> {
  private readonly take: (step: Step) => void

  constructor(take: (step: Step) => void) {
    super()
    this.take = take
  }

  override push(...steps: Step[]): number {
    for (const step of steps) this.take(step)
    return 0
  }
}

export class Mirror<One extends Opened> {
  /** Frames that were sent, and those of them that name a queue pair of the card. */
  frames = 0
  addressed = 0
  /** Answers to whoever attacks that are no refusal: of the reference, and of the card. */
  readonly answers = { reference: 0, card: 0 }
  private readonly arena: Arena
  private readonly side: Side<One>
  private readonly honest: Honest
  private readonly operations: number
  private readonly twins: Map<number, Twin<One>> = new Map()
  private readonly places: Map<number, number> = new Map()
  private readonly keys: Map<number, number> = new Map()
  /** What each communication id of a client got from the reference, and from the card. */
  private readonly ids: Map<number, number> = new Map()
  private readonly agreed: Map<number, number> = new Map()
  /** To be opened on the card; and which PSN it says is due. */
  private readonly due: Set<number> = new Set()
  private readonly sequences: Map<number, number> = new Map()
  /** The reference has refused a sequence, too: the cards have not parted. */
  private readonly refused: Set<number> = new Set()
  /** Answers of the reference since the card has last answered that peer. */
  private readonly silence: Map<number, number> = new Map()
  private burst: Uint8Array[] = []

  /** `operations` is added to the id of each: a card knows those of the episodes before. */
  constructor(arena: Arena, side: Side<One>, honest: Honest, operations: number) {
    this.arena = arena
    this.operations = operations
    this.side = side
    this.honest = honest
    for (const { name, rkey } of Object.values(arena.regions)) {
      this.keys.set(rkey, side.keyOf(name))
    }
    arena.pairs.forEach(({ peer }, i) => {
      this.places.set(peer, i)
      this.due.add(i)
    })
    const { world } = arena
    const before = world.onSent
    world.onSent = (frame) => {
      before?.(frame)
      this.hearReference(frame)
    }
    world.script = new Live((step) => this.take(step))
  }

  private take(step: Step): void {
    this.catchUp()
    if (step.kind === 'frame') this.play(step.bytes)
    else if (step.kind === 'connect') for (const i of step.pairs) this.due.add(i)
    else if (step.kind === 'serve') this.flush()
    else if (step.kind === 'good') {
      const frame = this.honest.next()
      if (frame !== null) this.burst.push(frame)
    } else if (step.kind === 'rest') {
      this.flush()
      const complaint = this.honest.judge()
      if (complaint !== '') this.arena.world.object(`at the other card, ${complaint}`)
    }
  }

  /** The other card gets what the reference has by now. */
  private catchUp(): void {
    const { arena, due, sequences, refused, twins } = this
    for (const [i, psn] of sequences) {
      if (refused.has(i)) continue
      const { number } = arena.pairs[i]!
      const twin = twins.get(number)
      const expected = arena.world.expected(number)
      if (twin !== undefined && expected >= 0) twin.shift = psn - expected
    }
    sequences.clear()
    refused.clear()
    const places = [...due].filter((i) => arena.isOpen(arena.pairs[i]!))
    if (places.length === 0) return
    for (const i of places) due.delete(i)
    const pairs = places.map((i) => arena.pairs[i]!)
    this.side.connect(pairs).forEach((one, k) => {
      const { number } = pairs[k]!
      if (one === null) {
        due.add(places[k]!)
        twins.delete(number)
        return
      }
      twins.set(number, { one, shift: one.psn - arena.world.expected(number) })
    })
  }

  private play(frame: Uint8Array): void {
    this.frames += 1
    const copy = frame.slice()
    const twin = isRoce(copy) ? this.translate(copy) : null
    if (twin !== null) this.addressed += 1
    this.burst.push(this.side.dress(copy, twin?.one ?? null))
  }

  /** Gives the frame the other card's numbers; returns whose they are. */
  private translate(frame: Uint8Array): Twin<One> | null {
    const { length } = frame
    const bth = bthOf(frame, 0)
    if (bth + MAD_AT + 4 > length) return null
    const isGood = icrcGood(frame, 0, length)
    const isOfLinux = !isGood && icrcGoodLinuxFlush(frame, 0, length)
    const twin = this.twins.get(u32(frame, bth + 4) & 0xffffff) ?? null
    if (twin !== null) {
      put(frame, bth + 5, 3, twin.one.number)
      put(frame, bth + 9, 3, ((u32(frame, bth + 8) & 0xffffff) + twin.shift) & 0xffffff)
      const key = this.keys.get(u32(frame, bth + 20))
      if (key !== undefined) put(frame, bth + 20, 4, key)
      this.countOperation(frame, bth)
    } else if (frame[bth] === UD && bth + CM_BYTES <= length) {
      this.identify(frame, bth + MAD_AT)
    }
    if (isGood || isOfLinux) fillIcrc(frame, 0, length, isOfLinux)
    return twin
  }

  private countOperation(frame: Uint8Array, bth: number): void {
    const { pwethAt = 0 } = OPCODES[frame[bth]!] ?? {}
    const at = bth + pwethAt + OPERATION_AT
    if (pwethAt === 0 || at + 4 > frame.length) return
    put(frame, at, 4, (u32(frame, at) + this.operations) >>> 0)
  }

  /** A message of RDMA-CM names the card's id of the connection. */
  private identify(frame: Uint8Array, at: number): void {
    if (frame[at + 1] !== cm.CM_CLASS) return
    const own = this.ids.get(u32(frame, at + cm.CM_BODY + 4))
    const agreed = own === undefined ? undefined : this.agreed.get(own)
    if (agreed !== undefined) put(frame, at + cm.CM_BODY + 4, 4, agreed)
  }

  private flush(): void {
    const { burst } = this
    this.burst = []
    const sent = this.side.ask(burst)
    this.honest.hear(sent)
    for (const one of sent) this.hear(one)
  }

  private hear({ opcode, packet, psn, syndrome, bytes }: Sent): void {
    const place = this.places.get(packet.destQp)
    if (opcode === UD) this.note(bytes, packet.bthAt, (own, id) => this.agreed.set(own, id))
    if (place === undefined || syndrome < 0) return
    this.silence.set(place, 0)
    if (syndrome < NAK_SEQUENCE) this.answers.card += 1
    else if (syndrome === NAK_SEQUENCE) this.sequences.set(place, psn)
    else if (syndrome >= NAK_FATAL && this.arena.isOpen(this.arena.pairs[place]!)) {
      this.due.add(place)
    }
  }

  private hearReference(frame: Uint8Array): void {
    const bth = bthOf(frame, 0)
    const opcode = frame[bth]!
    if (opcode === UD) this.note(frame, bth, (own, id) => this.ids.set(id, own))
    const place = this.places.get(u32(frame, bth + 4) & 0xffffff)
    const hasSyndrome = (opcode >= 0x0d && opcode <= 0x12 && opcode !== 0x0e) || opcode === 0xd1
    if (place === undefined || !hasSyndrome) return
    const syndrome = frame[bth + 12]!
    if (syndrome < NAK_SEQUENCE) {
      this.answers.reference += 1
      const silence = (this.silence.get(place) ?? 0) + 1
      this.silence.set(place, silence % SILENT)
      if (silence === SILENT) this.due.add(place)
    } else if (syndrome === NAK_SEQUENCE) this.refused.add(place)
  }

  /** A REP has the client's id of a connection, and the card's. */
  private note(frame: Uint8Array, bth: number, take: (own: number, id: number) => void): void {
    const at = bth + MAD_AT
    if (frame[at + 1] !== cm.CM_CLASS || frame[at + 17] !== cm.CM_REP) return
    take(u32(frame, at + cm.CM_BODY + 4), u32(frame, at + cm.CM_BODY))
  }
}
