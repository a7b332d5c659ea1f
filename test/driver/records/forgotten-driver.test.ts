/**
 * R1-C6, R1-C7, through the library: the answer to a record is lost, another client writes to its
 * slot, and the part forgets the operation. What the record comes to is then not known, and it is
 * never written over what the other one has.
 */

import { afterEach, describe, expect, test } from 'vitest'
import type { EmulatedDpu } from '../../../boards/emulator/index.ts'
import { CLIENTS } from '../../../firmware/board/limits.ts'
import { u32 } from '../../../firmware/wire/bytes.ts'
import { has, PERSIST } from '../../../firmware/wire/opcode.ts'
import { blankPacket, checkPacket } from '../../../firmware/wire/packet.ts'
import { RETH_RKEY } from '../../../firmware/wire/reth.ts'
import type { Wire } from '../../../host-driver/base/wire.ts'
import { printPacket } from '../../../host-driver/command/capture/print.ts'
import { seal } from '../../../host-driver/frames/frames.ts'
import {
  connect,
  type Dpu,
  OutcomeUnknown,
  PcapWriter,
  RefusedError,
} from '../../../host-driver/index.ts'
import { readPcap } from '../../../host-driver/way/pcap.ts'
import { LINE_BYTES, OPERATIONS_AT } from '../../support/judges/oracle.ts'
import { endpointOf, Network } from '../../support/peers/network.ts'

const OURS = 0x1111n
const [MINE, THEIRS] = [Buffer.from('mine'), Buffer.from('theirs')]

const open: (() => Promise<void> | void)[] = []
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close()
})

/** A card, and a client whose answers are lost while it is deaf. */
class Room {
  readonly network = new Network({ seed: 11 })
  readonly capture = new PcapWriter()
  card!: EmulatedDpu
  dpu!: Dpu
  deaf = false
  /** Its records get a key that is none. */
  spoilt = false
  private others = 0

  static async open(): Promise<Room> {
    const room = new Room()
    const { clock } = room.network
    room.card = await room.network.addDpu(2)
    clock.start()
    open.push(() => clock.stop())
    const wire = room.network.addHost()
    const half: Wire = {
      ...wire,
      send: (frame) => wire.send(room.spoilt ? spoil(frame) : frame),
      onFrame: (callback) => wire.onFrame((frame) => void (room.deaf || callback(frame))),
    }
    room.dpu = await room.client(OURS, half, room.capture)
    await room.dpu.format()
    await room.dpu.provision({ name: 'orders', slots: 16, capacity: 64 })
    return room
  }

  async client(clientId: bigint, wire?: Wire, capture?: PcapWriter): Promise<Dpu> {
    const as = { clientId, firstOperation: 1n }
    const options = { peer: endpointOf(2), ...as, seed: Number(clientId) }
    const dpu = await connect(wire ?? this.network.addHost(), {
      ...options,
      ...(capture && { capture }),
    })
    open.push(() => dpu.close())
    return dpu
  }

  /** Another client writes once, and goes. */
  async another(slot: number, bytes: Uint8Array): Promise<void> {
    this.others += 1
    const dpu = await this.client(0x2000n + BigInt(this.others))
    await (await dpu.openRegion('orders')).persist(slot, bytes).persisted
    await dpu.close()
  }

  pass(us: number): Promise<void> {
    const { clock } = this.network
    return new Promise((resolve) => void clock.schedule(clock.nowUs + us, resolve))
  }

  /** What the client and the card said of records, by the capture. */
  said(): string[] {
    const packet = blankPacket()
    return [...readPcap(Buffer.from(this.capture.bytes()))].flatMap(({ frame }) => {
      checkPacket(packet, frame, 0, frame.length)
      const { row } = packet
      return row !== null && has(row.properties, PERSIST) ? [printPacket(packet, frame)] : []
    })
  }

  forgetByDecay(): Promise<void> {
    return forgetByDecay(this.card)
  }
}

/** The frame, with another key if it brings a record. */
function spoil(frame: Uint8Array): Uint8Array {
  const packet = blankPacket()
  checkPacket(packet, frame, 0, frame.length)
  const { row, bthAt } = packet
  if (row === null || row.pwethAt === 0) return frame
  const bytes = frame.slice()
  bytes[bthAt + row.rethAt + RETH_RKEY]! ^= 0x40
  return seal(bytes)
}

/** Both lines of our operations decay while the card is off. */
async function forgetByDecay(card: EmulatedDpu): Promise<void> {
  const { nvdimm } = card
  card.powerCut({ strategy: 'all' })
  for (let line = 0; line < 2 * CLIENTS; line++) {
    const at = OPERATIONS_AT + line * LINE_BYTES
    if (u32(nvdimm.durable, at + 24) === Number(OURS) * 2 ** 16) nvdimm.poison(at / LINE_BYTES)
  }
  await card.powerOn()
}

/** Our record of slot 0 is durable, and we did not hear of it. */
async function unheard(room: Room) {
  const region = await room.dpu.openRegion('orders')
  room.deaf = true
  const { persisted } = region.persist(0, MINE)
  const end = persisted.then(
    (receipt) => receipt,
    (error: unknown) => error,
  )
  await room.pass(1000)
  return { region, end }
}

