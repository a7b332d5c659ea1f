/**
 * What nobody may do: keys, domains, rights and ranges that are not one's own, and frames that are
 * none (faults N6, N7, N15 to N17, N19).
 *
 * Invariant: each try is made on a connection of its own; no byte of a region changes, and
 * nothing is confirmed. What lies exactly at the edge, and is allowed, is tried as well.
 */

import { RC_WRITE_FIRST, WRITE_PERSIST_ONLY } from '../../../../firmware/wire/opcode.ts'
import {
  dataOf,
  type PersistOptions,
  persistAcks,
  persistFrames,
  readFrame,
  type Sent,
  type TestPeer,
} from '../../../support/cards/test-card.ts'
import { frameOf, writeIcrc } from '../../../support/wire/frames.ts'
import {
  fetchAddFrame,
  flushFrame,
  NAK_ACCESS,
  NAK_INVALID,
  writeFrames,
} from '../../../support/wire/requests.ts'
import type { Play } from '../killer.ts'
import { BYTES, CAPACITY, firstOf, MTU, persistBytes, SLOTS, syndromes, World } from './world.ts'

type Try = readonly [string, (world: World, qp: TestPeer) => Uint8Array[]]

const DATA = dataOf(64, 1)

/** Each of them alone draws a NAK for access. */
function denied(tries: readonly Try[]): string | null {
  const world = new World()
  world.card.serve(...writeFrames(world.qp, world.bytes, 0, dataOf(BYTES, 7)))
  for (let slot = 0; slot < SLOTS; slot++) {
    world.card.serve(...persistFrames(world.qp, world.records, slot, dataOf(CAPACITY, slot)))
  }
  for (const [name, make] of tries) {
    const frames = make(world, world.card.connect(MTU))
    const said = world.refuses(name, frames)
    if (said !== null) return said
    // After a NAK that says something else, something else has refused it.
    const naks = syndromes(world.card.sent).filter((syndrome) => syndrome !== 0x1f)
    if (naks.some((syndrome) => syndrome !== NAK_ACCESS)) return `${name}: another NAK`
  }
  return null
}

const KEYS: readonly Try[] = [
  [
    'a key of the same place',
    ({ bytes }, qp) => writeFrames(qp, { ...bytes, rkey: bytes.rkey ^ 0x20 }, 0, DATA),
  ],
  [
    'a key with its highest bit turned',
    ({ bytes }, qp) => [
      readFrame(qp, { ...bytes, rkey: (bytes.rkey ^ 0x80000000) >>> 0 }, 0, 0, 64),
    ],
  ],
  [
    'a record under a guessed key',
    ({ records }, qp) => persistFrames(qp, { rkey: (records.rkey + 0x1000) >>> 0 }, 0, DATA),
  ],
]

const RIGHTS: readonly Try[] = [
  ['an atomic on records', ({ records }, qp) => [fetchAddFrame(qp, records, 0, 1n)]],
  ['a persist into plain bytes', ({ bytes }, qp) => [persistBytes(qp, bytes, DATA)]],
]

const RANGES: readonly Try[] = [
  ['one byte behind the end', ({ bytes }, qp) => writeFrames(qp, bytes, BYTES - 63, DATA)],
  ['an address behind the end', ({ bytes }, qp) => writeFrames(qp, bytes, BYTES, DATA)],
  ['an address that wraps', ({ bytes }, qp) => writeFrames(qp, bytes, 0xffffffc1, DATA)],
  ['an address above 32 bits', ({ bytes }, qp) => writeFrames(qp, bytes, 0, DATA, { vaHigh: 1 })],
  [
    'an address at 2^64',
    ({ bytes }, qp) => writeFrames(qp, bytes, 0xfffffff0, DATA, { vaHigh: 0xffffffff }),
  ],
  ['an address at 2^48', ({ bytes }, qp) => writeFrames(qp, bytes, 0, DATA, { vaHigh: 0x10000 })],
  ['a READ of one byte more', ({ bytes }, qp) => [readFrame(qp, bytes, 0, 1, BYTES)]],
  ['a READ behind the end', ({ bytes }, qp) => [readFrame(qp, bytes, 0, BYTES, 1)]],
  ['a READ that wraps', ({ bytes }, qp) => [readFrame(qp, bytes, 0, 0xfffffffc, 8)]],
  ['a READ of 2 GiB', ({ bytes }, qp) => [readFrame(qp, bytes, 0, 0, 2 ** 31)]],
  [
    'a FLUSH beyond the end',
    ({ bytes }, qp) => [flushFrame(qp, bytes, { vaLow: BYTES - 4, length: 8 })],
  ],
  ['a slot behind the last', ({ records }, qp) => persistFrames(qp, records, SLOTS, DATA)],
  ['a slot of 2^31', ({ records }, qp) => persistFrames(qp, records, 2 ** 31, DATA)],
  [
    'a record of one byte more',
    ({ records }, qp) => persistFrames(qp, records, 0, dataOf(CAPACITY + 1, 2)),
  ],
  ['a READ of a slot behind the last', ({ records }, qp) => [readFrame(qp, records, SLOTS, 0, 8)]],
  ['a READ behind the capacity', ({ records }, qp) => [readFrame(qp, records, 0, CAPACITY - 7, 8)]],
  [
    'a READ of a copy that is not kept',
    ({ records }, qp) => [readFrame(qp, records, 0, 4 * 2 ** 28, 8)],
  ],
  [
    'a plain WRITE at an offset in a record',
    ({ records }, qp) => writeFrames(qp, records, 64, DATA),
  ],
]

