/**
 * What was recorded between two Linux machines, as conversations that can be held again.
 *
 * A capture has a client, which sent the first frame, and a server. Of each reliable connection
 * between them this gives the client's requests and the server's answers, in their order; of the
 * server's own requests (rping has some) those, and the client's answers.
 */

import { icrcGood } from '../../../boards/software/icrc.ts'
import { takeResponse } from '../../../firmware/transport/completer.ts'
import { psnBehind } from '../../../firmware/transport/psn.ts'
import { requestOpcode } from '../../../firmware/transport/request-opcode.ts'
import {
  ATOMIC_WRITE,
  createRequester,
  FLUSH,
  post,
  READ,
  type RequestKind,
  SEND,
  type WcStatus,
  WRITE,
} from '../../../firmware/transport/requester.ts'
import { nextTimerUs, pump, tick } from '../../../firmware/transport/sender.ts'
import { has, OPCODES, RC_FLUSH, RESPONSE } from '../../../firmware/wire/opcode.ts'
import { blankReth, readReth } from '../../../firmware/wire/reth.ts'
import { type Sent, sentOf } from './conversation.ts'
import type { Beginning } from './dialogue.ts'
import { CAPTURES } from './vectors.ts'

const ADDRESS_AT = 26
const NAK_ACCESS = 0x62

interface Recorded extends Sent {
  readonly fromClient: boolean
  readonly isAnswer: boolean
}

interface Recording {
  readonly capture: string
  readonly beginning: Beginning
  /** Everything on the connection, in order. */
  readonly frames: readonly Recorded[]
  /** FLUSH requests whose ICRC is not the standard one. */
  readonly linuxFlushes: number
}

function recordedOf(bytes: Uint8Array, client: string): Recorded {
  const sent = sentOf(bytes)
  const fromClient = addressOf(bytes) === client
  return { ...sent, fromClient, isAnswer: has(sent.packet.row!.properties, RESPONSE) }
}

function addressOf(bytes: Uint8Array): string {
  return bytes.slice(ADDRESS_AT, ADDRESS_AT + 4).join('.')
}

/** The reliable connection of that capture, or null if it has none. */
export function conversationOf(name: string): Recording | null {
  const { frames } = CAPTURES.find((capture) => capture.name === name)!
  const client = addressOf(frames[0]!)
  const all = frames.map((bytes) => recordedOf(bytes, client))
  const reliable = all.filter(({ packet }) => packet.row!.transport === 'rc')
  if (reliable.length === 0) return null
  const standard = ({ bytes }: Recorded): boolean => icrcGood(bytes, 0, bytes.length)
  return {
    capture: name,
    beginning: beginningOf(name, reliable),
    frames: reliable,
    linuxFlushes: reliable.filter((frame) => frame.opcode === RC_FLUSH && !standard(frame)).length,
  }
}

/** The numbers of the connection, and a region that holds all that was answered well. */
function beginningOf(name: string, frames: readonly Recorded[]): Beginning {
  const requests = frames.filter((frame) => frame.fromClient && !frame.isAnswer)
  const first = requests[0]!
  const answer = frames.find((frame) => !frame.fromClient && frame.isAnswer)!
  const refused = frames.some(({ syndrome }) => syndrome === NAK_ACCESS)
  const reths = requests.flatMap(({ bytes, packet }) => {
    const reth = blankReth()
    if (packet.row!.rethAt === 0) return []
    readReth(reth, bytes, packet.bthAt + packet.row!.rethAt)
    return [reth]
  })
  const [one] = reths
  const base = reths.reduce((low, reth) => Math.min(low, reth.vaLow), one?.vaLow ?? 0)
  const end = reths.reduce((high, reth) => Math.max(high, reth.vaLow + reth.length), base)
  return {
    localQp: first.packet.destQp,
    remoteQp: answer.packet.destQp,
    // A first answer that is a sequence NAK tells what was expected.
    expectedPsn: answer.syndrome === 0x60 ? answer.psn : first.psn,
    pathMtu: /pmtu(\d+)/.exec(name) === null ? 1024 : Number(/pmtu(\d+)/.exec(name)![1]),
    // What was refused for its key or its range stays outside of the region.
    rkey: (one?.rkey ?? 0) ^ (refused && name.includes('badkey') ? 1 : 0),
    vaHigh: one?.vaHigh ?? 0,
    vaLow: refused && name.includes('range') ? end : base,
    length: Math.ceil((end - base) / 4096 + 1) * 4096,
  }
}

const KINDS: readonly RequestKind[] = [WRITE, SEND, READ, FLUSH, ATOMIC_WRITE]

/** What a recorded request was, by its first packet. */
function kindOf(opcode: number): RequestKind {
  const kind = KINDS.find(
    (one) => requestOpcode(one, 0, 1) === opcode || requestOpcode(one, 0, 2) === opcode,
  )
  if (kind === undefined) throw new Error(`no request of opcode ${opcode}`)
  return kind
}

interface Held {
  /** Opcode and PSN of each request packet. */
  readonly recorded: readonly string[]
  readonly sent: readonly string[]
  /** How each request ended, in order; those that the recording left open are not there. */
  readonly ended: readonly WcStatus[]
  readonly posted: number
}

/** Our requester in the place of one side: it posts what that side did, and gets its answers. */
export function heldByRequester(conversation: Recording, asClient: boolean): Held {
  const frames = conversation.frames
  const mine = (frame: Recorded): boolean => frame.fromClient === asClient && !frame.isAnswer
  const recorded: string[] = []
  const sent: string[] = []
  const ended: WcStatus[] = []
  let posted = 0
  let now = 0
  const name = (opcode: number, psn: number): string => `${OPCODES[opcode]!.name} ${psn}`
  const q = createRequester(
    {
      firstPsn: frames.find(mine)?.psn ?? 0,
      pathMtu: conversation.beginning.pathMtu,
      incarnation: 0,
      rnrRetryCount: 7,
    },
    {
      emit: ({ kind, packetCount }, index, psn) => {
        sent.push(name(requestOpcode(kind, index, packetCount), psn))
      },
      received: () => {},
      data: () => {},
      complete: (request) => ended.push(request.status),
    },
  )
  for (const frame of frames) {
    if (mine(frame)) {
      recorded.push(name(frame.opcode, frame.psn))
      if (psnBehind(frame.psn, q.nextPsn)) {
        // Sent before: by a message that was posted whole, or again after a timeout.
        if (recorded.length <= sent.length) continue
        now = nextTimerUs(q)
        tick(q, now)
      } else {
        posted += 1
        post(q, kindOf(frame.opcode), posted, lengthOf(frame), 0, 0)
        pump(q, now)
      }
    } else if (frame.fromClient !== asClient && frame.isAnswer) {
      takeResponse(q, frame.bytes, frame.packet, now)
      pump(q, now)
    }
  }
  return { recorded, sent, ended, posted }
}

/** Bytes that the request is about, as `post` wants them. */
function lengthOf({ bytes, packet, opcode }: Recorded): number {
  const kind = kindOf(opcode)
  if (kind === SEND) return packet.payloadLength
  if (kind !== WRITE && kind !== READ) return 0
  const reth = blankReth()
  readReth(reth, bytes, packet.bthAt + packet.row!.rethAt)
  return reth.length
}
