/**
 * Bursts of anything that RDMA-CM, ARP and neighbour discovery could bring, with a valid ICRC:
 * nothing stops, nothing is stored, and who behaves is served in between.
 */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { QUEUE_PAIRS } from '../../../firmware/board/limits.ts'
import { blankCapability, writeCapability } from '../../../firmware/wire/capability.ts'
import * as cm from '../../../firmware/wire/cm.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { dataOf, TestCard } from '../../support/cards/test-card.ts'
import {
  CLIENT,
  type Client,
  idsFrame,
  madFrame,
  message,
  messagesOf,
  publish,
  repOf,
  reqFrame,
  reqOf,
} from '../../support/wire/cm.ts'
import { hex, writeIcrc } from '../../support/wire/frames.ts'
import { ACK, contentOf, firstDifference, writeFrames } from '../../support/wire/requests.ts'

const SEED = Number(process.env.PERDURE_SEED ?? 20260)

const MAD_AT = 62

const SOLICITATION = hex(`
  33 33 ff 00 00 02 02 00 00 00 00 01 86 dd
  60 00 00 00 00 20 3a ff
  fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01
  ff 02 00 00 00 00 00 00 00 00 00 01 ff 00 00 02
  87 00 7d 97 00 00 00 00
  fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 02
  01 01 02 00 00 00 00 01
`)
const ARP = hex(`
  ff ff ff ff ff ff 02 00 00 00 00 01 08 06
  00 01 08 00 06 04 00 01 02 00 00 00 00 01 0a 00 00 01 00 00 00 00 00 00 0a 00 00 02
`)

/** What is known of a connection that a client of the tests has, or had. */
interface Known {
  readonly client: Client
  readonly rep: cm.CmRep
}

type Kind = (client: Client, known: Known) => Uint8Array

const KINDS: Readonly<Record<string, Kind>> = {
  REQ: (client) => reqFrame(client),
  'REQ over IPv6': (client) => reqFrame({ ...client, ipVersion: 6 }),
  'REQ with a block': (client) => {
    const req = reqOf(client)
    writeCapability(req.privateData, cm.IP_CM_USER, { ...blankCapability(), clientLow: 7 })
    return madFrame(message(cm.CM_REQ, 3, (bytes, at) => cm.writeReq(bytes, at, req)))
  },
  'REQ again': (_, { client }) => reqFrame(client),
  RTU: (_, { client, rep }) => idsFrame(client, cm.CM_RTU, rep.localId),
  REP: (_, { client, rep }) => idsFrame(client, cm.CM_REP, rep.localId),
  MRA: (_, { client, rep }) => idsFrame(client, cm.CM_MRA, rep.localId),
  REJ: (_, { client, rep }) => idsFrame(client, cm.CM_REJ, rep.localId),
  DREP: (_, { client, rep }) => idsFrame(client, cm.CM_DREP, rep.localId),
  DREQ: (_, { client, rep }) =>
    idsFrame(client, cm.CM_DREQ, rep.localId, (bytes, at) => cm.putDreqQpn(bytes, at, rep.qpn)),
  SIDR: (client, { rep }) => idsFrame(client, 0x17, rep.localId),
  LAP: (client, { rep }) => idsFrame(client, 0x19, rep.localId),
  ARP: () => ARP.slice(),
  ND: () => SOLICITATION.slice(),
}

const part = fc.record({
  kind: fc.constantFrom(...Object.keys(KINDS)),
  client: fc.nat({ max: 400 }),
  known: fc.nat({ max: 400 }),
  flips: fc.array(fc.tuple(fc.nat({ max: 300 }), fc.integer({ min: 1, max: 255 })), {
    maxLength: 4,
  }),
})

const burst = fc.record({
  parts: fc.array(part, { minLength: 1, maxLength: 32, size: 'max' }),
  passUs: fc.constantFrom(0, 10, 1000, 1e5, 2e6, 3e6, 5e6, 1e8),
})

function clientOf(number: number): Client {
  return { ...CLIENT, localId: 1 + number, qpn: 0x100 + number }
}

/** The frame of that kind with some bytes turned; of a MAD, behind its fixed first bytes. */
function made(
  one: typeof part extends fc.Arbitrary<infer T> ? T : never,
  known: Known,
): Uint8Array {
  const frame = KINDS[one.kind]!(clientOf(one.client), known)
  const isMad = frame.length > 128
  const from = isMad ? (frame[12] === 8 ? MAD_AT : MAD_AT + 20) + 4 : 12
  for (const [at, bits] of one.flips) {
    if (from + at < frame.length) frame[from + at] = frame[from + at]! ^ bits
  }
  if (isMad) writeIcrc(frame)
  return frame
}

test(`nothing stops and nothing is stored (seed ${SEED})`, () => {
  const card = new TestCard(1 << 19).format()
  card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 65536 })
  publish(card)
  card.idle()
  const before = contentOf(card)
  const known: Known[] = [{ client: clientOf(0), rep: repOf(card.serve(reqFrame(clientOf(0)))) }]
  const said: Record<number, number> = {}
  fc.assert(
    fc.property(burst, ({ parts, passUs }) => {
      const frames = parts.map((one) => made(one, known[one.known % known.length]!))
      const sent = [...card.serve(...frames), ...card.pass(passUs)]
      for (const { attribute, bytes } of messagesOf(sent)) {
        said[attribute] = (said[attribute] ?? 0) + 1
        expect([cm.CM_REP, cm.CM_REJ, cm.CM_DREP, cm.CM_DREQ]).toContain(attribute)
        if (attribute !== cm.CM_REP) continue
        const rep = cm.blankRep()
        cm.readRep(rep, bytes, cm.CM_BODY)
        expect(rep.qpn & 0xff).toBeLessThan(QUEUE_PAIRS)
        const client = { ...CLIENT, localId: rep.remoteId }
        if (known.length < 400) known.push({ client, rep })
        else known[rep.localId % 400] = { client, rep }
      }
    }),
    { seed: SEED, numRuns: 800 },
  )
  expect(firstDifference(contentOf(card), before)).toBe(-1)
  for (const attribute of [cm.CM_REP, cm.CM_REJ, cm.CM_DREP]) {
    expect(said[attribute]).toBeGreaterThan(20)
  }
  // Everybody leaves in time, and who then comes is served.
  card.pass(1e9)
  card.pass(1e9)
  const client = { ...CLIENT, localId: 0x7777, qpn: 0x7777 }
  const rep = repOf(card.serve(reqFrame(client)))
  const qp = { number: rep.qpn, peer: client.qpn, mtu: 1024, psn: rep.startingPsn, operation: 0 }
  const bytes = card.open('bytes')
  const [answer] = card.serve(...writeFrames(qp, bytes, 0, dataOf(8, 1)))
  expect(answer!.syndrome).toBe(ACK)
})
