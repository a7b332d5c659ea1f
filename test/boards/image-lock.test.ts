/**
 * One card for one image (fault H12): whoever has it, no second one gets it, and what a killed
 * one, or a machine that started again, has left locks nobody out.
 *
 * Every pair of a program with the emulator in it, the command, and the native runtime. Without a
 * compiler, or without libsodium, the pairs with the last are skipped.
 */

import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  fstatSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { openNvdimm } from '../../boards/emulator/index.ts'
import {
  commandHolds,
  emulatorHolds,
  type Holder,
  nativeHolds,
  type Opens,
} from '../support/command/image-holders.ts'
import { titled } from '../support/native/harness.ts'
import { compileMachine, noMachine } from '../support/native/machine-program.ts'
import { noService, PERDURED, ServiceFolder } from '../support/native/service.ts'

const PART_BYTES = 1 << 20
const BOOT = '/proc/sys/kernel/random/boot_id'

let program = ''
let folder = ''
let part = ''
let lock = ''
let holders: Holder[] = []
beforeAll(() => {
  if (noMachine === null) program = compileMachine()
})
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'perdure-lock-'))
  part = join(folder, 'part')
  lock = `${part}.lock`
  writeFileSync(part, '')
  truncateSync(part, PART_BYTES)
  holders = []
})
afterEach(async () => {
  for (const holder of holders) await holder.kill()
  rmSync(folder, { recursive: true, force: true })
})

type Who = 'emulator' | 'command' | 'native runtime'

async function opens(who: Who, ...options: string[]): Promise<Holder> {
  const native: Opens = (path) => nativeHolds(program, ...options)(path)
  const ways = { emulator: emulatorHolds, command: commandHolds, 'native runtime': native }
  const holder = await ways[who](part)
  holders.push(holder)
  return holder
}

const ALL: readonly Who[] = ['emulator', 'command', 'native runtime']
const PAIRS = ALL.flatMap((first) => ALL.map((second) => ({ first, second })))

/** What is left beside the image by somebody who is gone, and names a process that lives. */
function left(process: number, start: string, boot: string): void {
  writeFileSync(lock, `${process} ${start} ${boot}\n`)
}

const startOf = (process: number): string =>
  readFileSync(`/proc/${process}/stat`, 'utf8').replace(/^.*\)/s, '').trim().split(' ')[19]!
const bootId = (): string => readFileSync(BOOT, 'utf8').trim()
const noBoot = existsSync(BOOT) ? null : 'this is not Linux'

describe.each(PAIRS)('R1-A5: $second where the $first was', ({ first, second }) => {
  const natives = [first, second].includes('native runtime')
  const why = noBoot ?? (natives ? noMachine : null)

  test.skipIf(why !== null)(titled('is refused; after a kill it has the image', why), async () => {
    const one = await opens(first)
    expect(readFileSync(lock, 'utf8')).toMatch(new RegExp(`^${one.pid} \\d+ [0-9a-f-]{36}\n$`))
    await expect(opens(second)).rejects.toThrow(`is in use by process ${one.pid}`)
    // Whatever becomes of the file: who has the image is not decided there.
    for (const text of ['', '1\n', `${process.ppid} 1 ${bootId()}\n`]) {
      writeFileSync(lock, text)
      await expect(opens(second)).rejects.toThrow('is in use by another process')
    }
    rmSync(lock)
    await expect(opens(second)).rejects.toThrow('is in use by another process')
    left(one.pid, startOf(one.pid), bootId())
    await one.kill()
    const two = await opens(second)
    expect(readFileSync(lock, 'utf8')).toMatch(new RegExp(`^${two.pid} `))
    await two.end()
    expect(existsSync(lock)).toBe(false)
  })
})

describe.each(ALL)('R1-A5: the %s after the machine started again', (who) => {
  const why = noBoot ?? (who === 'native runtime' ? noMachine : null)

  test.skipIf(why !== null)(titled('has the image, whoever has the number now', why), async () => {
    const living = process.pid
    for (const leave of [
      () => left(living, startOf(living), '00000000-1111-2222-3333-444444444444'),
      () => left(living, '1', bootId()),
      () => writeFileSync(lock, '1\n'),
      () => writeFileSync(lock, `${living}\n`),
      () => writeFileSync(lock, 'no words of ours'),
      () => symlinkSync(join(folder, 'elsewhere'), lock),
    ]) {
      rmSync(lock, { force: true })
      leave()
      await (await opens(who)).end()
    }
    expect(existsSync(join(folder, 'elsewhere'))).toBe(false)
  })
})

/** A process that has ended, and whose parent never asks about it. */
async function zombie(): Promise<number> {
  // A shell may ask about it: the child ends only when its parent is none any more.
  const parent = spawn('sh', ['-c', 'exec 3<&0; (read x <&3) & echo $!; exec sleep 600'])
  holders.push({ pid: parent.pid!, end: async () => {}, kill: async () => parent.kill('SIGKILL') })
  const [line] = (await once(parent.stdout, 'data')) as [Buffer]
  const ended = Number(line.toString('utf8'))
  const name = (): string => readFileSync(`/proc/${parent.pid}/comm`, 'utf8').trim()
  while (name() !== 'sleep') await setImmediate()
  parent.stdin.write('\n')
  while (!/\) Z /.test(readFileSync(`/proc/${ended}/stat`, 'utf8'))) await setImmediate()
  return ended
}

