/**
 * The edge of the native runtime towards JavaScript: a bundle that is hostile, in place of the
 * firmware, puts anything into the ring and calls `run` with anything, in a build with sanitizers.
 *
 * Skipped where that build is not there.
 */

import { spawnSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import {
  AGREE,
  COMMAND_WORDS,
  COMMANDS_AT,
  DMA_SPACE,
  HASH,
  KEEP_PEER,
  KEYSTREAM,
  NVDIMM_SPACE,
  RESULT,
  SEAL,
  SECURE,
  SECURE_BYTES,
  SPACE_BYTES,
  UNSEAL,
} from '../../../firmware/board/hal.ts'
import { COMMANDS_MAX, QUEUE_PAIRS } from '../../../firmware/board/limits.ts'
import { MEMORY_BYTES } from '../../../firmware/board/memory-map.ts'
import { ServiceFolder } from '../../support/native/service.ts'
import { Workshop } from '../../support/queues/pcie-file.ts'
import { ROOT } from '../../support/source/sources.ts'

const SEED = Number(process.env.SEED ?? 20261121)
const LISTS = 60_000
const ARCHITECTURE = process.arch === 'x64' ? 'x86-64' : process.arch
const PROGRAM = join(ROOT, 'dist/linux', `${ARCHITECTURE}-sanitize`, 'perdured')
const because = existsSync(PROGRAM)
  ? ''
  : ': perdured is not built with sanitizers: node build.mjs --board linux --sanitize --install'

/** The bundle. It never serves: what it has found out it throws. */
const HOSTILE = `var perdure = {
  start(machine) {
    const words = new Float64Array(machine.memory, ${COMMANDS_AT}, ${COMMANDS_MAX * COMMAND_WORDS})
    let state = ${SEED | 1}
    const next = () => {
      state ^= state << 13
      state ^= state >>> 17
      state ^= state << 5
      return state >>> 0
    }
    const below = (count) => next() % count
    const { nvdimmBytes, hostBytes, dmaBytes } = machine.facts
    const bytes = [${MEMORY_BYTES}, nvdimmBytes, hostBytes, dmaBytes]
    const odd = [NaN, Infinity, -Infinity, -0, -1, 0.5, 1e300, 5e-324, 2 ** 31, 2 ** 32, 2 ** 53,
      2 ** 63, 2 ** 64, ${NVDIMM_SPACE} - 1, ${DMA_SPACE + SPACE_BYTES}]
    const address = () => {
      const space = below(4)
      const at = below(2) === 0 ? below(4096) : bytes[space] - below(4096)
      return space * ${SPACE_BYTES} + at
    }
    // As the command has to be: in packet memory, of the length that it takes.
    const place = () => 4 * below((${MEMORY_BYTES} - 4096) / 4)
    const forms = {
      ${KEYSTREAM}: () => [4 * below(64), 0],
      ${AGREE}: () => [32, place()],
      ${HASH}: () => [below(300), 0],
      ${SEAL}: () => [below(300), place()],
      ${UNSEAL}: () => [16 + below(300), place()],
      ${SECURE}: () => [below(4) === 0 ? 0 : ${SECURE_BYTES}, below(${QUEUE_PAIRS})],
      ${KEEP_PEER}: () => [below(200), below(2)],
    }
    const form = (at, kind) => {
      if (kind in forms) words.set([kind, place(), place(), ...forms[kind]()], at)
      else words.set([kind, address(), address(), 8, below(4)], at)
    }
    const counts = [undefined, null, '3', 'x', {}, [], [2], true, -1, 1.5, NaN, Infinity, 2049,
      4294967297, () => 1, { valueOf: () => 2 }, { valueOf: () => machine.run(1) },
      { valueOf() { throw new Error('no number') } }, 1n, Symbol('s')]
    const seen = { done: 0, refused: 0, thrown: 0, wrong: 0 }
    const run = (count, most) => {
      try {
        const ran = machine.run(count)
        if (!(ran >= 0 && ran <= most)) seen.wrong++
        seen.done += ran
        if (ran < most) seen.refused++
      } catch {
        seen.thrown++
      }
    }
    for (let list = 0; list < ${LISTS}; list++) {
      const count = 1 + below(6)
      for (let i = 0; i < count; i++) {
        const at = i * ${COMMAND_WORDS}
        form(at, below(${KEEP_PEER} + 2))
        if (below(6) === 0) {
          words[at + 1] = address()
          words[at + 2] = address()
          words[at + 3] = below(3) === 0 ? 8 : below(300)
          words[at + 4] = below(2) === 0 ? below(4) : address()
        }
        if (below(12) === 0) words[at + below(${RESULT})] = odd[below(odd.length)]
      }
      run(count, count)
      if (below(20) === 0) run(counts[below(counts.length)], ${COMMANDS_MAX})
    }
    try { machine.run() } catch { seen.wrong++ }
    throw new Error('edge ' + JSON.stringify(seen))
  },
}`

const folder = new ServiceFolder(HOSTILE)
const workshop = new Workshop()
afterAll(async () => {
  await folder.close()
  await workshop.close()
})

describe.skipIf(because !== '')(`a hostile bundle${because}`, () => {
  test.each([
    ['the mapping', 'no'],
    ['the shadow', 'yes'],
  ])('touches nothing but the spaces: %s', (_, shadow) => {
    const window = folder.at('window')
    writeFileSync(window, new Uint8Array(65_536))
    const config = folder.configure({
      ...{ shadow, 'host-window': window, port: workshop.newPath(), 'port-bytes': '64K' },
      ...{ 'memory-bytes': '64K', memory: folder.at(`part-${shadow}`), 'call-ms': '600000' },
    })
    // An engine that was stopped is not taken down (engine.c): its memory goes with the process.
    const env = { ...process.env, ASAN_OPTIONS: 'detect_leaks=0' }
    const options = { env, encoding: 'utf8' } as const
    const { status, stderr } = spawnSync(PROGRAM, ['--config', config], options)
    expect(stderr).not.toMatch(/Sanitizer|runtime error/)
    expect(status, stderr).toBe(70)
    const [, text] = /edge (\{[^}]*\})/.exec(stderr.replaceAll('\\"', '"')) ?? []
    const seen = JSON.parse(text ?? 'null') as Record<string, number>
    expect(seen.wrong).toBe(0)
    expect(seen.done).toBeGreaterThan(LISTS / 2)
    expect(seen.refused).toBeGreaterThan(LISTS / 10)
    expect(seen.thrown).toBeGreaterThan(100)
  })
})
