/**
 * Faults that are ordered of an emulated card while it serves: what its clients see of them is what
 * they would see of a card; and a line that is no order changes nothing.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { orderHelp, orderOf } from '../../../host-driver/command/emulate/orders.ts'
import { connect, type Dpu, RecordLost, type Region } from '../../../host-driver/index.ts'
import { PLAIN } from '../../support/command/command.ts'
import { PATIENT } from '../../support/run/patience.ts'

const COMMAND = join(dirname(fileURLToPath(import.meta.url)), '../../../dist/perdure.js')
const all = mkdtempSync(join(tmpdir(), 'perdure-faults-'))
let folders = 0
const started: ChildProcess[] = []
const open: Dpu[] = []

afterEach(async () => {
  for (const dpu of open.splice(0)) await dpu.close()
  for (const child of started.splice(0)) child.kill('SIGKILL')
})
afterAll(() => rmSync(all, { recursive: true, force: true }))

/** A card in a process of its own, which takes orders. */
class Card {
  private readonly child: ChildProcess
  private readonly told: object[] = []
  private errors = ''

  constructor(...args: string[]) {
    const cwd = join(all, String(folders++))
    mkdirSync(cwd)
    const words = ['emulate', '--size', '1M', '--region', 'orders:16:64', '--udp', '127.0.0.1:0']
    const more = ['--console', '--json', '--seed', '7', ...args]
    this.child = spawn(process.execPath, [COMMAND, ...words, ...more], { cwd, env: PLAIN })
    started.push(this.child)
    createInterface({ input: this.child.stdout! }).on('line', (line) => {
      this.told.push(JSON.parse(line) as object)
    })
    this.child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.errors += text
    })
  }

  order(line: string): void {
    this.child.stdin!.write(`${line}\n`)
  }

  /** The next object that it tells, and has that field. */
  async tells<T>(field: string): Promise<T> {
    for (;;) {
      const at = this.told.findIndex((one) => field in one)
      if (at >= 0) return (this.told.splice(0, at + 1).at(-1) as Record<string, T>)[field]!
      await once(this.child.stdout!, 'data')
    }
  }

  /** Orders it, and waits until it is done; what is said of it. */
  async obeys(line: string): Promise<string> {
    this.order(line)
    return await this.tells<string>('text')
  }

  /** What it says on stderr, as soon as that has these words. */
  async says(words: string): Promise<void> {
    while (!this.errors.includes(words)) await once(this.child.stderr!, 'data')
  }
}

interface Bench {
  readonly card: Card
  readonly dpu: Dpu
  readonly region: Region
}

const bytes = (fill: number): Uint8Array => new Uint8Array(64).fill(fill)

async function bench(...args: string[]): Promise<Bench> {
  const card = new Card(...args)
  const address = await card.tells<string>('address')
  const dpu = await connect(address, { ...PATIENT, warn: () => {} })
  open.push(dpu)
  return { card, dpu, region: await dpu.openRegion('orders') }
}

describe('faults of the medium', () => {
  test('of one copy: the record is read, and mended', async () => {
    const { card, dpu, region } = await bench()
    await region.persist(3, bytes(3)).persisted
    await region.persist(4, bytes(4)).persisted
    expect(await card.obeys('media orders:3')).toBe(
      "copy 0 of record 3 of 'orders' cannot be read any more",
    )
    expect(await card.obeys('ROT orders:4 copy 1')).toBe(
      "copy 1 of record 4 of 'orders' has a bit that has flipped",
    )
    expect((await region.read(3)).data).toEqual(bytes(3))
    expect((await region.read(4)).data).toEqual(bytes(4))
    const found = await dpu.scan('orders')
    expect(found).toMatchObject({ checked: 16, lost: 0 })
    expect(found.repaired + found.repairedBefore).toBe(2)
  })

  test('of every copy: the record is lost, and said to be', async () => {
    const { card, dpu, region } = await bench()
    await region.persist(5, bytes(5)).persisted
    await card.obeys('rot orders:5 every copy')
    await expect(region.read(5)).rejects.toBeInstanceOf(RecordLost)
    expect((await dpu.discard('orders', 5)).readOnly).toBe(false)
    await region.persist(5, bytes(6)).persisted
    expect((await region.read(5)).data).toEqual(bytes(6))
  })

  test('of a copy that takes no store: unsettled until the start behind its healing', async () => {
    const { card, dpu, region } = await bench()
    await region.persist(6, bytes(6)).persisted
    await card.obeys('stuck orders:6 copy 1')
    await region.persist(6, bytes(7)).persisted.catch(() => {})
    expect((await dpu.scan('orders')).lost).toBe(0)
    expect(await card.obeys('heal')).toBe('1 line takes stores again')
    card.order('card reset')
    await card.tells('powerOn')
    await dpu.reconnect()
    expect(await dpu.scan('orders')).toMatchObject({ unsettled: 0, lost: 0 })
    await region.persist(6, bytes(8)).persisted
    expect((await region.read(6)).data).toEqual(bytes(8))
    expect(await card.obeys('heal')).toBe('0 lines take stores again')
  })

  test.each([
    ['media none:1', "there is no region 'none'"],
    ['media orders:16', "record 16 of 'orders': its slots are 0 to 15"],
    ['rot orders:3 copy 2', "copy 2 of 'orders': 0 to 1"],
    ['media port-7:0', "'port-7' has no records in the card's own NVDIMM"],
    ['host off', 'there is no host inside'],
    ['host lose', 'there is no host inside with persistent memory'],
    ['cut record 0', '0: 1 to 2147483648'],
    ['media orders', "'media orders' is no order: 'help' says which there are"],
  ])('%s is refused, and changes nothing', async (line, words) => {
    const { card, region } = await bench('--publish', '4K@7')
    await region.persist(3, bytes(3)).persisted
    card.order(line)
    await card.says(words)
    expect((await region.read(3)).data).toEqual(bytes(3))
  })
})

