/**
 * Places for connections are few. Who takes many costs himself, or those that do nothing; a client
 * that is served stays served, and who comes finds a place.
 */

import { afterEach, expect, test } from 'vitest'
import { CM_REP, CM_RTU } from '../../../firmware/wire/cm.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { connectTarget } from '../../../host-driver/index.ts'
import { sentAs } from '../../support/attacks/address.ts'
import {
  type Arena,
  type Client,
  NOTES,
  onEveryBoard,
  record,
  someone,
} from '../../support/attacks/arena.ts'
import { cmClient, cmConnect, cmRequest } from '../../support/attacks/cm-station.ts'
import type { Station } from '../../support/attacks/station.ts'
import { PATIENT } from '../../support/run/patience.ts'
import { idsFrame, messagesOf, repOf } from '../../support/wire/cm.ts'
import { hexOf } from '../../support/wire/frames.ts'

/** More than there are places. */
const CONNECTIONS = 300
/** REQs of as many machines. */
const REQUESTS = 2000

let ports = 7400

/** A client with a record, which is served now. */
async function served(arena: Arena): Promise<Client> {
  const client = await arena.client()
  const acks = await client.station.persist(client.qp, client.notes, 3, record(3))
  expect(acks).toMatchObject([{ status: 0 }])
  return client
}

/** That client is served still, over the same queue pair. */
async function stays({ station, qp, notes }: Client): Promise<void> {
  const content = await station.read(qp, notes, 3, 64)
  expect(content === null ? 'nothing' : hexOf(content)).toBe(hexOf(record(3)))
}

/** A new machine, a driver and a client of RDMA-CM find a place. */
async function othersFind(arena: Arena, port: number): Promise<void> {
  await stays(await served(arena))
  await arena.rig.use(async (dpu) => {
    const notes = await dpu.openRegion(NOTES.name)
    expect(hexOf((await notes.read(3)).data)).toBe(hexOf(record(3)))
  })
  const target = await connectTarget(arena.target, { ...PATIENT, port, capability: false })
  try {
    await target.memory.write(0, record(9))
    await target.memory.flush(0, 64)
  } finally {
    await target.close()
  }
}

/** A port of plain bytes. */
async function published(station: Station): Promise<number> {
  await station.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 4096 })
  ports += 1
  expect((await station.publish('bytes', ports)).fault).toBe('PASS')
  return ports
}

onEveryBoard((arena) => {
  // The next test begins with a board whose places are free.
  afterEach(async () => {
    arena().close()
    await arena().rig.restart('kill')
  })

  test('R1-S6: one machine does not take every queue pair, though it uses each', async () => {
    const victim = await served(arena())
    const port = await published(victim.station)
    const eve = await arena().station()
    await eve.connect()
    const notes = await eve.region(NOTES.name)
    for (let i = 0; i < CONNECTIONS; i++) {
      const { fault, qp } = await eve.tryConnect()
      if (fault === 'PASS') await eve.read(qp, notes, 3, 1)
    }
    await stays(victim)
    await othersFind(arena(), port)
  })

  test('R1-S6: nor by RDMA-CM, each connection confirmed', async () => {
    const victim = await served(arena())
    const port = await published(victim.station)
    const eve = await arena().station()
    for (let i = 0; i < CONNECTIONS; i++) {
      const client = cmClient(eve)
      const sent = await eve.ask([cmRequest(client, port, eve.address)])
      const replies = messagesOf(sent).filter(({ attribute }) => attribute === CM_REP)
      if (replies.length === 1) await eve.ask([idsFrame(client, CM_RTU, repOf(sent).localId)])
    }
    await stays(victim)
    await othersFind(arena(), port)
  })

  test(`R1-S6: ${REQUESTS} REQs of as many machines keep nobody out`, async () => {
    const victim = await served(arena())
    const port = await published(victim.station)
    const eve = await arena().station()
    await eve.flood(requests(eve, port))
    await stays(victim)
    await othersFind(arena(), port)
  })

  test('R1-S6: nor do CONNECTs of as many machines that nobody uses', async () => {
    const victim = await served(arena())
    const port = await published(victim.station)
    const eve = await arena().station()
    for (let i = 0; i < 2 * CONNECTIONS; i++) await eve.tryConnect({}, someone())
    await stays(victim)
    await othersFind(arena(), port)
    // Who connects by RDMA-CM and waits is served, too.
    const late = await arena().station()
    expect((await cmConnect(late, port)).qp.number).toBeGreaterThan(0)
  })
})

/** A REQ of each of so many machines. */
function* requests(eve: Station, port: number): Generator<Uint8Array> {
  for (let i = 0; i < REQUESTS; i++) {
    const source = someone()
    yield sentAs(cmRequest(cmClient(eve), port, source), source)
  }
}