describe.each(ALL)('R1-A5: the %s behind one that was killed, and that nobody waits for', (who) => {
  const why = noBoot ?? (who === 'native runtime' ? noMachine : null)

  test.skipIf(why !== null)(titled('has the image', why), async () => {
    const ended = await zombie()
    left(ended, startOf(ended), bootId())
    await (await opens(who)).end()
  })
})

const noParts = noBoot ?? noMachine
describe.skipIf(noParts !== null)(titled('several parts in one file', noParts), () => {
  const HALF = PART_BYTES / 2

  test('R1-A5: two native cards have a half each, and no third one any', async () => {
    const low = await opens('native runtime', `bytes=${HALF}`)
    const high = await opens('native runtime', `at=${HALF}`)
    expect(readFileSync(`${part}.${HALF}.lock`, 'utf8')).toMatch(`${high.pid} `)
    for (const options of [[], [`bytes=${HALF}`], [`at=${HALF - 4096}`, 'bytes=8192']]) {
      await expect(opens('native runtime', ...options)).rejects.toThrow('is in use by')
    }
    await low.kill()
    // The whole is not to be had, and the half that is free is.
    await expect(opens('emulator')).rejects.toThrow('is in use by another process')
    await expect(opens('native runtime')).rejects.toThrow('is in use by another process')
    await opens('native runtime', `bytes=${HALF}`)
    await high.end()
    expect(existsSync(`${part}.${HALF}.lock`)).toBe(false)
  })
})

describe.skipIf(noParts !== null)(titled('without a program flock', noParts), () => {
  /** An emulator that finds no program at all. */
  async function opensBare(): Promise<Holder> {
    const holder = await emulatorHolds(part, { PATH: join(folder, 'nothing') })
    holders.push(holder)
    return holder
  }

  test('R1-A5: the file is the lock, among emulators and towards the native runtime', async () => {
    const one = await opensBare()
    await expect(opensBare()).rejects.toThrow(`is in use by process ${one.pid}`)
    for (const who of ALL) {
      await expect(opens(who)).rejects.toThrow(`is in use by process ${one.pid}`)
    }
    expect(readFileSync(lock, 'utf8')).toBe(`${one.pid} ${startOf(one.pid)} ${bootId()}\n`)
    await one.kill()
    left(process.pid, startOf(process.pid), '00000000-1111-2222-3333-444444444444')
    const two = await opensBare()
    await two.end()
    expect(existsSync(lock)).toBe(false)
    const native = await opens('native runtime')
    await expect(opensBare()).rejects.toThrow(`is in use by process ${native.pid}`)
  })

  test('R1-A5: of many that start together over a stale lock one has the image', async () => {
    for (let round = 0; round < 3; round++) {
      left(process.pid, '1', bootId())
      const started = await Promise.allSettled(Array.from({ length: 4 }, opensBare))
      expect(started.filter(({ status }) => status === 'fulfilled').length).toBe(1)
      await holders.pop()!.end()
    }
  })
})

/** What systemd leaves to the service (perdured.service). */
const UNIT = ['--bounding-set=-all,+net_raw,+net_admin,+setuid,+setgid', '--inh-caps=-all']
const hasUnit = process.getuid?.() === 0 && spawnSync('setpriv', [...UNIT, 'true'], {}).status === 0
const noUnit = noService ?? (hasUnit ? null : 'setpriv, or the right to use it, is missing')

test.skipIf(noUnit !== null)(
  titled(
    'R1-A5: under its unit’s capabilities perdured leaves a living emulator its image',
    noUnit,
  ),
  async () => {
    const service = new ServiceFolder()
    const perdured = (): [code: number | null, said: string] => {
      const keys = { memory: part, 'memory-bytes': '', user: 'nobody', console: '' }
      const args = [...UNIT, PERDURED, '--config', service.configure(keys), '--check']
      const { status, stderr } = spawnSync('setpriv', args, { encoding: 'utf8' })
      return [status, stderr]
    }
    try {
      // Its folder is root's, so that nobody may not take anything away.
      chmodSync(folder, 0o755)
      const emulator = await opens('emulator')
      expect(perdured()).toEqual([69, expect.stringContaining(`process ${emulator.pid}`)])
      expect(process.kill(emulator.pid, 0)).toBe(true)
      await emulator.kill()
      left(process.pid, '1', bootId())
      expect(perdured()).toEqual([0, expect.anything()])
    } finally {
      await service.close()
    }
  },
)

/** The descriptor by which this process has the part open. */
const descriptorOfPart = (): number => {
  const { ino } = statSync(part)
  return Array.from({ length: 4096 }, (_, i) => i).find((i) => isOpenOn(i, ino))!
}

function isOpenOn(descriptor: number, inode: number): boolean {
  try {
    return fstatSync(descriptor).ino === inode
  } catch {
    return false
  }
}

test('R1-A5: it is given back though a child that is forked has the file open still', async () => {
  const nvdimm = openNvdimm({ path: part })
  const stdio = ['ignore', 'ignore', 'ignore', descriptorOfPart()] as const
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1e6)'], { stdio: [...stdio] })
  const ended = once(child, 'exit')
  try {
    nvdimm.close()
    openNvdimm({ path: part }).close()
  } finally {
    child.kill()
    await ended
  }
})
