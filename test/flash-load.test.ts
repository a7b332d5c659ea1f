/**
 * Flashes under load, with the power going at drawn requests: nothing is lost, torn or done twice.
 *
 * Suspected, so looked at: card and firmware change while requests wait; a cut starts a trial, or
 * ends one, that nobody has asked for.
 */

import type { ChildProcess } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Random } from '../boards/emulator/random.ts'
import { readImage } from '../boards/flash/mcuboot.ts'
import { openLine } from '../host-driver/commands/line.ts'
import { FlashTarget, type Slot } from '../host-driver/flash/card.ts'
import { SmpClient, SmpRefusal } from '../host-driver/flash/smp-client.ts'
import { linePort } from '../host-driver/flash/smp-port.ts'
import { type BytesRegion, connect, type Region } from '../host-driver/index.ts'
import { emulateIn, runIn, stop } from './support/command.ts'
import { THOROUGH } from './support/thorough.ts'

const SEED = Number(process.env.SEED ?? 33)
const QUICK_FLASHES = 5
const FLASHES = 200
const WORKERS = 4
const SLOTS = 16
const BYTES = 256
/** Requests of a flash, or so: the cut comes at one of them. */
const REQUESTS = 45
/** Three, so that each one is uploaded: the other slot holds the one before. */
const VERSIONS: readonly string[] = ['1.0.0', '2.0.0', '3.0.0']
const PACKET_BYTES = 4096

const folder = mkdtempSync(join(tmpdir(), 'pl-'))
const socket = join(folder, 'p')
const files: Uint8Array[] = []
let card: ChildProcess
let address = ''

beforeAll(async () => {
  const made = async (line: string): Promise<void> => {
    const { code, stderr } = await runIn(folder, line.split(' '))
    expect(code, stderr).toBe(0)
  }
  await made('image keygen key.pem')
  for (const name of VERSIONS) {
    await made(
      `image create --board emulator --signing-key key.pem --image-version ${name} --out ${name}`,
    )
    files.push(new Uint8Array(readFileSync(join(folder, name))))
  }
  const line = `part --create --size 1M --region notes:${SLOTS}:${BYTES} --udp 127.0.0.1:0`
  const [child, told] = await emulateIn(folder, 2, [
    ...line.split(' '),
    ...['--smp', 'unix:p', '--trust', 'key.pub.pem'],
  ])
  card = child
  address = told[0]!
})

afterAll(async () => {
  await stop(card)
  rmSync(folder, { recursive: true })
})

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

/** The card as the command sees it; `cutAt` takes its power at that request, and gives it back. */
async function withCard(cutAt: number, use: (card: FlashTarget) => Promise<void>): Promise<void> {
  const port = linePort(await openLine(`unix:${socket}`, 0, ''))
  let requests = 0
  const send = port.send
  port.send = (packet) => {
    send(packet)
    if (requests++ === cutAt) card.kill('SIGUSR2')
  }
  const client = new SmpClient(port, 'the card', 5000)
  try {
    await use(new FlashTarget(client, PACKET_BYTES))
  } finally {
    client.close()
  }
}

const versionIn = (slots: readonly Slot[]): string | undefined =>
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
async function flash(target: FlashTarget, file: Uint8Array): Promise<void> {
  await target.upload(file, () => {})
  await target.test(readImage(file).hash)
  await target.reset()
  await settled(target)
  await target.confirm()
}

/** Whatever a cut has left, until nothing is on trial or marked. */
async function rests(target: FlashTarget): Promise<void> {
  if ((await target.list()).some(({ pending }) => pending)) await target.reset()
  const slots = await settled(target)
  if (slots.some(({ active, confirmed }) => active && !confirmed)) await target.confirm()
}

async function play(count: number): Promise<void> {
  const random = new Random(SEED)
  await using dpu = await connect(address, { warn: () => {} })
  const region = await dpu.openRegion('notes')
  const name = `sum-${count}`
  await dpu.provisionBytes({ name, length: 64, writePersist: true })
  const bytes = await dpu.openBytes(name)
  const load = new Load(region, bytes)
  for (let turn = 0; turn < count; turn++) {
    const [file, version] = [files[turn % 3]!, VERSIONS[turn % 3]!]
    const before = VERSIONS[(turn + 2) % 3]!
    const cutAt = random.below(REQUESTS)
    const seen = `seed ${SEED}, turn ${turn}, cut at request ${cutAt}`
    await withCard(cutAt, (target) =>
      flash(target, file).catch((error: unknown) => {
        // A start that nobody asked for has changed the slots.
        if (!(error instanceof SmpRefusal)) throw error
      }),
    )
    await withCard(-1, async (target) => {
      await rests(target)
      if (versionIn(await target.list()) === version) return
      expect([before, undefined], seen).toContain(versionIn(await target.list()))
      await flash(target, file)
      expect(versionIn(await target.list()), seen).toBe(version)
    })
  }
  await load.end()
  for (const [slot, version] of load.versions.entries()) {
    expect((await region.read(slot)).data, `seed ${SEED}, slot ${slot}`).toEqual(
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

test('some flashes under load, each with a cut: nothing lost, torn or twice', async () => {
  await play(QUICK_FLASHES)
})

test('many of them', THOROUGH, async () => {
  await play(FLASHES)
})
