/**
 * Attaching: a region of records of another DPU is offered here, under a name of ours
 * (placement/relay.ts). The connection is made over RDMA-CM, in the name of the client that asks;
 * or in a session of the other DPU, whose peer this card then is, by its own keys (connect/
 * entering.ts), and in the name that the client has there (session/relayed.ts).
 *
 * Invariants:
 * - Asked again for the same name, address and client, the answer is that of the relay there is; it
 *   says that it is connecting until it is connected, so the client asks until it is.
 * - A relay without a connection takes no record; asked for again it connects again. Its key is
 *   then another one.
 * - Who may attach is decided here as ever: an admin. What may be done over there decides the other
 *   DPU by the line that this card has among its peers, whoever attached. So a client gets through
 *   a relay what the operators of both let this card do, and its own key is not asked for there.
 * - The other end gets nothing of this card, as of every link (session/grants.ts).
 * - with a session as without, a link begins when the one before to the same place is over:
 *   the other DPU has said so, or has said nothing for as long as it is asked. What the card had
 *   under way when its own power went may come behind what it sends in its next life. In both
 *   lives it is of one client over there, so an operation that was done already is known (D-6).
 */

import { assert } from '../board/assert.ts'
import type { BoardState } from '../board/context.ts'
import {
  ATTACH_FAILED,
  CARD_KEYLESS,
  CONNECTING,
  type Fault,
  PASS,
  REGION_EXISTS,
  REGIONS_FULL,
  REQUEST,
} from '../board/fault.ts'
import { REGIONS, RELAYS, RESPONDER_RESOURCES } from '../board/limits.ts'
import type { BurstState, RequestState } from '../burst/context.ts'
import { forgetFigures } from '../burst/figures.ts'
import { openInitiator } from '../burst/open-initiator.ts'
import type { ConnectState, Inside, Link, Target } from '../connect/context.ts'
import { closeLink, connectTo } from '../connect/initiate.ts'
import type { MemoryState } from '../medium/context.ts'
import {
  drawKey,
  findRegionByName,
  isPair,
  KIND_RECORDS,
  PLACEMENT_RELAY,
  type Region,
  WRITE_PERSIST,
} from '../medium/region.ts'
import type { SessionState } from '../session/context.ts'
import { grantAgain } from '../session/grants.ts'
import { STATE_ERROR } from '../transport/queue-pair.ts'
import {
  blankCapability,
  blankGeometry,
  type Geometry,
  readCapability,
  readGeometry,
} from '../wire/capability.ts'
import type { Attachment, ManageContext, ManageState } from './context.ts'

/** What a client asks for. */
interface AttachRequest {
  /** Of the relay, here. */
  readonly name: string
  readonly target: Target
}

export function createAttachments(): Attachment[] {
  return Array.from({ length: RELAYS }, () => ({
    name: '',
    link: null,
    fault: PASS,
  }))
}

/** The relay of that name, if it is connected, is then `located.region`. */
export function attach(state: ManageContext, request: AttachRequest): Fault {
  const { name, target } = request
  const { port, inside = null } = target
  if ((port === 0) === (inside === null)) return REQUEST
  const keysFault = inside === null ? PASS : faultOfKeys(state, inside)
  if (keysFault !== PASS) return keysFault
  const there = findRegionByName(state.regions, name)
  if (there !== null && there.placement !== PLACEMENT_RELAY) return REGION_EXISTS
  const { attachments } = state
  let place = attachments.findIndex((one) => one.name === name)
  const known = place >= 0
  if (place < 0) place = attachments.findIndex((_, i) => isFree(state, i))
  // An attempt that failed, and that nobody has asked about again.
  if (place < 0) place = attachments.findIndex((one) => one.name !== '' && one.link === null)
  if (place < 0) return REGIONS_FULL
  const attachment = attachments[place]!
  const { link } = attachment
  if (link !== null && !same(link.target, target)) return REGION_EXISTS
  if (link !== null && !isBroken(state, place, link)) {
    state.located.region = state.regions.places[REGIONS + place]!
    return state.relays.relays[place]!.qp === null ? CONNECTING : PASS
  }
  const { fault } = attachment
  if (known && link === null && fault !== PASS) {
    // Said once; whoever asks again wants another attempt.
    attachment.fault = PASS
    return fault
  }
  if (isClosing(state, target)) return CONNECTING
  if (!known) forgetAttachment(state, place)
  attachment.name = name
  attachment.fault = PASS
  attachment.link = connectTo(state, target, ATTACHMENTS)
  if (attachment.link !== null) return CONNECTING
  forgetAttachment(state, place)
  return REGIONS_FULL
}

/** Has the card keys of its own, and the other one others? */
function faultOfKeys({ sessions }: SessionState, { key }: Inside): Fault {
  const { own } = sessions
  if (own === null) return CARD_KEYLESS
  return key.every((byte, i) => byte === own.public[i]) ? REQUEST : PASS
}

