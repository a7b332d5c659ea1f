import { expect, test } from 'vitest'
import { Nvdimm } from '../../../../boards/emulator/medium/nvdimm.ts'
import { FirmwareStopped } from '../../../../boards/emulator/run/engine.ts'
import { bootGuest, type Guest } from '../../../../boards/emulator/run/guest.ts'
import { EmulatedMachine } from '../../../../boards/emulator/run/machine.ts'
import {
  COMMANDS_AT,
  COPY_CLEAN,
  type Facts,
  FENCE,
  NVDIMM_SPACE,
  PRIVATE_AT,
} from '../../../../firmware/board/hal.ts'

const FACTS: Facts = {
  board: 'emulator',
  nvdimmBytes: 4096,
  hostBytes: 0,
  dmaBytes: 0,
  strictIcrc: false,
  dirtyShutdowns: 0,
  mac: [2, 0, 0, 0, 0, 2],
  ipv4: [10, 0, 0, 2],
  ipv6: new Array(16).fill(0),
  pathMtu: 4096,
  entropy: [1, 2, 3, 4, 5, 6, 7, 8],
}

/** A firmware of a few lines: `serve` and `idle` are the bodies of functions. */
async function boot(serve: string, idle = 'return 0', interruptsMax = 100): Promise<Guest> {
  const source = `var perdure = { start(machine) {
    const words = new Float64Array(machine.memory, ${COMMANDS_AT})
    const bytes = new Uint8Array(machine.memory)
    const kept = []
    return { serve(count, now) { ${serve} }, idle(now) { ${idle} } }
  } }`
  return await bootGuest({
    source,
    interruptsMax,
    machineFor: (packets) => {
      const nvdimm = new Nvdimm({ bytes: 4096 })
      return new EmulatedMachine({ facts: FACTS, nvdimm, packets, transmit: () => {} })
    },
  })
}

async function stopOf(serve: string): Promise<FirmwareStopped> {
  const guest = await boot(serve)
  let stopped: unknown = null
  try {
    guest.serve(1, 0)
  } catch (error) {
    stopped = error
  }
  expect(stopped).toBeInstanceOf(FirmwareStopped)
  expect(() => guest.idle(0)).toThrow(FirmwareStopped)
  guest.dispose()
  return stopped as FirmwareStopped
}

test('packet memory is the same memory on both sides, and starts as zeros', async () => {
  const guest = await boot('bytes[count] = now; return bytes[9]')
  expect(guest.packets.subarray(COMMANDS_AT).every((byte) => byte === 0)).toBe(true)
  guest.packets[9] = 77
  expect(guest.serve(5, 123)).toBe(77)
  expect(guest.packets[5]).toBe(123)
  guest.dispose()
})

test('a command list that the guest writes is executed by the machine', async () => {
  const guest = await boot(`
    bytes[${PRIVATE_AT}] = 42
    words.set([${COPY_CLEAN}, ${PRIVATE_AT}, ${NVDIMM_SPACE + 64}, 8], 0)
    words.set([${FENCE}, 0, 0, 0], 8)
    return machine.run(2)`)
  expect(guest.serve(1, 0)).toBe(2)
  expect(guest.machine.nvdimm.durable[64]).toBe(42)
  guest.dispose()
})

test('the facts of the board arrive as they are', async () => {
  const guest = await boot('return 0', 'return machine.facts.entropy[7] + machine.facts.mac[0]')
  expect(guest.idle(0)).toBe(10)
  guest.dispose()
})

test('the guest has no clock, no randomness, no proxies and nothing of Node', async () => {
  const names = ['Date', 'Proxy', 'console', 'setTimeout', 'process', 'require', 'Atomics']
  const guest = await boot(
    `return [Math.random, ${names.map((name) => `globalThis.${name}`).join()}]
      .filter((value) => value !== undefined).length`,
  )
  expect(guest.serve(0, 0)).toBe(0)
  guest.dispose()
})

test('a guest that throws is stopped, with the stack as it saw it', async () => {
  const stopped = await stopOf('null.x')
  expect(stopped.reason).toBe('threw')
  expect(stopped.guestStack).toContain('serve (firmware.js:5')
})

test('a guest that does not come back is stopped', async () => {
  expect((await stopOf('for (;;) {}')).reason).toBe('hung')
})

test('a guest that recurses without end is stopped', async () => {
  expect((await stopOf('const f = () => f() + 1; f()')).reason).toBe('stack')
})

test('a guest that runs out of memory is stopped, and the next one is as good as new', async () => {
  const stopped = await stopOf('for (;;) kept.push(new ArrayBuffer(65536))')
  expect(stopped.reason).toBe('memory')
  const next = await boot('return 7')
  expect(next.serve(0, 0)).toBe(7)
  next.dispose()
})

test('a bundle that is not the firmware is refused', async () => {
  const machineFor = (packets: Uint8Array): EmulatedMachine => {
    const nvdimm = new Nvdimm({ bytes: 4096 })
    return new EmulatedMachine({ facts: FACTS, nvdimm, packets, transmit: () => {} })
  }
  for (const source of ['', 'var perdure = { start() { return {} } }']) {
    await expect(bootGuest({ source, machineFor })).rejects.toMatchObject({
      code: 'FIRMWARE_STOPPED',
      reason: 'bundle',
    })
  }
})

test('an error of a test that watches the machine comes out as itself', async () => {
  const guest = await boot('words[0] = 4; return machine.run(1)')
  guest.machine.observe({
    onCommand: () => {
      throw new RangeError('seen')
    },
  })
  expect(() => guest.serve(0, 0)).toThrow(RangeError)
  guest.dispose()
})

test('a hundred thousand calls leave the memory of the guest level', async () => {
  const guest = await boot('words[0] = 9; return machine.run(1)')
  for (let i = 0; i < 1000; i++) guest.serve(1, i)
  const before = guest.memoryUsed()
  for (let i = 0; i < 100_000; i++) guest.serve(1, i)
  expect(guest.memoryUsed() / before).toBeLessThan(1.01)
  guest.dispose()
})
