/**
 * `perdure-boot` as a whole: firmware that comes by SMP runs on a real `perdured`, bit for bit what
 * was verified; a bad one comes back by itself; under load, with kills, nothing is lost.
 *
 * The programs are those that `node build.mjs --board linux` made; without them this is skipped.
 */

import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { afterEach, describe, expect, test } from 'vitest'
import { Random } from '../../../../boards/emulator/base/random.ts'
import { readImage, versionText } from '../../../../boards/flash/mcuboot.ts'
import { isThere } from '../../../../boards/tools/debian/programs.ts'
import { openLine } from '../../../../host-driver/command/base/line.ts'
import { type About, FlashTarget } from '../../../../host-driver/flash/card.ts'
import { SmpClient, SmpRefusal } from '../../../../host-driver/flash/smp-client.ts'
import { linePort, udpPort } from '../../../../host-driver/flash/smp-port.ts'
import { connect, type HealthNotice } from '../../../../host-driver/index.ts'
import {
  flash,
  isGone,
  LOAD,
  playFlashes,
  rests,
  versionIn,
  withCard as withSmp,
} from '../../../support/flash/flashes.ts'
import { BootFolder, BUNDLE, noBoot } from '../../../support/native/boot-folder.ts'
import { titled } from '../../../support/native/harness.ts'
import { PERDURED } from '../../../support/native/service.ts'
import { PATIENCE_MS, PATIENT } from '../../../support/run/patience.ts'
import { THOROUGH } from '../../../support/run/thorough.ts'

const SEED = Number(process.env.SEED ?? 34)
const QUICK_FLASHES = 5
const FLASHES = 200

const folders: BootFolder[] = []
function folder(...options: ConstructorParameters<typeof BootFolder>): BootFolder {
  const made = new BootFolder(...options)
  folders.push(made)
  return made
}
afterEach(async () => {
  for (const one of folders.splice(0)) await one.close()
})

const LINK = 'link = udp:127.0.0.1:0\n'
const version = (major: number) => ({ major, minor: 0, revision: 0, build: 0 })

/** What makes a bundle no good: it is put behind it. */
const broken = (body: string): string =>
  `${BUNDLE}\n{ const { start } = perdure; perdure = { start(board) { ${body} } } }\n`

async function withCard<T>(one: BootFolder, use: (card: FlashTarget) => Promise<T>): Promise<T> {
  const client = new SmpClient(linePort(await openLine(`unix:${one.socket}`, 0, '')), 'it', 60_000)
  try {
    return await use(new FlashTarget(client, 4096))
  } finally {
    client.close()
  }
}

/** Uploads, marks and resets; what the card then comes to, when `isDone` says so. */
async function tryImage(
  target: FlashTarget,
  file: Uint8Array,
  isDone: (about: About) => boolean,
): Promise<About> {
  await target.upload(file, () => {})
  await target.test(readImage(file).hash)
  await target.reset()
  for (const until = Date.now() + PATIENCE_MS; Date.now() < until; await setTimeout(10)) {
    // First, or what is asked may still be the one before.
    const isMarked = (await target.list()).some(({ pending }) => pending)
    const about = await target.about()
    if (about !== null && !isMarked && isDone(about)) return about
  }
  throw new Error(`it comes to nothing: ${JSON.stringify(await target.about())}`)
}

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

/** One that has ended may wait for somebody who hears of it. */
function isAlive(pid: number): boolean {
  if (!existsSync(`/proc/${pid}/stat`)) return false
  return !readFileSync(`/proc/${pid}/stat`, 'latin1').includes(') Z ')
}

