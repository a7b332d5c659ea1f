/**
 * One side of a port in a file, in a process of its own: does what it is asked by messages.
 *
 * Invariant: a message names a function of the side that the first argument names; each is
 * answered by one message, and what happens by itself is told by messages without a number.
 */

import { RealClock } from '../../../boards/clock.ts'
import { FilePortEnd } from '../../../boards/emulator/host/file-port-end.ts'
import { PORT_AT, PORT_LINK } from '../../../firmware/board/hal.ts'
import { MEMORY_BYTES } from '../../../firmware/board/memory-map.ts'
import { WRITE_PERSIST } from '../../../firmware/transport/requester.ts'
import { PcieDevice } from '../../../host-driver/card/device.ts'
import { type FilePort, openFilePort } from '../../../host-driver/card/file-port.ts'

export interface Asked {
  readonly id: number
  readonly call: string
  readonly args: readonly number[]
}

export interface Answered {
  readonly id?: number
  readonly result?: unknown
  readonly error?: { readonly name: string; readonly code: string; readonly message: string }
  readonly event?: string
}

type Calls = Readonly<Record<string, (...args: number[]) => unknown>>

const [side, path, bytes] = process.argv.slice(2) as [string, string, string]

function tell(answer: Answered): void {
  process.send!(answer)
}

/** An element of the test's own: its number in the first word and in the last. */
const ELEMENTS = 64
const RING_AT = 8192
const POINTER_AT = 4096
const LINK = PORT_LINK - PORT_AT

async function hostCalls(): Promise<Calls> {
  const port: FilePort = await openFilePort({ path, bytes: Number(bytes) })
  port.onInterrupt(() => tell({ event: 'interrupt' }))
  const { memory } = port
  const element = new Uint32Array(16)
  return {
    load: (at, length) => [...memory.load(at, length)],
    storeWord: (at, value) => memory.storeWord(at, value),
    storePair: (at, low, high) => memory.storePair(at, low, high),
    writeRegister: (at, value) => port.writeRegister(at, value),
    writeRegisterPair: (at, low, high) => port.writeRegisterPair(at, low, high),
    ringDoorbell: (low, high) => port.ringDoorbell(low, high),
    readRegister: (at) => port.readRegister(at),
    /** So many posts, as fast as can be: the element, the pointer, the doorbell. */
    post: (count) => {
      for (let i = 1; i <= count; i++) {
        element.fill(i)
        memory.store(RING_AT + (i % ELEMENTS) * 64, new Uint8Array(element.buffer))
        memory.storePair(POINTER_AT, i, i)
        port.ringDoorbell(3, i)
      }
    },
    close: () => port.close(),
  }
}

function cardCalls(): Calls {
  const clock = new RealClock()
  const card = new FilePortEnd({ path, bytes: Number(bytes), clock })
  const packets = new Uint8Array(MEMORY_BYTES)
  const words = new DataView(packets.buffer)
  const start = (): void => {
    packets.fill(0)
    card.cardStarts(packets)
    card.cardServes(() => {})
  }
  start()
  return {
    start,
    stop: () => card.cardStops(),
    word: (at) => words.getUint32(at, true),
    setWord: (at, value) => words.setUint32(at, value, true),
    dmaWrite: (at, value) => card.memory.dmaWrite(at, Uint8Array.of(value, 0, 0, 0), 0, 4),
    remove: () => card.memory.link.remove(),
    restore: () => card.memory.link.restore(),
    close: () => {
      card.close()
      clock.close()
    },
  }
}

/** The driver of the queues, with a region of its own and a queue pair to it. */
async function driverCalls(): Promise<Calls> {
  const port = await openFilePort({ path, bytes: Number(bytes) })
  while (port.readRegister(LINK) !== 1) await new Promise((resolve) => setTimeout(resolve, 1))
  const device = await PcieDevice.open(port, { seed: 9 })
  const { management } = device
  await management.format(new Uint8Array(16).fill(7))
  const region = await management.provision({ name: 'r', slots: 64, capacity: 1024 }, 0)
  const sendCq = await device.createCq({ entries: 512 })
  sendCq.dispatch(() => {})
  const pair = await device.createQp({ type: 'local', sendCq, clientId: 77n })
  let operation = 0
  const persist = (): Promise<string> =>
    new Promise((resolve) => {
      const address = BigInt(operation % 64) << 32n
      const data = new Uint8Array(600).fill(operation++)
      const work = { data, rkey: region.rkey, address, operation: BigInt(operation), wait: 2 }
      pair.post({ kind: WRITE_PERSIST, ...work, done: ({ status }) => resolve(status) })
    })
  return {
    /** So many records, `depth` at a time, or until one fails; how they ended, each once. */
    persist: async (count, depth) => {
      const ends = new Set<string>()
      const isWell = (): boolean => [...ends].every((end) => end === 'SUCCESS')
      for (let i = 0; i < count! && isWell(); i += depth!) {
        const some = Array.from({ length: depth! }, () => persist().catch((error) => error.code))
        for (const end of await Promise.all(some)) ends.add(end)
      }
      return [...ends].sort()
    },
    close: () => {
      device.close()
      port.close()
    },
  }
}

const SIDES = { host: hostCalls, card: async () => cardCalls(), driver: driverCalls }

async function main(): Promise<void> {
  const calls = await SIDES[side as keyof typeof SIDES]()
  process.on('message', async ({ id, call, args }: Asked) => {
    try {
      tell({ id, result: (await calls[call]!(...args)) ?? null })
    } catch (error) {
      const { name, code, message } = error as { name: string; code: string; message: string }
      tell({ id, error: { name, code, message } })
    }
    if (call === 'close') process.disconnect()
  })
  tell({ event: 'ready' })
}

main().catch((error: unknown) => {
  const { name, code, message } = error as { name: string; code: string; message: string }
  tell({ event: 'failed', error: { name, code, message } })
  process.disconnect()
})
