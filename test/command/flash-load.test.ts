/**
 * Flashes of an emulated card under load, with the power going at drawn requests: nothing is lost,
 * torn or done twice.
 *
 * Suspected, so looked at: card and firmware change while requests wait; a cut starts a trial, or
 * ends one, that nobody has asked for.
 */

import type { ChildProcess } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { emulateIn, runIn, stop } from '../support/command/command.ts'
import { type FlashedCard, LOAD, playFlashes } from '../support/flash/flashes.ts'
import { THOROUGH } from '../support/run/thorough.ts'

const SEED = Number(process.env.SEED ?? 33)
const QUICK_FLASHES = 5
const FLASHES = 200
const VERSIONS: readonly string[] = ['1.0.0', '2.0.0', '3.0.0']

const folder = mkdtempSync(join(tmpdir(), 'pl-'))
const files: Uint8Array[] = []
let card: ChildProcess
let flashed: FlashedCard

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
  const { name, slots, capacity } = LOAD
  const line = `part --create --size 1M --region ${name}:${slots}:${capacity} --udp 127.0.0.1:0`
  const [child, told] = await emulateIn(folder, 2, [
    ...line.split(' '),
    ...['--smp', 'unix:p', '--trust', 'key.pub.pem'],
  ])
  card = child
  flashed = {
    ...{ address: told[0]!, socket: join(folder, 'p'), files, versions: VERSIONS },
    cut: () => card.kill('SIGUSR2'),
  }
})

afterAll(async () => {
  await stop(card)
  rmSync(folder, { recursive: true })
})

test('some flashes under load, each with a cut: nothing lost, torn or twice', async () => {
  await playFlashes(flashed, QUICK_FLASHES, SEED)
})

test('many of them', THOROUGH, async () => {
  await playFlashes(flashed, FLASHES, SEED)
})
