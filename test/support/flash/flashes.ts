/**
 * Flashes under load, with something that ends the card at drawn requests: nothing is lost, torn or
 * done twice, and the card always comes back with a firmware that was confirmed.
 */

import { setTimeout } from 'node:timers/promises'
import { expect } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { readImage } from '../../../boards/flash/mcuboot.ts'
import { openLine } from '../../../host-driver/command/base/line.ts'
import { FlashTarget, type Slot } from '../../../host-driver/flash/card.ts'
import { SmpClient, SmpRefusal } from '../../../host-driver/flash/smp-client.ts'
import { linePort } from '../../../host-driver/flash/smp-port.ts'
import {
  type BytesRegion,
  type ConnectOptions,
  connect,
  PerdureError,
  type Region,
} from '../../../host-driver/index.ts'

/** The region that the records lie in. */
export const LOAD = { name: 'notes', slots: 16, capacity: 256 } as const
const WORKERS = 4
const SLOTS: number = LOAD.slots
const BYTES: number = LOAD.capacity
/** Requests of a flash, or so: the cut comes at one of them. */
const REQUESTS = 45
const PACKET_BYTES = 4096

/** A card that is flashed, and ended. */
export interface FlashedCard {
  /** Where the driver reaches it, and the Unix socket of its SMP. */
  readonly address: string
  readonly socket: string
  /** How a client connects. */
  readonly connect?: ConnectOptions
  /** Three images and their versions: each is uploaded, for the other slot has the one before. */
  readonly files: readonly Uint8Array[]
  readonly versions: readonly string[]
  /** Ends the card, or what runs on it, as a cut of its power does; it comes back by itself. */
  cut(): void
  /** Resolves when its SMP is there again. */
  back?(): Promise<void>
}

/** The record of a slot in that version: any two differ in every byte, near enough. */
function recordOf(slot: number, version: number): Uint8Array {
  const data = new Uint8Array(BYTES).fill((slot * 31 + version * 7) & 0xff)
  new DataView(data.buffer).setUint32(0, version)
  return data
}

/** Writers, until they are told to end, each of slots of its own: at least once of every one. */
class Load {
  readonly versions: number[] = new Array<number>(SLOTS).fill(0)
  added = 0
  /** Additions whose outcome nobody was told. */
  unknown = 0
  private isOver = false
  private readonly region: Region
  private readonly bytes: BytesRegion
  private readonly workers: Promise<void>[]

  constructor(region: Region, bytes: BytesRegion) {
    this.region = region
    this.bytes = bytes
    this.workers = Array.from({ length: WORKERS }, (_, i) => this.writes(i))
    this.workers.push(this.adds())
    for (const one of this.workers) one.catch(() => {})
  }

  private async writes(worker: number): Promise<void> {
    for (let turn = 0; !this.isOver || turn < SLOTS / WORKERS; turn++) {
      const slot = worker + WORKERS * (turn % (SLOTS / WORKERS))
      const version = this.versions[slot]! + 1
      await this.region.persist(slot, recordOf(slot, version)).persisted
      this.versions[slot] = version
    }
  }

  private async adds(): Promise<void> {
    while (!this.isOver || this.added === 0) {
      try {
        await this.bytes.fetchAdd(0, 1n)
        this.added++
      } catch {
        this.unknown++
        await setTimeout(1)
      }
    }
  }

  /** Rejects where a writer was refused. */
  async end(): Promise<void> {
    this.isOver = true
    await Promise.all(this.workers)
  }
}

/** The card as the command sees it; it is ended at request `cutAt`. */
export async function withCard<T>(
  { socket, cut }: Pick<FlashedCard, 'socket' | 'cut'>,
  cutAt: number,
  use: (card: FlashTarget) => Promise<T>,
): Promise<T> {
  const port = linePort(await openLine(`unix:${socket}`, 0, ''))
  let requests = 0
  const send = port.send
  port.send = (packet) => {
    send(packet)
    if (requests++ === cutAt) cut()
  }
  const client = new SmpClient(port, 'the card', 5000)
  try {
    return await use(new FlashTarget(client, PACKET_BYTES))
  } finally {
    client.close()
  }
}

export const versionIn = (slots: readonly Slot[]): string | undefined =>
  slots.find(({ active }) => active)?.version

/** Waits until what is marked is started, and what is started is tested. */
async function settled(target: FlashTarget): Promise<readonly Slot[]> {
  for (;;) {
    const slots = await target.list()
    const about = await target.about()
    if (!slots.some(({ pending }) => pending) && about?.tested === true) return slots
    await setTimeout(5)
  }
}

/** Uploads, marks, resets and confirms. */
export async function flash(target: FlashTarget, file: Uint8Array): Promise<void> {
  await target.upload(file, () => {})
  await target.test(readImage(file).hash)
  await target.reset()
  await settled(target)
  await target.confirm()
}

/** Whatever a cut has left, until nothing is on trial or marked. */
export async function rests(target: FlashTarget): Promise<void> {
  if ((await target.list()).some(({ pending }) => pending)) await target.reset()
  const slots = await settled(target)
  if (slots.some(({ active, confirmed }) => active && !confirmed)) await target.confirm()
}

export const isGone = (error: unknown): boolean => {
  return error instanceof PerdureError && error.code === 'PERDURE_UNREACHABLE'
}

/** Plays so many flashes; the card has the region of LOAD, and runs whatever it runs. */
export async function playFlashes(card: FlashedCard, count: number, seed: number): Promise<void> {
  const { files, versions } = card
  const random = new Random(seed)
  await using dpu = await connect(card.address, { warn: () => {}, ...card.connect })
  const region = await dpu.openRegion('notes')
  const name = `sum-${count}`
  await dpu.provisionBytes({ name, length: 64, writePersist: true })
  const bytes = await dpu.openBytes(name)
  const load = new Load(region, bytes)
  const runs = await withCard(card, -1, async (target) => versionIn(await target.list()))
  const first = runs === undefined ? 0 : versions.indexOf(runs) + 1
  for (let turn = 0; turn < count; turn++) {
    const next = (first + turn) % 3
    const [file, version] = [files[next]!, versions[next]!]
    const before = versions[(next + 2) % 3]!
    const cutAt = random.below(REQUESTS)
    const seen = `seed ${seed}, turn ${turn}, cut at request ${cutAt}`
    await withCard(card, cutAt, (target) =>
      flash(target, file).catch((error: unknown) => {
        // A start that nobody asked for has changed the slots, or the line has ended.
        if (!(error instanceof SmpRefusal) && !isGone(error)) throw error
      }),
    )
    await card.back?.()
    await withCard(card, -1, async (target) => {
      await rests(target)
      if (versionIn(await target.list()) === version) return
      expect([before, undefined], seen).toContain(versionIn(await target.list()))
      await flash(target, file)
      expect(versionIn(await target.list()), seen).toBe(version)
    })
  }
  await load.end()
  for (const [slot, version] of load.versions.entries()) {
    expect((await region.read(slot)).data, `seed ${seed}, slot ${slot}`).toEqual(
      recordOf(slot, version),
    )
    expect(version).toBeGreaterThan(0)
  }
  const data = await bytes.read(0, 8)
  const sum = Number(new DataView(data.buffer, data.byteOffset).getBigUint64(0, true))
  expect(sum).toBeGreaterThanOrEqual(load.added)
  expect(sum).toBeLessThanOrEqual(load.added + load.unknown)
  expect(load.added).toBeGreaterThan(0)
}
