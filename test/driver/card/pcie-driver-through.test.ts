/** Records in two steps as jobs: into the memory of another host, through its caches (flow 2). */

import { expect, test } from 'vitest'
import { DDIO_ON } from '../../../boards/emulator/index.ts'
import { connect } from '../../../host-driver/index.ts'
import { MachineRoom, openDevice, registerMemory } from '../../support/peers/hosts.ts'
import { endpointOf } from '../../support/peers/network.ts'

test('P2-21, P2-24: received by the send, durable by a receive, each record once', async () => {
  const room = new MachineRoom({ seed: 11 })
  const near = await room.addMachine(3)
  const far = await room.addMachine(2, { platform: DDIO_ON, persistentBytes: 1 << 19 })
  room.clock.start()
  const farDevice = await openDevice(far)
  await farDevice.management.format(new Uint8Array(16).fill(3))
  await registerMemory(far, farDevice)
  const device = await openDevice(near)
  const dpu = await connect(device, { peer: endpointOf(2), seed: 3 })
  const region = await dpu.provision({
    ...{ name: 'far', slots: 32, capacity: 600, placement: 'through' },
  })
  const steps: string[] = []
  const writes = Array.from({ length: 40 }, (_, i) => {
    const write = region.persist(i % 32, new Uint8Array(1 + i * 14).fill(i))
    void write.received.then(() => steps.push(`received ${i}`))
    void write.persisted.then(() => steps.push(`durable ${i}`))
    return write
  })
  for (const { persisted } of writes) {
    expect(await persisted).toMatchObject({ mechanism: 'cpuFlush', copies: 2, of: 2 })
  }
  expect(steps.length).toBe(80)
  for (let i = 0; i < 40; i++) {
    expect(steps.indexOf(`received ${i}`)).toBeLessThan(steps.indexOf(`durable ${i}`))
  }
  // Some were received while others were not yet durable: two steps, and not one.
  const firstDurable = steps.findIndex((step) => step.startsWith('durable'))
  expect(firstDurable).toBeGreaterThan(1)
  for (let i = 32; i < 40; i++) {
    expect((await region.read(i - 32)).data).toEqual(new Uint8Array(1 + i * 14).fill(i))
  }
  await dpu.close()
  device.close()
  farDevice.close()
  room.clock.stop()
})