describe('faults of the power', () => {
  test('without energy nothing is acknowledged, and with it again everything is', async () => {
    const { card, dpu, region } = await bench()
    await card.obeys('energy gone')
    await expect(region.persist(0, bytes(1)).persisted).rejects.toMatchObject({
      fault: 'NOT_ARMED',
    })
    expect((await dpu.status()).armed).toBe(false)
    expect(await card.obeys('energy back')).toBe('the part can be saved')
    await region.persist(0, bytes(2)).persisted
    expect((await region.read(0)).data).toEqual(bytes(2))
  })

  test('fences that fail leave a record in doubt, which the next start decides', async () => {
    const { card, region } = await bench()
    await region.persist(0, bytes(1)).persisted
    expect(await card.obeys('fences fail 1')).toBe('the next fence fails')
    const said = await region.persist(0, bytes(2)).persisted.catch((error: unknown) => error)
    expect(said).toMatchObject({ code: expect.stringMatching(/^PERDURE_/) })
    card.order('card reset')
    await card.tells('powerOn')
    expect([bytes(1), bytes(2)]).toContainEqual((await region.read(0)).data)
  })

  test('a failed save is told of the part', async () => {
    const { card, dpu } = await bench()
    expect(await card.obeys('save failed')).toBe('the last save of the part has failed')
    card.order('card reset')
    const part = await card.tells<object>('powerOn')
    expect(part).toMatchObject({ state: 'serving' })
    await dpu.status()
    expect(await card.obeys('save good')).toBe('the last save of the part was good')
  })

  test.each(['record', 'command'])('a cut at a %s tears no record', async (unit) => {
    const { card, dpu, region } = await bench()
    const slots = Array.from({ length: 16 }, (_, slot) => slot)
    await Promise.all(slots.map((slot) => region.persist(slot, bytes(1)).persisted))
    expect(await card.obeys(`cut ${unit} 5`)).toBe(`the power goes at ${unit} 5 from now`)
    const writes = slots.map((slot) => region.persist(slot, bytes(2)).persisted)
    const cut = await card.tells<{ chunks: number }>('powerCut')
    expect(cut.chunks).toBeGreaterThanOrEqual(0)
    card.order('card on')
    expect(await card.tells('powerOn')).toMatchObject({ state: 'serving', incarnation: 2 })
    await Promise.all(writes)
    for (const slot of slots) expect((await region.read(slot)).data).toEqual(bytes(2))
    expect((await dpu.status()).incarnation).toBe(2)
  })

  test('--order is obeyed as soon as it serves', async () => {
    const card = new Card('--order', 'energy gone', '--order', 'fences fail 3')
    expect(await card.tells('text')).toBe('no energy is left to save the part with')
    expect(await card.tells('text')).toBe('the next 3 fences fail')
  })
})

describe('orders', () => {
  test('are read by their words, whatever their case; names keep theirs', () => {
    expect(orderOf('  Card   RESET ')).toEqual({ kind: 'power', party: 'card', to: 'reset' })
    const damaged = { kind: 'damage', how: 'media', region: 'My Orders:1', record: 7 }
    expect(orderOf('media My Orders:1:7 copy 2')).toEqual({ ...damaged, copy: 2 })
    expect(orderOf('media My Orders:1:7 every copy')).toEqual({ ...damaged, copy: null })
    expect(orderOf('media My Orders:1:7')).toEqual({ ...damaged, copy: 0 })
    expect(orderOf('energy BACK')).toEqual({ kind: 'energy', armed: true })
  })

  test.each(['', 'card', 'cards off', 'cut', 'cut record', 'cut record x', 'heal all', 'rot a:b'])(
    "'%s' is none",
    (line) => {
      expect(() => orderOf(line)).toThrow("is no order: 'help' says which there are")
    },
  )

  test('the help has each of them, said as it is read', () => {
    const forms = orderHelp().map((line) => line.trim().split(/ {2,}/)[0]!)
    for (const form of forms) {
      const words = form
        .replaceAll(/ \[[^\]]*\]/g, '')
        .replace('REGION:RECORD', 'orders:1')
        .replace(/\bN\b/, '3')
      const [head, ...rest] = words.split(' | ')
      const stem = head!.slice(0, head!.lastIndexOf(' ') + 1)
      for (const one of [head!, ...rest.map((word) => stem + word)]) {
        expect(() => orderOf(one), one).not.toThrow()
      }
    }
    expect(forms.length).toBeGreaterThan(10)
  })
})