async function held(room: Room): Promise<string> {
  const region = await room.dpu.openRegion('orders')
  return Buffer.from((await region.read(0)).data).toString()
}

async function expectUnknown(room: Room, end: Promise<unknown>): Promise<void> {
  const error = await end
  expect(error).toBeInstanceOf(OutcomeUnknown)
  expect(String(error)).toMatch(/forgotten/)
  const { cause } = error as Error
  expect(cause).toBeInstanceOf(RefusedError)
  expect(cause).toMatchObject({ fault: 'OPERATION_FORGOTTEN', status: 0x98 })
  expect(await held(room)).toBe('theirs')
  const said = room.said()
  expect(said.filter((line) => / op 1 .*repetition/.test(line))).toHaveLength(1)
  expect(said.filter((line) => /OPERATION_FORGOTTEN .*op 1 /.test(line))).toHaveLength(1)
  // The client goes on with its next record.
  const region = await room.dpu.openRegion('orders')
  await region.persist(0, Buffer.from('later')).persisted
  expect(await held(room)).toBe('later')
}

describe('a record whose answer was lost, outside batches', () => {
  test('R1-C6: both lines of its client decayed: not known, and not written again', async () => {
    const room = await Room.open()
    const { end } = await unheard(room)
    await room.another(0, THEIRS)
    await room.forgetByDecay()
    room.deaf = false
    await expectUnknown(room, end)
  })

  test('R1-C7: its client made way for others: likewise', async () => {
    const room = await Room.open()
    const { end } = await unheard(room)
    await room.another(0, THEIRS)
    for (let i = 0; i < CLIENTS; i++) await room.another(1 + (i % 15), THEIRS)
    // Its connection, which remembers the record as long as it is there, breaks.
    await room.pass(5_000_000)
    room.deaf = false
    await expectUnknown(room, end)
  })

  test('R1-C6: it is known still: durable, though another has written there since', async () => {
    const room = await Room.open()
    const { end } = await unheard(room)
    await room.another(0, THEIRS)
    room.card.powerCut({ strategy: 'all' })
    await room.card.powerOn()
    room.deaf = false
    expect(await end).toMatchObject({ slot: 0, operationId: 1n })
    expect(await held(room)).toBe('theirs')
  })

  test('R1-C6: nor is it known where what is sent again has no right any more', async () => {
    const room = await Room.open()
    const { end } = await unheard(room)
    await room.another(0, THEIRS)
    await room.forgetByDecay()
    room.spoilt = true
    room.deaf = false
    const error = await end
    expect(error).toBeInstanceOf(OutcomeUnknown)
    expect((error as Error).cause).toMatchObject({ status: 'REM_ACCESS_ERR' })
    room.spoilt = false
    expect(await held(room)).toBe('theirs')
  })

  test.each(['independent', 'inOrder'] as const)('likewise of a batch, %s', async (condition) => {
    const room = await Room.open()
    const region = await room.dpu.openRegion('orders')
    room.deaf = true
    const batch = region.batch({ condition })
    for (const slot of [0, 1]) batch.persist(slot, MINE)
    const outcome = batch.commit()
    await room.pass(1000)
    for (const slot of [0, 1]) await room.another(slot, THEIRS)
    await room.forgetByDecay()
    room.spoilt = true
    room.deaf = false
    // What stands behind it, independent, is asked for again, and meets the same end.
    expect((await outcome).records).toMatchObject([{ status: 'unknown' }, { status: 'unknown' }])
    room.spoilt = false
    expect(await held(room)).toBe('theirs')
  })

  test('R1-C6: forgotten, but nobody wrote there: the slot says that it is durable', async () => {
    const room = await Room.open()
    const { end } = await unheard(room)
    await room.another(3, THEIRS)
    await room.forgetByDecay()
    room.deaf = false
    expect(await end).toMatchObject({ slot: 0, operationId: 1n })
    expect(await held(room)).toBe('mine')
  })
})

test('R1-C6: likewise in a region that another DPU has, whose slots are not read', async () => {
  const room = await Room.open()
  const far = await room.network.addDpu(3)
  const theirs = await connect(room.network.addHost(), { peer: endpointOf(3) })
  open.push(() => theirs.close())
  await theirs.format()
  const region = await theirs.provision({ name: 'far', slots: 16, capacity: 64 })
  const publication = { name: 'far', port: 7471, form: 'capability' } as const
  await theirs.publish(publication)
  const relay = await room.dpu.attach({ name: 'far', address: '10.0.0.3', port: 7471 })
  room.deaf = true
  const { persisted } = relay.persist(0, MINE)
  await room.pass(2000)
  expect(Buffer.from((await region.read(0)).data)).toEqual(MINE)
  await region.persist(0, THEIRS).persisted
  // Both lose their power, and the other one what it knew of our client.
  room.card.powerCut({ strategy: 'all' })
  await forgetByDecay(far)
  await theirs.reconnect()
  await theirs.publish(publication)
  await room.card.powerOn()
  room.deaf = false
  await expect(persisted).rejects.toBeInstanceOf(OutcomeUnknown)
  expect(Buffer.from((await region.read(0)).data)).toEqual(THEIRS)
})
