/** A connection that is made again ends the one before it: it comes from the same place. */

import { expect, test } from 'vitest'
import type { Wire } from '../../../host-driver/base/wire.ts'
import { connect } from '../../../host-driver/connect.ts'
import { localParts, passOn } from '../../support/driver/local-parts.ts'

const openLocal = localParts()

test('a client alone connects again as often as it likes: it has one queue pair', async () => {
  const local = await openLocal()
  const dpu = await connect(local.wire, { seed: 1, warn: () => {} })
  await dpu.format()
  const region = await dpu.provision({ name: 'records', slots: 8, capacity: 64, copies: 2 })
  for (let i = 0; i < 130; i++) {
    await region.persist(i % 8, new Uint8Array(8).fill(i))
    await dpu.reconnect()
  }
  await dpu.close()
})

test('X-3: what an older connection left on the wire changes nothing later', async () => {
  const local = await openLocal()
  const late: Uint8Array[] = []
  let keeps = false
  const wire: Wire = {
    ...local.wire,
    send: (frame) => {
      const isWrite = frame[42] === 0x0a
      if (keeps && isWrite) late.push(Uint8Array.from(frame))
      else local.wire.send(frame)
    },
  }
  const dpu = await connect(wire, { seed: 1, warn: () => {} })
  await dpu.format()
  const bytes = await dpu.provisionBytes({ name: 'bytes', length: 4096 })
  await bytes.write(0, new Uint8Array(8).fill(1))
  keeps = true
  const older = bytes.write(0, new Uint8Array(8).fill(2)).catch(() => {})
  await passOn(local, 1000)
  expect(late.length).toBeGreaterThan(0)
  keeps = false
  await dpu.reconnect()
  await older
  await bytes.write(0, new Uint8Array(8).fill(3))
  for (const frame of late) local.wire.send(frame)
  await passOn(local, 1000)
  expect(await bytes.read(0, 8)).toEqual(new Uint8Array(8).fill(3))
  await dpu.close()
})

test('R1-S4: who has published a port withdraws it, behind a newer connection, too', async () => {
  const local = await openLocal()
  const dpu = await connect(local.wire, { seed: 1, warn: () => {} })
  await dpu.format()
  await dpu.provisionBytes({ name: 'bytes', length: 4096 })
  await dpu.publish({ name: 'bytes', port: 7204, form: 'librpma' })
  await dpu.reconnect()
  await dpu.publish({ name: 'bytes', port: 7204, form: 'announced' })
  await dpu.withdraw(7204)
  await dpu.close()
})
