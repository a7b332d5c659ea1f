/**
 * A card whose memory does not outlive the power says so everywhere: in STATUS, in every receipt,
 * when a driver connects, to whoever inspects it. And a part that is made has a name of its own.
 */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { connect, type Dpu, type Receipt } from '../../host-driver/index.ts'
import { type LocalDpu, type LocalOptions, openLocal } from '../../host-driver/local.ts'
import { outlivesOf } from '../../host-driver/way/write.ts'
import { emulateIn, runIn, stop } from '../support/command/command.ts'
import { titled } from '../support/native/harness.ts'
import { noService, ServiceFolder } from '../support/native/service.ts'

const AGAINST_POWER = /outlives its process, and not the power/

let folder = ''
let open: { close(): unknown }[] = []
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'perdure-volatile-'))
  open = []
})
afterEach(async () => {
  for (const one of open.reverse()) await one.close()
  rmSync(folder, { recursive: true, force: true })
})

async function card(options: Partial<LocalOptions>): Promise<LocalDpu> {
  const path = join(folder, 'part')
  const local = await openLocal({ path, bytes: 1 << 21, engine: 'node', seed: 7, ...options })
  open.push(local)
  return local
}

/** A receipt of each way to make a record durable: alone, in a batch, asked for again. */
async function receipts(dpu: Dpu): Promise<Receipt[]> {
  await dpu.format()
  const region = await dpu.provision({ name: 'orders', slots: 8, capacity: 200 })
  const alone = await region.persist(0, Buffer.alloc(200, 1)).persisted
  const batch = region.batch()
  for (const slot of [1, 2]) batch.persist(slot, Buffer.alloc(100, slot))
  const { records } = await batch.commit()
  const among = records.flatMap((one) => (one.status === 'durable' ? [one.receipt] : []))
  expect(among.length).toBe(2)
  return [alone, ...among]
}

describe('R1-U2: what a durable record outlives', () => {
  test.each([
    [true, 'process', 1],
    [false, 'power', 0],
  ] as const)('is said where the memory is volatile: %s', async (volatile, durable, warnings) => {
    const local = await card({ volatile })
    const warned: string[] = []
    const dpu = await connect(local.wire, { seed: 3, warn: (text) => warned.push(text) })
    expect(warned).toEqual(new Array(warnings).fill(expect.stringMatching(AGAINST_POWER)))
    expect(dpu.durable).toBe(durable)
    const outlivesPower = !volatile
    expect(await dpu.status()).toMatchObject({ armed: true, durable, outlivesPower })
    for (const receipt of await receipts(dpu)) {
      expect(receipt).toMatchObject({ mechanism: 'localFlush', durable, copies: 2 })
    }
    // After a start, too.
    local.dpu.powerCut({ strategy: 'all' })
    await local.dpu.powerOn()
    const region = await dpu.openRegion('orders')
    const receipt = await region.persist(3, Buffer.alloc(8, 3)).persisted
    expect(receipt.durable).toBe(durable)
    await dpu.close()
  })

  test('without save energy, nothing: and the reason is the memory', async () => {
    const local = await card({ volatile: true })
    local.nvdimm.armed = false
    local.dpu.powerCut({ strategy: 'all' })
    await local.dpu.powerOn()
    const warned: string[] = []
    const dpu = await connect(local.wire, { seed: 3, warn: (text) => warned.push(text) })
    expect(dpu.durable).toBe('nothing')
    expect(warned).toEqual([expect.stringMatching(/its memory does not outlive the power$/)])
    await dpu.close()
  })

  test('is a warning of the process where nobody takes it', async () => {
    const local = await card({ volatile: true })
    const warned = new Promise<Error>((resolve) => process.once('warning', resolve))
    const dpu = await connect(local.wire, { seed: 3 })
    const warning = await warned
    expect(warning).toMatchObject({ name: 'PerdureWarning', code: 'PERDURE_VOLATILE' })
    expect(warning.message).toMatch(AGAINST_POWER)
    await dpu.close()
  })

  test('is in the number of the mechanism: a bit on top of it', () => {
    expect([0, 1, 2, 3, 9, 10, 11, 8, 12].map(outlivesOf)).toEqual([
      ...['unknown', 'power', 'power', 'power', 'process', 'process', 'process'],
      ...['unknown', 'unknown'],
    ])
  })

  test('is what the command says of a part in the memory of this machine', async () => {
    const args = ['part', '--create', '--udp', '127.0.0.1:0', '--region', 'orders:8:200']
    const [child, [target]] = await emulateIn(folder, 1, args)
    open.push({ close: () => stop(child) })
    const text = await runIn(folder, ['inspect', target!])
    expect(text.code).toBe(0)
    expect(text.stdout).toMatch(/^durable +outlives the card's process, NOT the power$/m)
    const told = await runIn(folder, ['inspect', '--json', target!])
    expect(JSON.parse(told.stdout)).toMatchObject({ part: { durable: 'process', armed: true } })
    writeFileSync(join(folder, 'record'), 'a record')
    const wrote = await runIn(folder, ['persist', target!, 'orders', 'record'])
    expect(wrote.stderr).toMatch(/outlives the card's process, and not the power/)
  })
})

describe.skipIf(noService !== null)(titled('R1-U2: the native runtime', noService), () => {
  test.each([
    ['yes', 'process'],
    ['no', 'nothing'],
  ] as const)('on a plain file with development = %s: %s', async (development, durable) => {
    const service = new ServiceFolder()
    open.push(service)
    const { address } = await service.serve({ development })
    const warned: string[] = []
    const dpu = await connect(address, { warn: (text) => warned.push(text) })
    expect(dpu.durable).toBe(durable)
    expect(warned.length).toBe(1)
    expect(await dpu.status()).toMatchObject({ durable, outlivesPower: false })
    expect(await service.ask('status')).toMatchObject({ memory: { durable } })
    if (durable === 'process') {
      for (const receipt of await receipts(dpu)) expect(receipt.durable).toBe('process')
    }
    await dpu.close()
  })
})

describe('R1-U12: a part that is made', () => {
  const made = async (...more: string[]): Promise<string> => {
    const args = ['--udp', '127.0.0.1:0', ...more]
    const [child, [target]] = await emulateIn(folder, 1, args)
    const { stdout } = await runIn(folder, ['inspect', '--json', target!])
    await stop(child)
    return (JSON.parse(stdout) as { part: { deviceId: string } }).part.deviceId
  }

  test('has a name of its own; with a seed the same one again', async () => {
    const ids = [await made(), await made(), await made('--seed', '7'), await made('--seed', '7')]
    for (const id of ids) expect(id).toMatch(/^[0-9a-f]{32}$/)
    expect(new Set(ids).size).toBe(3)
    expect(ids[2]).toBe(ids[3])
  })
})
