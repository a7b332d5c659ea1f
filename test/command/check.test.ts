/**
 * `perdure check`: the health of a part in one line, with the exit codes of Nagios plugins. What is
 * not known is never OK.
 */

import type { ChildProcess } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, expect, test } from 'vitest'
import { emulateIn, type Run, runIn, stop } from '../support/command/command.ts'
import { blankImage, imageWithLost } from '../support/command/lost-image.ts'

const ENGINE = ['--engine', 'node']
const ALLOWED = ['--allow', 'open', '--allow', 'volatile']
const folder = mkdtempSync(join(tmpdir(), 'perdure-check-'))
const cards: ChildProcess[] = []

afterEach(async () => {
  for (const card of cards.splice(0)) await stop(card)
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const check = (...args: string[]): Promise<Run> => runIn(folder, ['check', ...args])

async function serve(...args: string[]): Promise<string> {
  const [card, [address]] = await emulateIn(folder, 1, [...args, ...ENGINE, '--udp', '127.0.0.1:0'])
  cards.push(card)
  return address!
}

/** What a plugin of Nagios prints: a word, a text, and figures behind the only bar. */
const LINE =
  /^PERDURE (?<word>OK|WARNING|CRITICAL|UNKNOWN): (?<text>[^|\n]+)(?: \| (?<figures>[^|\n]+))?\n$/
const FIGURE = /^[a-z]+=\d+;;0?;0$/

function parsed({ stdout, stderr }: Run): { word: string; text: string; figures: string[] } {
  expect(stderr).toBe('')
  const { word, text, figures } = LINE.exec(stdout)!.groups!
  const all = figures?.split(' ') ?? []
  for (const one of all) expect(one).toMatch(FIGURE)
  return { word: word!, text: text!, figures: all }
}

test('a card that serves is OK; its memory and its openness are warnings', async () => {
  const card = await serve('well.img', '--create', '--region', 'notes:8:64')
  const warned = await check(card)
  expect(warned.code).toBe(1)
  expect(parsed(warned)).toMatchObject({
    word: 'WARNING',
    text: 'what is durable does not outlive the power; whoever reaches the card may administer it',
  })
  expect((await check(card, '--allow', 'open')).stdout).not.toContain('whoever reaches')
  const well = await check(card, ...ALLOWED)
  expect(well.code).toBe(0)
  const { word, text, figures } = parsed(well)
  expect([word, text]).toEqual(['OK', 'serving, armed, nothing lost'])
  expect(figures).toEqual(
    expect.arrayContaining(['regions=1;;;0', 'lost=0;;0;0', 'incarnation=1;;;0']),
  )
})

test('lost records, and the region that takes no writes for them, are critical', async () => {
  const card = await serve(await imageWithLost(folder, 'lost.img', 1, 2))
  await runIn(folder, ['scan', card])
  const sick = await check(card, ...ALLOWED)
  expect(sick.code).toBe(2)
  const { word, text, figures } = parsed(sick)
  expect(word).toBe('CRITICAL')
  expect(text).toBe("2 records are lost; region 'orders' takes no writes (READ_ONLY)")
  expect(figures).toContain('lost=2;;0;0')
  const json = await check(card, ...ALLOWED, '--json')
  expect(json.code).toBe(2)
  expect(JSON.parse(json.stdout)).toMatchObject({
    ...{ target: card, state: 'CRITICAL', figures: { lost: 2 } },
    findings: [{ gravity: 'CRITICAL' }, { gravity: 'CRITICAL' }],
  })
  await runIn(folder, ['discard', card, 'orders:1', 'orders:2', '--yes'])
  expect((await check(card, ...ALLOWED)).code).toBe(0)
})

test('a part that holds nothing is critical, and an image is looked at, too', async () => {
  const blank = await check(blankImage(folder, 'blank.img'), ...ALLOWED, ...ENGINE)
  expect(blank.code).toBe(2)
  expect(parsed(blank).text).toBe('the part does not serve (BLANK)')
})

test('a card that does not answer is critical; what cannot be asked is unknown', async () => {
  const card = await serve('gone.img', '--create')
  await stop(cards.pop()!)
  const gone = await check(card, '--timeout', '0.5')
  expect(gone.code).toBe(2)
  expect(parsed(gone)).toMatchObject({ word: 'CRITICAL', figures: [] })
  expect(parsed(gone).text).toContain('See that the card is on')
  const none = await check('none.img')
  expect(none.code).toBe(3)
  expect(parsed(none).word).toBe('UNKNOWN')
  const home = { XDG_CONFIG_HOME: folder }
  const { stdout: key } = await runIn(folder, ['key', 'new', '--out', 'admin.key'])
  writeFileSync(join(folder, 'peers'), `${key.trim()} ann admin\n`)
  const closed = await serve('closed.img', '--create', '--key', 'card.key', '--peers', 'peers')
  const stranger = await runIn(folder, ['check', closed], home)
  expect(stranger.code).toBe(3)
  expect(parsed(stranger).text).toContain("'perdure key new'")
})

test.each([
  ['--timeout', '0'],
  ['--timeout', 'x'],
  ['--allow', 'all'],
])('a wrong command line is that of every command: %s %s', async (...words) => {
  const wrong = await check('none.img', ...words)
  expect(wrong).toMatchObject({ code: 64, stdout: '' })
})