/** What is allowed to the last byte, and to the last slot. */
function edges(): string | null {
  const world = new World()
  const { card, bytes, records, qp } = world
  const isAcked = (sent: readonly Sent[]): boolean => syndromes(sent).includes(0x1f)
  if (!isAcked(card.serve(...writeFrames(qp, bytes, BYTES - 64, DATA)))) {
    return 'the last bytes of a region are refused'
  }
  if (card.read(qp, bytes, 0, 0, 64, BYTES - 64) === null) return 'the last bytes are not read'
  if (!isAcked(card.serve(...writeFrames(qp, bytes, BYTES, new Uint8Array(0))))) {
    return 'a WRITE of no bytes is refused'
  }
  const data = dataOf(CAPACITY, 3)
  const [answer] = persistAcks(card.serve(...persistFrames(qp, records, SLOTS - 1, data)))
  if (answer?.status !== 0) return 'the last slot, full, is refused'
  return world.expectSlot(SLOTS - 1, data, 'the last slot')
}

/** A record whose frame is changed, with the ICRC made right again or not. */
function changed(
  name: string,
  change: (frame: Uint8Array) => void,
  options: { readonly icrc?: boolean; readonly nak?: boolean; readonly more?: PersistOptions } = {},
): string | null {
  const world = new World()
  const { card, records, qp } = world
  const [frame] = persistFrames(qp, records, 0, dataOf(63, 1), options.more)
  change(frame!)
  if (options.icrc !== false) writeIcrc(frame!)
  const before = world.content()
  const sent = card.serve(frame!)
  if (persistAcks(sent).length > 0) return `${name}: it is acknowledged`
  if (Buffer.compare(before, world.content()) !== 0) return `${name}: a byte changed`
  if (options.nak === true) return syndromes(sent).includes(NAK_INVALID) ? null : `${name}: no NAK`
  return sent.length === 0 ? null : `${name}: it is answered`
}

/** Offsets in a frame over IPv4. */
const IP_AT = 14
const UDP_AT = 34
const BTH_AT = 42

const setByte = (at: number, value: number) => (frame: Uint8Array) => {
  frame[at] = value
}

/** A message whose packets do not add up to what was announced. */
function lengths(): string | null {
  for (const [announced, payload] of [
    [600, 255],
    [256, 256],
    [100, 256],
  ] as const) {
    const { card, bytes, qp } = new World()
    const frame = frameOf({
      bth: { opcode: RC_WRITE_FIRST, destQp: qp.number, psn: qp.psn, ackRequest: true },
      reth: { vaHigh: 0, vaLow: 0, rkey: bytes.rkey, length: announced },
      payload: dataOf(payload, 1),
    })
    if (!syndromes(card.serve(frame)).includes(NAK_INVALID)) {
      return `a First of ${payload} bytes of ${announced} is taken`
    }
  }
  for (const announced of [63, 65, 2 ** 31 + 1]) {
    const { card, records, qp } = new World()
    const frame = frameOf({
      bth: { opcode: WRITE_PERSIST_ONLY, destQp: qp.number, psn: qp.psn, ackRequest: true },
      reth: { vaHigh: 0, vaLow: 0, rkey: records.rkey, length: announced },
      pweth: { wait: 2, slotAddressed: true, wantsAck: true, operationLow: 5 },
      payload: DATA,
    })
    if (!syndromes(card.serve(frame)).includes(NAK_INVALID)) {
      return `an Only of 64 bytes that announces ${announced} is taken`
    }
  }
  return null
}

export const HOSTILE: Readonly<Record<string, Play>> = {
  keys: () => denied(KEYS),
  rights: () => denied(RIGHTS),
  ranges: () => firstOf(() => denied(RANGES), edges),
  lengths,
  'a wrong ICRC': () =>
    changed('ICRC', (frame) => (frame[frame.length - 1]! ^= 1), { icrc: false }),
  'a byte turned on the way': () =>
    changed('payload', (frame) => (frame[frame.length - 20]! ^= 1), { icrc: false }),
  'a wrong transport version': () => changed('version', setByte(BTH_AT + 1, 0x11)),
  'a wrong partition': () => changed('partition', setByte(BTH_AT + 2, 0x7e)),
  'another peer': () => changed('peer', setByte(IP_AT + 15, 9)),
  'another destination': () => changed('destination', setByte(IP_AT + 19, 9)),
  'another queue pair of that place': () => changed('queue pair', setByte(BTH_AT + 5, 0x5a)),
  'another port': () => changed('port', setByte(UDP_AT + 3, 0xb8)),
  'a fragment': () => changed('fragment', setByte(IP_AT + 6, 0x20)),
}
