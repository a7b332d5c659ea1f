/**
 * A storage engineer administers a running card, and an image, by the command alone (R1-U3):
 * formats, makes and removes regions, scans, gives lost records up, publishes. What loses something
 * asks first, and what is refused names a command that works for that target.
 */

import type { ChildProcess } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { emulateIn, type Run, runIn, stop } from '../support/command/command.ts'
import { blankImage, imageWithLost } from '../support/command/lost-image.ts'

const ENGINE = ['--engine', 'node']
const folder = mkdtempSync(join(tmpdir(), 'perdure-administer-'))
const cards: ChildProcess[] = []
/** An image whose region nothing that is refused changes. */
let refused: string | null = null

afterEach(async () => {
  for (const card of cards.splice(0)) await stop(card)
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const perdure = (...args: string[]): Promise<Run> => runIn(folder, args)
const sha = (name: string): string => {
  return createHash('sha256')
    .update(readFileSync(join(folder, name)))
    .digest('hex')
}

const blank = (name: string): string => blankImage(folder, name)

/** A card that serves that image; its address. */
async function serve(...args: string[]): Promise<string> {
  const [card, [address]] = await emulateIn(folder, 1, [...args, ...ENGINE, '--udp', '127.0.0.1:0'])
  cards.push(card)
  return address!
}

describe('a running card', () => {
  test('R1-U3: is formatted, gets a region, and loses it, by commands', async () => {
    const card = await serve(blank('card.img'))
    const early = await perdure('region', 'list', card)
    expect(early).toMatchObject({ code: 65, stdout: '' })
    expect(early.stderr).toContain(`'perdure format ${card}'`)
    expect((await perdure('format', card, '--dry-run')).stderr).toBe(
      'the part is empty: it would be formatted\n',
    )
    expect(JSON.parse((await perdure('status', card, '--json')).stdout).part.state).toBe('blank')
    const id = '00112233445566778899aabbccddeeff'
    expect((await perdure('format', card, '--device-id', id)).code).toBe(0)
    const status = await perdure('status', card)
    expect(status.stdout).toMatch(new RegExp(`^device +${id}$`, 'm'))
    const shape = ['--slots', '8', '--capacity', '1K', '--copies', '3']
    const made = await perdure('region', 'create', card, 'notes', ...shape, '--json')
    expect(JSON.parse(made.stdout)).toMatchObject({
      ...{ made: true, region: { name: 'notes', slots: 8, capacity: 1024, copies: 3 } },
    })
    const again = await perdure('region', 'create', card, 'notes', ...shape)
    expect(again).toMatchObject({ code: 0 })
    expect(again.stderr).toContain('is there already')
    await perdure('region', 'create', card, 'log', '--bytes', '64K', '--write-persist')
    const list = await perdure('region', 'list', card)
    expect(list.stdout).toMatch(/^notes +records +8 +1024 +3/m)
    expect(list.stdout).toMatch(/^log +bytes/m)
    const dry = await perdure('region', 'remove', card, 'notes', '--dry-run')
    expect(dry).toMatchObject({ code: 0, stdout: '' })
    expect(dry.stderr).toContain("'notes' would be gone: 8 records of up to 1024 B, 3 copies")
    const asked = await perdure('region', 'remove', card, 'notes')
    expect(asked).toMatchObject({ code: 64, stdout: '' })
    expect(asked.stderr).toContain('say --yes')
    expect((await perdure('region', 'list', card)).stdout).toContain('notes')
    expect((await perdure('region', 'remove', card, 'notes', '--yes')).code).toBe(0)
    expect((await perdure('region', 'list', card)).stdout).not.toContain('notes')
    const gone = await perdure('read', card, 'notes')
    expect(gone.stderr).toContain(`'perdure region list ${card}'`)
  })

  test('R1-U3: tells which faults it has met, and offers a region on a port', async () => {
    const card = await serve(blank('ports.img'), '--create', '--region', 'notes:8:64')
    expect((await perdure('counters', card)).stderr).toBe('no faults met since the start\n')
    const published = await perdure('publish', card, 'notes', '7471', '--form', 'announced')
    expect(published).toMatchObject({ code: 0, stdout: '' })
    const other = await perdure('publish', card, 'notes', '7471', '--form', 'capability')
    expect(other).toMatchObject({ code: 69 })
    expect(other.stderr).toContain(`'perdure withdraw ${card} PORT'`)
    const limited = ['--from', '10.0.0.0/8', '--from', 'fd00::/8', '--connections', '2', '--stock']
    const form = ['--form', 'capability', '--json']
    const second = await perdure('publish', card, 'notes', '7472', ...form, ...limited)
    expect(JSON.parse(second.stdout).published).toEqual({
      ...{ name: 'notes', port: 7472, form: 'capability' },
      ...{ stock: true, from: ['10.0.0.0/8', 'fd00::/8'], connections: 2 },
    })
    const met = await perdure('counters', card)
    expect(met.stdout).toMatch(/^PORT_TAKEN +1 +the port publishes something else/m)
    const counters = JSON.parse((await perdure('counters', card, '--json')).stdout)
    expect(counters.counters).toMatchObject({ PORT_TAKEN: '1' })
    const own = await perdure('detach', card, 'notes')
    expect(own).toMatchObject({ code: 64 })
    expect(own.stderr).toContain(`'perdure region remove ${card} NAME'`)
    expect((await perdure('detach', card, 'nothing')).code).toBe(0)
  })

  test('R1-U3: takes back what it offers, of an admin and of its own host', async () => {
    const host = ['--host', 'port', '--host-memory', '1M']
    const create = ['--create', '--region', 'notes:8:64']
    await serve(blank('host.img'), ...create, ...host)
    const form = ['--form', 'announced']
    expect((await perdure('publish', 'pcie:port', 'notes', '7471', ...form)).code).toBe(0)
    expect((await perdure('withdraw', 'pcie:port', '7471', '--json')).stdout).toContain('7471')
    const key = join(folder, 'admin')
    const closed = await runIn(folder, ['key', 'new', '--out', key])
    writeFileSync(join(folder, 'peers'), `${closed.stdout.trim()} ann admin\n`)
    const keys = ['--key', 'card.key', '--peers', 'peers']
    const card = await serve(blank('closed.img'), ...create, ...keys)
    const asAdmin = (...args: string[]): Promise<Run> => {
      return runIn(folder, args, { PERDURE_KEY: key })
    }
    const unsaid = await asAdmin('publish', card, 'notes', '7471', ...form)
    expect(unsaid.stderr).toContain('--stock')
    expect((await asAdmin('publish', card, 'notes', '7471', ...form, '--stock')).code).toBe(0)
    const withdrawn = await asAdmin('withdraw', card, '7471')
    expect(withdrawn).toMatchObject({ code: 0 })
    expect(withdrawn.stderr).toBe('nothing is offered on port 7471 now\n')
    const stranger = await runIn(folder, ['withdraw', card, '7471'], { XDG_CONFIG_HOME: folder })
    expect(stranger.stderr).toContain("'perdure key new'")
  })
})

describe('lost records', () => {
  test('R1-U3, D-14: are found by a scan, and given up one by one', async () => {
    const image = await imageWithLost(folder, 'lost.img', 1, 3)
    const card = await serve(image)
    const scanned = await perdure('scan', card, 'orders', '--json')
    expect(scanned.code).toBe(1)
    expect(JSON.parse(scanned.stdout)).toMatchObject({ lost: 2, repaired: 0 })
    writeFileSync(join(folder, 'one'), 'one')
    const refused = await perdure('persist', card, 'orders', 'one')
    expect(refused.stderr).toContain(`'perdure discard ${card} REGION:RECORD'`)
    const mixed = await perdure('discard', card, 'orders:1', 'orders:2', '--yes')
    expect(mixed).toMatchObject({ code: 64, stdout: '' })
    expect(mixed.stderr).toContain("record 2 of 'orders' is not lost: nothing was changed")
    const dry = await perdure('discard', card, 'orders:1', 'orders:3', '--dry-run')
    expect(dry.stderr).toBe('would be blank: orders:1 orders:3\n')
    expect((await perdure('discard', card, 'orders:1', 'orders:3')).stderr).toContain('say --yes')
    expect((await perdure('scan', card)).code).toBe(1)
    const given = await perdure('discard', card, 'orders:1', 'orders:3', '--yes', '--json')
    expect(JSON.parse(given.stdout)).toMatchObject({ dryRun: false, discarded: { length: 2 } })
    expect((await perdure('scan', card)).code).toBe(0)
    expect((await perdure('persist', card, 'orders', 'one')).code).toBe(0)
  })

  test('R1-U3: of an image likewise; what only looks leaves it as it is', async () => {
    const image = await imageWithLost(folder, 'off.img', 2)
    expect((await perdure('scan', image, ...ENGINE)).code).toBe(1)
    const before = sha(image)
    await perdure('status', image, ...ENGINE)
    await perdure('region', 'list', image, ...ENGINE)
    await perdure('counters', image, ...ENGINE)
    await perdure('discard', image, 'orders:2', '--dry-run', ...ENGINE)
    await perdure('region', 'remove', image, 'orders', '--dry-run', ...ENGINE)
    await perdure('format', image, '--dry-run', ...ENGINE)
    expect(sha(image)).toBe(before)
    expect((await perdure('discard', image, 'orders:2', '--yes', ...ENGINE)).code).toBe(0)
    expect((await perdure('verify', image, ...ENGINE)).code).toBe(0)
  })
})

describe('of an image', () => {
  test.each([
    ['format', 'IMAGE', 69, 'formatted already (FORMATTED)', 'Open the regions'],
    ['region create', 'IMAGE x --slots 1 --capacity 65K', 64, 'capacity 66560', '1 to 65536'],
    ['region create', 'IMAGE orders --slots 5 --capacity 64', 69, 'REGION_EXISTS', 'another name'],
    ['region create', 'IMAGE x --slots 999999 --capacity 64', 69, 'NO_SPACE', 'fewer slots'],
    ['region remove', 'IMAGE x', 69, 'NO_REGION', "'perdure region list refused.img'"],
    ['region remove', 'IMAGE orders', 64, "'orders' is gone then", 'say --yes'],
    ['scan', 'IMAGE x', 69, 'NO_REGION', "'perdure region list refused.img'"],
    ['discard', 'IMAGE orders:0 --yes', 64, 'is not lost', 'nothing was changed'],
    ['discard', 'IMAGE orders:9 --yes', 64, '9', '0 to 3'],
  ])('R1-U3, R1-U7: %s %s is refused with %i', async (command, words, code, ...told) => {
    const image = refused ?? (await imageWithLost(folder, 'refused.img'))
    refused = image
    const args = `${command} ${words.replace('IMAGE', image)}`.split(' ')
    const ended = await perdure(...args, ...ENGINE)
    for (const one of told) expect(ended.stderr).toContain(one)
    expect(ended.stderr).toMatch(/^[^\n]+\n$/)
    expect(ended).toMatchObject({ code, stdout: '' })
  })
})
