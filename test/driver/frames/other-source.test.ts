/** What comes from another address than the card's is nothing that the card has said (R1-S3). */

import { afterEach, expect, test } from 'vitest'
import type { Wire } from '../../../host-driver/base/wire.ts'
import { connect, type Dpu } from '../../../host-driver/index.ts'
import { dataOf } from '../../support/cards/test-card.ts'
import { endpointOf, Network } from '../../support/peers/network.ts'
import { writeIcrc } from '../../support/wire/frames.ts'

const IPV4_SOURCE_END = 29
const IPV4_CHECKSUM = 24
const BTH = 42
const UD_SEND = 0x64
const MAD_STATUS = BTH + 12 + 8 + 4
const AETH = BTH + 12
const NAK_ACCESS = 0x62

const open: (() => void | Promise<void>)[] = []
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close()
})

/** Each answer of the card, from 10.0.0.66 in its place: a refusal. */
function refusal(frame: Uint8Array): Uint8Array {
  const forged = Uint8Array.from(frame)
  forged[IPV4_SOURCE_END] = 66
  if (forged[BTH] === UD_SEND) forged.set([0x00, 0x1c], MAD_STATUS)
  else forged[AETH] = NAK_ACCESS
  forged.set([0, 0], IPV4_CHECKSUM)
  let sum = 0
  for (let at = 14; at < 34; at += 2) sum += (forged[at]! << 8) | forged[at + 1]!
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16)
  forged.set([(~sum >> 8) & 255, ~sum & 255], IPV4_CHECKSUM)
  writeIcrc(forged)
  return forged
}

/** Whatever the card says, somebody has said something else just before. */
function overheard(wire: Wire): Wire {
  return {
    send: (frame) => wire.send(frame),
    onFrame: (take) =>
      wire.onFrame((frame) => {
        take(refusal(frame))
        take(frame)
      }),
    now: () => wire.now(),
    setTimer: (atUs, callback) => wire.setTimer(atUs, callback),
    close: () => wire.close(),
  }
}

async function client(network: Network): Promise<Dpu> {
  const options = { peer: endpointOf(2), own: endpointOf(101), seed: 1 }
  const dpu = await connect(overheard(network.addHost()), options)
  open.push(() => dpu.close())
  return dpu
}

test('R1-S3: refusals that another machine sends in the name of nobody are dropped', async () => {
  const network = new Network({ seed: 1 })
  network.clock.start()
  open.push(() => network.clock.stop())
  await network.addDpu(2)
  const dpu = await client(network)
  await dpu.format()
  const region = await dpu.provision({ name: 'records', slots: 8, capacity: 64 })
  for (let slot = 0; slot < 4; slot++) {
    const receipt = await region.persist(slot, dataOf(64, slot)).persisted
    expect(receipt.copies).toBe(2)
  }
  const { framesDropped, framesReceived, connections } = dpu.statistics()
  expect(framesDropped).toBe(framesReceived / 2)
  expect(connections).toBe(1)
})