/** Is the place nobody's? Memory of the host that is registered on demand has places there, too. */
export function isFree(state: MemoryState & ManageState, place: number): boolean {
  return state.attachments[place]!.name === '' && state.regions.places[REGIONS + place] === null
}

/** Ends the relay of that name, if there is one. */
export function detach(state: ManageContext, name: string): void {
  const place = state.attachments.findIndex((one) => one.name === name)
  if (place < 0) return
  const { link } = state.attachments[place]!
  endAttachment(state, place, PASS)
  forgetAttachment(state, place)
  if (link !== null) closeLink(state, link)
}

/** The place is free. */
function forgetAttachment(state: MemoryState & BurstState & ManageState, place: number): void {
  state.attachments[place]!.name = ''
  state.regions.places[REGIONS + place] = null
  forgetFigures(state.figures, REGIONS + place)
}

/**
 * Is a connection of before to that target not over yet? What it sent must not arrive behind what
 * the next one sends.
 */
function isClosing(state: ConnectState, target: Target): boolean {
  return state.connections.places.some(
    ({ link }) => link?.closing && !link.ended && same(link.target, target),
  )
}

function same(one: Target, other: Target): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}

/** A relay whose queue pair has failed is as good as gone. */
function isBroken(state: ManageContext, place: number, link: Link): boolean {
  const { qp } = state.relays.relays[place]!
  if (qp === null || qp.state !== STATE_ERROR) return false
  endAttachment(state, place, PASS)
  closeLink(state, link)
  return true
}

/** The connection is over. The region stays, and takes nothing until it is connected again. */
function endAttachment(state: RequestState & ManageState, place: number, fault: Fault): void {
  const attachment = state.attachments[place]!
  attachment.link = null
  attachment.fault = fault
  state.relays.relays[place]!.qp = null
}

const ATTACHMENTS = {
  connected(state: ManageContext, link: Link): void {
    const place = state.attachments.findIndex((one) => one.link === link)
    assert(place >= 0, 'a link that was let go is closing, and connects no more')
    const offer = offerOf(link)
    const initiator =
      offer === null
        ? null
        : openInitiator(state, link.connection.qp!, {
            incarnation: offer.incarnation,
            readDepth: RESPONDER_RESOURCES,
            kept: true,
          })
    // Copies that a client writes by itself it writes over there.
    if (initiator === null || offer!.kind !== KIND_RECORDS || isPair(offer!)) {
      endAttachment(state, place, ATTACH_FAILED)
      closeLink(state, link)
      return
    }
    const relay = state.relays.relays[place]!
    relay.qp = initiator.qp
    relay.rkey = offer!.rkey
    relay.clientHigh = link.target.clientHigh
    relay.clientLow = link.target.clientLow
    const { name } = state.attachments[place]!
    state.regions.places[REGIONS + place] = relayRegionOf(state, REGIONS + place, name, offer!)
    grantAgain(state, REGIONS + place)
  },
  ended(state: ManageContext, link: Link): void {
    const place = state.attachments.findIndex((one) => one.link === link)
    if (place < 0) return
    const was = state.relays.relays[place]!.qp !== null
    endAttachment(state, place, was ? PASS : (link.entering?.fault ?? ATTACH_FAILED))
  },
}

/** What the other DPU offers over the link. */
interface Offer extends Geometry {
  readonly rkey: number
  readonly incarnation: number
}

/** Null where it says nothing of itself, and so is no DPU of ours. */
function offerOf({ active, entering }: Link): Offer | null {
  if (active === null) {
    return { ...entering!.region!, incarnation: entering!.entrance!.incarnation }
  }
  const block = blankCapability()
  const geometry = blankGeometry()
  const { privateData } = active.rep
  const knows =
    readCapability(block, privateData, 0, privateData.length) &&
    readGeometry(geometry, privateData, 0, privateData.length)
  return knows ? { ...geometry, rkey: block.rkey, incarnation: block.incarnation } : null
}

/** The relay as a region: it grants what can be sent on. */
function relayRegionOf(state: BoardState, index: number, name: string, geometry: Geometry): Region {
  return {
    ...{ index, id: 0, name, kind: KIND_RECORDS, protectionDomain: 0 },
    slots: geometry.slots,
    capacity: geometry.capacity,
    copies: geometry.copies,
    flags: geometry.flags,
    placement: PLACEMENT_RELAY,
    ...{ stride: 0, at: 0, base: 0, areaBytes: 0, baseHigh: 0, baseLow: 0, keyAt: 0 },
    rkey: drawKey(state, index),
    rights: WRITE_PERSIST,
    unsettled: 0,
    repaired: 0,
    mechanism: 0,
    pending: 0,
  }
}
