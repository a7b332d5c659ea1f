/**
 * The write with persistence flag as source 2 tells it, step by step, with the host driver as the
 * second device and the emulated card as the first: what the client asks for, what stands on the
 * wire, and what does not.
 */

import { afterEach, expect, test } from 'vitest'
import { icrcGood } from '../../boards/software/icrc.ts'
import { PASS } from '../../firmware/board/fault.ts'
import { WRITE_PERSIST_ONLY } from '../../firmware/wire/opcode.ts'
import { blankPacket, checkPacket, type Packet } from '../../firmware/wire/packet.ts'
import { blankPweth, readPweth } from '../../firmware/wire/persist.ts'
import { blankPaeth, readPaeth } from '../../firmware/wire/persist-ack.ts'
import { blankReth, readReth } from '../../firmware/wire/reth.ts'
import { ROCE_PORT, UDP_DESTINATION_PORT } from '../../firmware/wire/udp.ts'
import { connect, type Dpu, PcapWriter, type Region, readPcap } from '../../host-driver/index.ts'
import { endpointOf, Network } from '../support/peers/network.ts'

const PAYLOAD = Uint8Array.from({ length: 200 }, (_, i) => (i * 7) & 0xff)

let networks: Network[] = []

afterEach(() => {
  for (const network of networks) network.clock.stop()
  networks = []
})

interface Flow {
  readonly network: Network
  readonly dpu: Dpu
  readonly region: Region
  /** Frames that the client sent since the last call. */
  readonly sent: () => Uint8Array[]
  readonly cut: () => Promise<void>
  /** Of every PERSIST_ACK so far: how many copies of how many records are durable. */
  readonly told: () => { copies: number; records: number }[]
}

/** A client of a card, whose frames are looked at as they leave. */
async function flow(): Promise<Flow> {
  const network = new Network({ seed: 5 })
  networks.push(network)
  const card = await network.addDpu(2)
  network.clock.start()
  const wire = network.addHost()
  let frames: Uint8Array[] = []
  const { send } = wire
  wire.send = (frame) => {
    frames.push(frame.slice())
    send(frame)
  }
  const capture = new PcapWriter()
  const dpu = await connect(wire, { seed: 6, peer: endpointOf(2), capture })
  await dpu.format()
  const region = await dpu.provision({ name: 'orders', slots: 16, capacity: 1000 })
  const sent = (): Uint8Array[] => {
    const seen = frames
    frames = []
    return seen
  }
  const cut = async (): Promise<void> => {
    card.powerCut({ strategy: 'none' })
    await card.powerOn()
  }
  const told = () => [...readPcap(capture.bytes())].flatMap(({ frame }) => toldBy(frame))
  sent()
  return { network, dpu, region, sent, cut, told }
}

function parsed(frame: Uint8Array): Packet {
  const packet = blankPacket()
  expect(checkPacket(packet, frame, 0, frame.length)).toBe(PASS)
  return packet
}

/** What a PERSIST_ACK tells; nothing of another frame. */
function toldBy(frame: Uint8Array): { copies: number; records: number }[] {
  const { row, bthAt } = parsed(frame)
  if (row === null || row.paethAt === 0) return []
  const paeth = blankPaeth()
  readPaeth(paeth, frame, bthAt + row.paethAt)
  const { copies, records } = paeth
  return [{ copies, records }]
}

test('P2-6: one request is one packet: operation, destination, data, PSN', async () => {
  const { dpu, region, sent } = await flow()
  const write = region.persist(7, PAYLOAD)
  const receipt = await write.persisted
  const [frame] = sent()
  const packet = parsed(frame!)
  const reth = blankReth()
  readReth(reth, frame!, packet.bthAt + packet.row!.rethAt)
  const pweth = blankPweth()
  readPweth(pweth, frame!, packet.bthAt + packet.row!.pwethAt)
  expect(packet.opcode).toBe(WRITE_PERSIST_ONLY)
  expect(reth).toMatchObject({ vaHigh: 7, vaLow: 0, length: 200, rkey: region.info.rkey })
  expect(pweth).toMatchObject({ slotAddressed: true, wantsAck: true, wait: 2 })
  expect(packet.psn).toBe(receipt.psn)
  expect(packet.destQp).toBeGreaterThan(1)
  expect(BigInt(pweth.operationLow)).toBe(receipt.operationId)
  const data = frame!.slice(packet.payloadAt, packet.payloadAt + packet.payloadLength)
  expect(data).toEqual(PAYLOAD)
  await dpu.close()
})

test('P2-7: the carrier is RoCEv2: UDP port 4791, and the invariant CRC', async () => {
  const { region, sent } = await flow()
  await region.persist(0, PAYLOAD).persisted
  const [frame] = sent()
  const udp = parsed(frame!).bthAt - 8
  const port = (frame![udp + UDP_DESTINATION_PORT]! << 8) | frame![udp + UDP_DESTINATION_PORT + 1]!
  expect(port).toBe(ROCE_PORT)
  expect(port).toBe(4791)
  expect(icrcGood(frame!, 0, frame!.length)).toBe(true)
})

test('P2-8: the flag is the opcode or the address: both are durable in every copy', async () => {
  const { region, cut, told } = await flow()
  await region.persist(1, PAYLOAD).persisted
  await region.write(2, PAYLOAD)
  expect(told()).toEqual([
    { copies: 2, records: 1 },
    { copies: 2, records: 1 },
  ])
  await cut()
  for (const slot of [1, 2]) expect((await region.read(slot)).data).toEqual(PAYLOAD)
})

test('P2-10: the card makes it durable by itself: the client sends nothing more', async () => {
  const { region, sent, network } = await flow()
  const write = region.persist(3, PAYLOAD)
  await write.received
  expect(sent().length).toBe(1)
  await write.persisted
  await new Promise<void>((resolve) => {
    network.clock.schedule(network.clock.nowUs + 1_000_000, resolve)
  })
  expect(sent()).toEqual([])
})

test('P2-22, P2-25: a persist-ACK that nobody waits for yet is kept', async () => {
  const { region, network } = await flow()
  const write = region.persist(4, PAYLOAD)
  await new Promise<void>((resolve) => {
    network.clock.schedule(network.clock.nowUs + 5_000_000, resolve)
  })
  expect(await write.received).toBeUndefined()
  expect((await write.persisted).copies).toBe(2)
})