describe.skipIf(noBoot !== null)(titled('perdure-boot', noBoot), () => {
  test('flashes what is newer, over a socket and over UDP, and keeps the records', async () => {
    const one = folder({ perdured: LINK, boot: 'smp = udp:127.0.0.1:0\nsmp = udp:[::1]:0\n' })
    const address = await one.start()
    one.keepPort(address)
    let dpu = await connect(address, PATIENT)
    await dpu.format()
    const region = await dpu.provision(LOAD)
    await region.persist(3, new Uint8Array(LOAD.capacity).fill(7)).persisted
    await dpu.close()
    const next = `${BUNDLE}// another one\n`
    await withCard(one, async (target) => {
      const about = await tryImage(target, one.imageOf(next, version(2)), ({ tested }) => tested)
      expect(about).toMatchObject({ board: expect.stringMatching(/^linux-/), reason: '' })
      expect(about.left).toBeGreaterThan(500)
      await using card = await connect(address, PATIENT)
      const changed = new Promise<HealthNotice>((resolve) => {
        void card.onHealth(resolve, { lookMs: 3_600_000 })
      })
      const { part, isTold } = await card.onHealth(() => {}, { lookMs: 3_600_000 })
      expect([part.onTrial, isTold]).toEqual([true, true])
      expect(await target.confirm()).toMatchObject([
        { slot: 0, version: '2.0.0', active: true, confirmed: true },
      ])
      expect(await changed).toMatchObject({ type: 'changed', part: { onTrial: false } })
    })
    expect(one.story).toContain(`bundle=${sha256(Buffer.from(next))}`)
    for (const where of one.story.matchAll(/smp:udp:(\S+)/g)) expect(where[1]).toMatch(/:\d+$/)
    dpu = await connect(address, PATIENT)
    const { data } = await (await dpu.openRegion(LOAD.name)).read(3)
    expect(data).toEqual(new Uint8Array(LOAD.capacity).fill(7))
    await dpu.close()
    for (const way of one.ways) {
      const port = await udpPort(way.replace('smp:udp:', ''))
      const client = new SmpClient(port, way, 60_000)
      const slots = await new FlashTarget(client, port.packetBytes).list()
      expect(slots[0]).toMatchObject({ version: '2.0.0', confirmed: true })
      client.close()
    }
  })

  test('R1-S13: a card with peers is not flashed over UDP', async () => {
    const one = folder({ perdured: `${LINK}peers = /p\n`, boot: 'smp = udp:127.0.0.1:0\n' })
    const { status, stderr } = spawnSync(one.program, ['--config', one.at('boot.conf')])
    expect(status).toBe(78)
    expect(stderr.toString()).toMatch(/boot\.conf, smp = udp:… is not for a card with peers, which/)
  })

  /** What it does, its bundle, what is said of it, and more of perdured.conf. */
  const ENDS: [string, string, RegExp, string][] = [
    ['throws as it starts', broken("throw new Error('on purpose')"), /^exit 70 after/, ''],
    [
      'cannot read the part',
      broken('return start({ ...board, facts: { ...board.facts, nvdimmBytes: 8192 } })'),
      /^the part does not serve: /,
      '',
    ],
    ['never comes to an end', broken('for (;;);'), /^exit 70 after/, 'start-ms = 10000\n'],
    ['is no program', 'this is none', /^exit 70 after/, ''],
    [
      'throws as it serves',
      broken("return { ...start(board), idle() { throw new Error('on purpose') } }"),
      /^exit 70 after/,
      '',
    ],
  ]

  async function goesBack(bundle: string, reason: RegExp, more: string): Promise<void> {
    const one = folder({ perdured: `${LINK}${more}` })
    const address = await one.start()
    one.keepPort(address)
    const dpu = await connect(address, PATIENT)
    await dpu.format()
    await dpu.close()
    await withCard(one, async (target) => {
      const file = one.imageOf(bundle, version(9))
      const about = await tryImage(target, file, ({ reason }) => reason !== '')
      expect(about.reason).toMatch(reason)
      while ((await target.list()).some(({ active }) => active)) await setTimeout(10)
    })
    // It serves as before.
    const again = await connect(address, PATIENT)
    expect((await again.status()).state).toBe('serving')
    await again.close()
  }

  test.each(ENDS.slice(0, 2))(
    'goes back where what is on trial %s',
    async (_what, bundle, reason, more) => {
      await goesBack(bundle, reason, more)
    },
  )

  test.each(ENDS.slice(2))(
    'goes back where what runs on trial %s',
    THOROUGH,
    async (_what, bundle, reason, more) => {
      await goesBack(bundle, reason, more)
    },
  )

  test('runs the runtime of the image, from memory that nobody can change', THOROUGH, async () => {
    const one = folder({ perdured: LINK })
    await one.start()
    await withCard(one, async (target) => {
      const file = one.imageOf(BUNDLE, version(3), new Uint8Array(readFileSync(PERDURED)))
      await tryImage(target, file, ({ tested }) => tested)
    })
    const program = readFileSync(`/proc/${one.runs}/exe`)
    expect(sha256(program)).toBe(sha256(readFileSync(PERDURED)))
    const maps = readFileSync(`/proc/${one.runs}/maps`, 'utf8')
    expect(maps).toMatch(/memfd:perdure-runtime/)
    expect(readFileSync(`/proc/${one.runs}/comm`, 'latin1')).toBe('perdured\n')
  })

  test('one at a time has the slots; what a killed one ran has ended before', async () => {
    const one = folder({ perdured: LINK })
    await one.start()
    for (let i = 0; i < 3; i++) {
      const before = one.runs
      one.kill()
      await one.back()
      while (one.runs === undefined || one.runs === before) await setTimeout(10)
      expect(isAlive(before!)).toBe(false)
    }
  })

  /**
   * Flashes, and ends it at that one of its system calls, as strace tells it to. What runs when it
   * is back; null: it makes no so many calls.
   */
  async function flashKilledAt(
    one: BootFolder,
    [call, when]: readonly [string, number],
    file: Uint8Array,
  ): Promise<string | null> {
    const inject = ['-e', `trace=${call}`, '-e', `inject=${call}:signal=KILL:when=${when}`]
    await one.restart(['strace', '-qq', '-o', '/dev/null', ...inject])
    const { ends } = one
    const card = { socket: one.socket, cut: () => {} }
    await withSmp(card, -1, (target) => flash(target, file)).catch((error: unknown) => {
      if (!(error instanceof SmpRefusal) && one.ends === ends && !isGone(error)) throw error
    })
    await one.back()
    if (one.ends === ends && one.hasBeen(`confirmed ${versionText(readImage(file).version)}`)) {
      return null
    }
    return await withSmp(card, -1, async (target) => {
      await rests(target)
      return versionIn(await target.list()) ?? 'package'
    })
  }

  /** Flashes killed at those calls: the first is 1; null: at each that a flash makes. */
  async function playKills(calls: readonly string[], whens: readonly number[] | null) {
    const one = folder({ perdured: LINK })
    const address = await one.start()
    one.keepPort(address)
    const dpu = await connect(address, PATIENT)
    await dpu.format()
    const region = await dpu.provision(LOAD)
    const known = new Set(['package'])
    let kills = 0
    for (const call of calls) {
      for (let n = 0; whens === null || n < whens.length; n++) {
        const when = whens?.[n] ?? n + 1
        const data = new Uint8Array(LOAD.capacity).fill(++kills & 0xff)
        await region.persist(kills % LOAD.slots, data).persisted
        const own = { ...version(1), revision: kills }
        const file = one.imageOf(`${BUNDLE}// ${kills % 2}\n`, own)
        known.add(versionText(own))
        const runs = await flashKilledAt(one, [call, when], file)
        const seen = `${call} ${when}: ${one.story.slice(-3000)}`
        expect((await region.read(kills % LOAD.slots)).data, seen).toEqual(data)
        if (runs === null) break
        expect(known, seen).toContain(runs)
      }
    }
    await dpu.close()
    return kills
  }

  test.skipIf(!isThere('strace'))(
    'killed at some of its calls, it boots (needs strace)',
    async () => {
      await playKills(['pwrite64'], [7, 40])
    },
  )

  test.skipIf(!isThere('strace'))('killed at each of its calls, it boots', THOROUGH, async () => {
    const calls = ['pwrite64', 'fdatasync', 'memfd_create', 'sendto', 'kill', 'execveat', 'write']
    expect(await playKills(calls, null)).toBeGreaterThan(60)
  })

  async function play(count: number): Promise<void> {
    const one = folder({ perdured: 'link = udp:127.0.0.1:0\n' })
    const address = await one.start()
    one.keepPort(address)
    const dpu = await connect(address, PATIENT)
    await dpu.format()
    await dpu.provision(LOAD)
    await dpu.close()
    const versions = ['1.0.0', '2.0.0', '3.0.0']
    const files = versions.map((_, i) => one.imageOf(`${BUNDLE}// ${i}\n`, version(i + 1)))
    const random = new Random(SEED)
    const cut = (): void => (random.chance(0.5) ? one.kill() : one.killWhatRuns())
    const card = { address, socket: one.socket, files, versions, connect: PATIENT, cut }
    await playFlashes({ ...card, back: () => one.back() }, count, SEED).catch((error: unknown) => {
      throw new Error(`seed ${SEED}: ${one.story}`, { cause: error })
    })
  }

  test('some flashes under load, each with a kill: nothing lost, torn or twice', async () => {
    await play(QUICK_FLASHES)
  })

  test('many of them', THOROUGH, async () => {
    await play(FLASHES)
  })
})
