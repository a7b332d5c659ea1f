/**
 * The native runtime's persistent memory (boards/linux): what is claimed of it, what a fence makes
 * durable, and what happens when it does not answer.
 *
 * The C is compiled here with the sanitizers; without a compiler, or without libsodium, this is
 * skipped. Files here are in the page cache: what a fence of this process left is what a process
 * that comes after it finds, never what a power cut leaves.
 */

import { spawnSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { constants, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { openNvdimm } from '../../../boards/emulator/medium/nvdimm-file.ts'
import {
  ARMED,
  ARRANGE,
  BAD_COMMAND,
  CHECK,
  COMPARE,
  COPY,
  COPY_CLEAN,
  DMA_FAILED,
  DMA_SPACE,
  DONE,
  FENCE,
  FETCH_ADD,
  FLUSH,
  FLUSH_FAILED,
  HOST_SPACE,
  MEDIA_ERROR,
  NOT_ARMED,
  NVDIMM_SPACE,
  PRIVATE_AT,
  SAVE_FAILED,
  VOLATILE,
} from '../../../firmware/board/hal.ts'
import { connect } from '../../../host-driver/index.ts'
import { Harness } from '../../support/native/harness.ts'
import { because, compileMachine, noMachine } from '../../support/native/machine-program.ts'
import { noService, ServiceFolder } from '../../support/native/service.ts'
import { SysFolder } from '../../support/native/sys-folder.ts'

const PAGE = 4096
/** Where the tests keep bytes in packet memory. */
const HERE = PRIVATE_AT
const NVDIMM = NVDIMM_SPACE

let program = ''
let folder = ''
let sys: SysFolder
let part = ''
let running: Machine[] = []
beforeAll(() => {
  if (noMachine === null) program = compileMachine()
})
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'perdure-memory-'))
  sys = new SysFolder(folder)
  part = join(folder, 'part')
  running = []
})
afterEach(async () => {
  for (const machine of running) await machine.end()
  rmSync(folder, { recursive: true, force: true })
})

interface Memory {
  readonly class: string
  readonly armed: boolean
  readonly forgets: string
  readonly bytes: number
  readonly persist: string
  readonly line: number
  readonly dirtyShutdowns: number
  readonly badLines: number
}

type Command = readonly [op: number, from?: number, to?: number, length?: number, aux?: number]

/** A machine in a process of its own. */
class Machine {
  readonly harness: Harness
  memory!: Memory
  private over = false

  constructor(options: readonly string[], pageBytes: number) {
    const words = [`PERDURE_PAGE_BYTES=${pageBytes}`, program, 'talk', ...options]
    this.harness = new Harness('env', words)
    running.push(this)
  }

  static on(...options: readonly string[]): Promise<Machine> {
    return Machine.onPagesOf(PAGE, ...options)
  }

  /** On a kernel of other pages. */
  static async onPagesOf(pageBytes: number, ...options: readonly string[]): Promise<Machine> {
    const machine = new Machine(options, pageBytes)
    machine.memory = JSON.parse(await machine.harness.line()) as Memory
    return machine
  }

  /** Runs a list; returns how many were done, and the result of the last that was begun. */
  async run(...commands: readonly Command[]): Promise<readonly [done: number, result: number]> {
    const { done, result } = await this.ran(commands)
    return [done, result]
  }

  async ran(commands: readonly Command[]): Promise<Record<'done' | 'result' | 'health', number>> {
    const words = commands.flatMap((command) => [...command, 0, 0, 0, 0].slice(0, 5))
    return JSON.parse(await this.harness.ask(`run ${words.join(' ')}`))
  }

  async put(text: string): Promise<void> {
    await this.harness.ask(`put ${HERE} ${Buffer.from(text).toString('hex')}`)
  }

  async get(bytes: number): Promise<string> {
    return Buffer.from(await this.harness.ask(`get ${HERE} ${bytes}`), 'hex').toString()
  }

  /** Stores a line at that offset of the part, cleaned, without a fence. */
  async store(at: number, text: string): Promise<readonly [done: number, result: number]> {
    await this.put(text.padEnd(64, '.'))
    return this.run([COPY_CLEAN, HERE, NVDIMM + at, 64])
  }

  kill(): Promise<void> {
    this.over = true
    return this.harness.kill()
  }

  async end(): Promise<void> {
    if (this.over) return
    this.over = true
    expect(await this.harness.end()).toBe(0)
  }
}

const file = (bytes: number): string => {
  writeFileSync(part, new Uint8Array(bytes))
  return `part=${part}`
}
const textAt = (at: number): string =>
  readFileSync(part)
    .subarray(at, at + 5)
    .toString()

/** What the program says when it refuses to open the part. */
function refusal(...options: readonly string[]): string {
  const { status, stderr } = spawnSync(program, ['talk', ...options], { encoding: 'utf8' })
  expect(status).toBe(3)
  return stderr.trim()
}

/** Runs what follows with mounts of its own. */
const APART = ['unshare', '--map-root-user', '--mount'] as const
const isApart = spawnSync(APART[0], [...APART.slice(1), 'mount', '--version']).status === 0

test.skipIf(noMachine !== null || !isApart)(
  `R31-5: a file with holes on a disk that is full is refused at the start${because}`,
  () => {
    const disk = join(folder, 'disk')
    mkdirSync(disk)
    const lines = `mount -t tmpfs -o size=64k tmpfs ${disk} && truncate -s 1M ${disk}/part`
    const args = [
      ...APART.slice(1),
      'bash',
      '-c',
      `${lines} && exec ${program} talk part=${disk}/part`,
    ]
    const { status, stderr } = spawnSync(APART[0], args, { encoding: 'utf8' })
    expect(stderr).toContain('has holes, and no room for its 1048576 bytes: No space left')
    expect(status).toBe(3)
  },
)

describe.skipIf(noMachine !== null)(`what is claimed${because}`, () => {
  test('a file of the page cache is not durable, and no fence says so', async () => {
    const machine = await Machine.on(file(PAGE))
    expect(machine.memory).toMatchObject({ class: 'page cache', armed: false, bytes: PAGE })
    expect(machine.memory.forgets).toMatch(/^the file is mapped through the page cache/)
    expect(await machine.ran([[COPY_CLEAN, HERE, NVDIMM, 64], [FENCE]])).toEqual({
      done: 1,
      result: NOT_ARMED,
      health: VOLATILE,
    })
  })

  test('a development file is treated as durable because the operator said so', async () => {
    const machine = await Machine.on(file(PAGE), 'development')
    expect(machine.memory).toMatchObject({ class: 'page cache', armed: true })
    expect(machine.memory.forgets).toMatch(/^the file is mapped through the page cache/)
    expect(await machine.ran([[FENCE]])).toEqual({
      done: 1,
      result: DONE,
      health: ARMED | VOLATILE,
    })
  })

  test('the instruction and the line are those of this CPU', async () => {
    const machine = await Machine.on(file(PAGE))
    const { persist, line } = machine.memory
    const has = readFileSync('/proc/cpuinfo', 'utf8')
    const name = [/\bclwb\b/, /\bclflushopt\b/, /\bclflush\b/, /\bdcpop\b/].find((one) =>
      one.test(has),
    )
    const expected = {
      clwb: 'clwb',
      clflushopt: 'clflushopt',
      clflush: 'clflush',
      dcpop: 'dc cvap',
    }
    const flag = (name?.source.replaceAll('\\b', '') ?? '') as keyof typeof expected
    expect(persist).toBe(expected[flag] ?? 'dc cvac')
    expect([16, 32, 64, 128, 256]).toContain(line)
  })

  const INSTRUCTIONS = ['clwb', 'clflushopt', 'clflush', 'dc cvap', 'dc cvac']
  const STATED: Readonly<Record<string, string>> = { 'dc cvap': 'dcpop', 'dc cvac': 'evtstrm' }

  test.each(INSTRUCTIONS)('%s cleans ranges of any kind, where this CPU has it', async (name) => {
    const flag = STATED[name] ?? name
    const options = [file(2 * PAGE), `persist=${name}`, 'development']
    if (!new RegExp(`\\b${flag}\\b`).test(readFileSync('/proc/cpuinfo', 'utf8'))) {
      expect(refusal(...options)).toBe('this CPU has no such instruction')
      return
    }
    const machine = await Machine.on(...options)
    expect(machine.memory.persist).toBe(name)
    await machine.store(64, 'stays')
    for (const [at, length] of [
      [0, 1],
      [63, 2],
      [64, 64],
      [100, 1000],
      [PAGE - 1, 2],
      [8191, 1],
    ]) {
      expect(await machine.run([FLUSH, 0, NVDIMM + at!, length!], [FENCE])).toEqual([2, DONE])
    }
    expect(textAt(64)).toBe('stays')
  })

  test('a file is made only when that was asked for, and is all there then', async () => {
    expect(refusal(`part=${part}`)).toBe(
      `cannot open ${part}: No such file or directory; memory-create makes a file`,
    )
    expect(refusal(`part=${part}`, 'create')).toMatch(/how many bytes it shall have is not said$/)
    expect(existsSync(part)).toBe(false)
    const machine = await Machine.on(`part=${part}`, 'create', `bytes=${4 * PAGE}`, 'development')
    expect(machine.memory.bytes).toBe(4 * PAGE)
    expect(readFileSync(part).length).toBe(4 * PAGE)
  })

  test.each([
    [
      'more bytes than there are',
      [`bytes=${3 * PAGE}`],
      /has 8192 bytes: it has not 12288 from 0 on$/,
    ],
    [
      'a beginning behind the end',
      [`at=${2 * PAGE}`],
      /has 8192 bytes: it has not 0 from 8192 on$/,
    ],
    ['half a page', ['bytes=100'], /^memory-at must be a multiple of 4096, memory-bytes of 4096$/],
    ['a beginning within a page', ['at=64'], /^memory-at must be a multiple of 4096/],
  ] as const)('%s is refused', (_, options, said) => {
    expect(refusal(file(2 * PAGE), ...options)).toMatch(said)
  })

  test('what is neither a file nor a device of device-dax is refused', () => {
    expect(refusal('part=/dev/null')).toMatch(
      /^\/dev\/null is neither a file nor a device of device-/,
    )
    expect(refusal(`part=${folder}`)).toMatch(/Is a directory/)
  })

  test('only the range that was asked for is touched', async () => {
    const machine = await Machine.on(file(3 * PAGE), `at=${PAGE}`, `bytes=${PAGE}`, 'development')
    expect(machine.memory.bytes).toBe(PAGE)
    expect(await machine.store(PAGE - 64, 'last.')).toEqual([1, DONE])
    expect(await machine.store(PAGE, 'over.')).toEqual([0, BAD_COMMAND])
    const bytes = readFileSync(part)
    expect(textAt(2 * PAGE - 64)).toBe('last.')
    expect(bytes.subarray(0, PAGE).every((byte) => byte === 0)).toBe(true)
    expect(bytes.subarray(2 * PAGE).every((byte) => byte === 0)).toBe(true)
  })
})

describe.skipIf(noMachine !== null).each([4, 16, 64])(
  `a kernel with pages of %i KiB${because}`,
  (kib) => {
    test('maps a part that begins and ends anywhere among them', async () => {
      for (const [first, pages] of [[0, 1] as const, [1, 1] as const, [5, 3] as const]) {
        const [at, bytes] = [first * PAGE, pages * PAGE]
        const where = [file(48 * PAGE), `at=${at}`, `bytes=${bytes}`, 'development']
        for (const more of [[], ['shadow']]) {
          const machine = await Machine.onPagesOf(kib << 10, ...where, ...more)
          expect(machine.memory.bytes).toBe(bytes)
          expect(await machine.store(0, 'first')).toEqual([1, DONE])
          expect(await machine.store(bytes - 64, 'last.')).toEqual([1, DONE])
          expect(await machine.store(bytes, 'over.')).toEqual([0, BAD_COMMAND])
          expect(await machine.run([FENCE])).toEqual([1, DONE])
          expect([textAt(at), textAt(at + bytes - 64)]).toEqual(['first', 'last.'])
          await machine.end()
        }
        const around = readFileSync(part).fill(0, at, at + bytes)
        expect(around.every((byte) => byte === 0)).toBe(true)
      }
    })

    test('tells the medium from its neighbours where a file was cut short', async () => {
      const where = [file(64 * PAGE), `at=${PAGE}`, 'development']
      const machine = await Machine.onPagesOf(kib << 10, ...where)
      truncateSync(part, 32 * PAGE)
      expect(await machine.run([COPY, NVDIMM + 31 * PAGE, HERE, 64])).toEqual([0, MEDIA_ERROR])
      expect(await machine.run([COPY, NVDIMM + 30 * PAGE, HERE, 64])).toEqual([1, DONE])
    })

    test("maps a host's memory that lies behind a page of 4 KiB in its file", async () => {
      const memory = join(folder, 'port')
      writeFileSync(memory, Buffer.concat([Buffer.alloc(PAGE), Buffer.from('host!'.repeat(1000))]))
      const where = [file(PAGE), `dma=${memory}`, `dma-at=${PAGE}`]
      const machine = await Machine.onPagesOf(kib << 10, ...where)
      expect(await machine.run([COPY, DMA_SPACE, HERE, 5])).toEqual([1, DONE])
      expect(await machine.get(5)).toBe('host!')
    })
  },
)

describe.skipIf(noMachine !== null)(`the shadow${because}`, () => {
  test('only what was cleaned, and then fenced, survives a kill', async () => {
    const machine = await Machine.on(file(PAGE), 'development', 'shadow')
    await machine.put('first'.padEnd(64))
    await machine.run([COPY_CLEAN, HERE, NVDIMM, 64], [FENCE])
    expect(textAt(0)).toBe('first')
    await machine.put('never'.padEnd(64))
    // Not cleaned; cleaned and not fenced; and overwritten between clean and fence.
    await machine.run([COPY, HERE, NVDIMM + 64, 64], [FENCE])
    expect(textAt(64)).toBe('\0'.repeat(5))
    await machine.run([COPY_CLEAN, HERE, NVDIMM + 192, 64])
    await machine.put('after'.padEnd(64))
    await machine.run([COPY, HERE, NVDIMM + 192, 64])
    expect(textAt(192)).toBe('\0'.repeat(5))
    await machine.run([FENCE])
    expect(textAt(192)).toBe('never')
    await machine.run([FLUSH, 0, NVDIMM + 64, 64], [COPY_CLEAN, HERE, NVDIMM + 256, 64])
    await machine.kill()
    expect([0, 64, 192, 256].map(textAt)).toEqual([
      'first',
      '\0'.repeat(5),
      'never',
      '\0'.repeat(5),
    ])
    const next = await Machine.on(`part=${part}`, 'development', 'shadow')
    await next.run([COPY, NVDIMM + 192, HERE, 64])
    expect(await next.get(5)).toBe('never')
  })
})

describe.skipIf(noMachine !== null)(`memory that does not answer${because}`, () => {
  const BAD = NVDIMM + 2 * PAGE

  test.each([
    ['a copy from it', [COPY, BAD, HERE, 64]],
    ['a copy to it', [COPY, HERE, BAD, 64]],
    ['a copy that begins before it', [COPY_CLEAN, HERE, BAD - 64, 128]],
    ['a check code of it', [CHECK, BAD, HERE, 64, HERE]],
    ['a key in it', [CHECK, HERE, HERE, 64, BAD]],
    ['a comparison with it', [COMPARE, HERE, BAD, 64]],
    ['an atomic', [FETCH_ADD, HERE, BAD, 8, HERE]],
  ] as const)('%s is a media error of that command, and what is good goes on', async (_, bad) => {
    const machine = await Machine.on(file(4 * PAGE), 'development')
    truncateSync(part, 2 * PAGE)
    expect(await machine.run([COPY, HERE, NVDIMM, 64], bad, [COPY, HERE, NVDIMM, 64])).toEqual([
      1,
      MEDIA_ERROR,
    ])
    expect(await machine.run(bad)).toEqual([0, MEDIA_ERROR])
    expect(await machine.store(0, 'alive')).toEqual([1, DONE])
    expect(textAt(0)).toBe('alive')
    const counters = JSON.parse(await machine.harness.ask('counters')) as { mediaErrors: number }
    expect(counters.mediaErrors).toBe(2)
  })

  test('a fence that cannot carry a line into the mapping fails, and forgets it', async () => {
    const machine = await Machine.on(file(4 * PAGE), 'development', 'shadow')
    truncateSync(part, 2 * PAGE)
    expect(await machine.store(3 * PAGE, 'nowhere')).toEqual([1, DONE])
    expect(await machine.run([FENCE])).toEqual([0, FLUSH_FAILED])
    expect(await machine.run([FENCE])).toEqual([1, DONE])
    expect(await machine.store(0, 'alive')).toEqual([1, DONE])
    expect(await machine.run([FENCE])).toEqual([1, DONE])
    expect(textAt(0)).toBe('alive')
  })

  test('a fault of any other memory ends the process', () => {
    file(PAGE)
    const { signal, status } = spawnSync(program, ['stray', part])
    expect([signal, status]).toEqual(['SIGBUS', null])
  })
})

const noProgram = noService === null ? '' : `: ${noService}`
test.skipIf(noService !== null)(
  `perdured outlives a part that goes away under it, and acknowledges nothing then${noProgram}`,
  async () => {
    const service = new ServiceFolder()
    try {
      const { runtime, address } = await service.serve({ memory: part })
      const dpu = await connect(address, { reconnect: false })
      await dpu.format()
      const region = await dpu.provision({ name: 'near', slots: 4, capacity: 512 })
      await region.persist(0, Buffer.alloc(512, 1)).persisted
      truncateSync(part, 0)
      const wrote = region.persist(1, Buffer.alloc(512, 2)).persisted
      await expect(wrote).rejects.toThrow()
      const { machine } = (await service.ask('counters')) as { machine: { mediaErrors: number } }
      expect(machine.mediaErrors).toBeGreaterThan(0)
      await dpu.close()
      expect(await runtime.end('SIGTERM')).toBe(0)
    } finally {
      await service.close()
    }
  },
)

describe.skipIf(noMachine !== null)(`the host's memory${because}`, () => {
  const window = (name: string): string => {
    const path = join(folder, name)
    writeFileSync(path, new Uint8Array(2 * PAGE))
    return path
  }

  test.each([
    ['host', HOST_SPACE],
    ['dma', DMA_SPACE],
  ])('%s: a file that both share, both ways', async (name, space) => {
    const path = window(name)
    const machine = await Machine.on(file(PAGE), `${name}=${path}`)
    await machine.put('to the host')
    expect(await machine.run([COPY, HERE, space + 100, 11])).toEqual([1, DONE])
    expect(readFileSync(path).subarray(100, 111).toString()).toBe('to the host')
    writeFileSync(path, Buffer.from('and back'), { flag: 'r+' })
    expect(await machine.run([COPY, space, HERE, 8])).toEqual([1, DONE])
    expect(await machine.get(8)).toBe('and back')
    expect(await machine.run([FLUSH, 0, space, 64])).toEqual([0, BAD_COMMAND])
    expect(await machine.run([COPY, HERE, space + 2 * PAGE - 3, 4])).toEqual([0, BAD_COMMAND])
  })

  test('no answer fails a read; to a write, it fails every read behind it', async () => {
    const path = window('host')
    const machine = await Machine.on(file(PAGE), `host=${path}`)
    truncateSync(path, PAGE)
    expect(await machine.run([COPY, HOST_SPACE + PAGE, HERE, 64])).toEqual([0, DMA_FAILED])
    expect(await machine.run([COPY, HOST_SPACE, HERE, 64])).toEqual([1, DONE])
    // Nobody answers a posted write: the list goes on, to the read that would be its fence.
    const lost = [COPY, HERE, HOST_SPACE + PAGE, 64] as const
    expect(await machine.run(lost, [COPY, HOST_SPACE, HERE, 64])).toEqual([1, DMA_FAILED])
    expect(await machine.run(lost, lost)).toEqual([2, DONE])
    expect(await machine.run([COMPARE, HOST_SPACE, HERE, 8])).toEqual([0, DMA_FAILED])
  })

  test('S1-M6: pieces of the host\u2019s memory are shown one behind the other', async () => {
    const path = window('host')
    truncateSync(path, 4 * PAGE)
    const machine = await Machine.on(file(PAGE), `host=${path}`)
    const table = (...pages: number[]): string =>
      Buffer.from(new Uint32Array(pages).buffer).toString('latin1')
    await machine.put(table(3, 1, 1, 1))
    expect(await machine.run([ARRANGE, HERE, 0, 16])).toEqual([1, DONE])
    await machine.put('across the edge')
    expect(await machine.run([COPY, HERE, HOST_SPACE + PAGE - 7, 15])).toEqual([1, DONE])
    const bytes = readFileSync(path)
    expect(bytes.subarray(4 * PAGE - 7).toString()).toBe('across ')
    expect(bytes.subarray(PAGE, PAGE + 8).toString()).toBe('the edge')
    expect(await machine.run([COPY, HOST_SPACE + 2 * PAGE - 3, HERE, 4])).toEqual([0, BAD_COMMAND])
    // A piece that leaves the file, and no table at all.
    await machine.put(table(3, 2))
    expect(await machine.run([ARRANGE, HERE, 0, 8])).toEqual([0, BAD_COMMAND])
    expect(await machine.run([COPY, HOST_SPACE + PAGE - 7, HERE, 15])).toEqual([1, DONE])
    expect(await machine.get(15)).toBe('across the edge')
    expect(await machine.run([ARRANGE, HERE, 0, 0])).toEqual([1, DONE])
    expect(await machine.run([COPY, HOST_SPACE + 4 * PAGE - 7, HERE, 7])).toEqual([1, DONE])
    expect(await machine.get(7)).toBe('across ')
  })

  test('a window that is not there, or empty, is refused in words', () => {
    const empty = join(folder, 'empty')
    writeFileSync(empty, '')
    expect(refusal(file(PAGE), `host=${empty}`)).toMatch(/is no file with bytes in it/)
    expect(refusal(file(PAGE), `host=${folder}/none`)).toMatch(
      /^cannot open the window .*none: No such/,
    )
    expect(refusal(file(PAGE), 'host=pci:0000')).toMatch(
      /is pci:DOMAIN:BUS:DEVICE.FUNCTION\/resourceN$/,
    )
  })
})

describe.skipIf(noMachine !== null)(`what a part remembers${because}`, () => {
  const note = (text: string): void => writeFileSync(`${part}.condition`, text)

  test('bad lines of an image are bad here, until one is written and fenced', async () => {
    const image = file(PAGE)
    note('{"dirtyShutdowns":7,"saveFailed":true,"poisonedLines":[1,3]}\n')
    const machine = await Machine.on(image, 'development', 'shadow')
    expect(machine.memory).toMatchObject({ dirtyShutdowns: 7, badLines: 2 })
    expect((await machine.ran([[FENCE]])).health).toBe(ARMED | SAVE_FAILED | VOLATILE)
    expect(await machine.run([COPY, NVDIMM, HERE, 128])).toEqual([0, MEDIA_ERROR])
    expect(await machine.run([COPY, NVDIMM, HERE, 64])).toEqual([1, DONE])
    await machine.store(64, 'healed')
    expect(await machine.run([COPY, NVDIMM, HERE, 128])).toEqual([1, DONE])
    expect(readFileSync(`${part}.condition`, 'utf8')).toContain('[1,3]')
    await machine.run([FENCE])
    expect(readFileSync(`${part}.condition`, 'utf8')).toBe(
      '{"dirtyShutdowns":7,"saveFailed":true,"poisonedLines":[3]}\n',
    )
    await machine.end()
    const nvdimm = openNvdimm({ path: part })
    expect([nvdimm.faulty(), nvdimm.dirtyShutdowns, nvdimm.saveFailed]).toEqual([[3], 7, true])
    nvdimm.close()
  })

  test('R31-6: it is found through a symbolic link, and stays where the image is', async () => {
    file(PAGE)
    note('{"dirtyShutdowns":7,"saveFailed":false,"poisonedLines":[1]}\n')
    const link = join(folder, 'link-to-part')
    symlinkSync(part, link)
    const machine = await Machine.on(`part=${link}`, 'development')
    expect(machine.memory).toMatchObject({ dirtyShutdowns: 7, badLines: 1 })
    await machine.store(64, 'healed')
    await machine.run([FENCE])
    expect(readFileSync(`${part}.condition`, 'utf8')).toContain('"poisonedLines":[]')
    expect(existsSync(`${link}.condition`)).toBe(false)
  })

  test('the file goes when there is nothing more to say', async () => {
    const image = file(PAGE)
    note('{"dirtyShutdowns":0,"saveFailed":false,"poisonedLines":[0]}\n')
    const machine = await Machine.on(image, 'development')
    await machine.store(0, 'healed')
    await machine.run([FENCE])
    expect(existsSync(`${part}.condition`)).toBe(false)
  })

  test.each([
    '',
    'nothing',
    '{"dirtyShutdowns":0}',
    '{"dirtyShutdowns":-1,"poisonedLines":[]}',
    '{"dirtyShutdowns":0,"poisonedLines":[1',
    '{"dirtyShutdowns":0,"poisonedLines":[a]}',
    '{"dirtyShutdowns":0,"poisonedLines":7}',
    '{"dirtyShutdowns":99999999999999999999,"poisonedLines":[]}',
  ])('a damaged file is refused: %j', (text) => {
    const image = file(PAGE)
    note(text)
    expect(refusal(image)).toBe(`${part}.condition is damaged`)
  })
})

describe.skipIf(noMachine !== null)(`R31-5: a file that is not written back${because}`, () => {
  const { EIO, ENOSPC } = constants.errno
  const note = (): string => readFileSync(`${part}.condition`, 'utf8')
  const FAILED = '{"dirtyShutdowns":0,"saveFailed":true,"poisonedLines":[]}\n'

  test.each([
    ['EIO', EIO, 'Input/output error', []],
    ['ENOSPC', ENOSPC, 'No space left on device', ['shadow']],
  ] as const)('%s: its fence fails, and none succeeds any more', async (_, reason, text, more) => {
    const machine = await Machine.on(file(PAGE), 'development', ...more)
    await machine.store(0, 'first')
    expect(await machine.run([FENCE])).toEqual([1, DONE])
    await machine.harness.ask(`writeback ${reason}`)
    await machine.store(0, 'later')
    expect(await machine.run([FENCE])).toEqual([0, FLUSH_FAILED])
    for (let again = 0; again < 3; again++) {
      expect(await machine.ran([[FENCE]])).toEqual({
        done: 0,
        result: NOT_ARMED,
        health: SAVE_FAILED | VOLATILE,
      })
    }
    expect(await machine.run([COPY, NVDIMM, HERE, 64])).toEqual([1, DONE])
    expect(await machine.get(5)).toBe('later')
    await machine.kill()
    const lines = machine.harness.errors.trim().split('\n')
    expect(lines).toHaveLength(1)
    expect(lines[0]).toContain(part)
    expect(lines[0]).toContain(text)
    expect(note()).toBe(FAILED)
    const next = await Machine.on(`part=${part}`, 'development')
    expect((await next.ran([[FENCE]])).health).toBe(ARMED | SAVE_FAILED | VOLATILE)
  })

  test('one that nobody was told of is told to whoever opens the file next', async () => {
    const options = ['talk', file(PAGE), 'development']
    const env = { ...process.env, PERDURE_WRITE_BACK: String(EIO) }
    const { stderr } = spawnSync(program, options, { env, input: '', encoding: 'utf8' })
    expect(stderr).toContain('Input/output error')
    expect(note()).toBe(FAILED)
  })

  test('one that comes at the end is noted as well', async () => {
    const machine = await Machine.on(file(PAGE), 'development')
    await machine.store(0, 'first')
    expect(await machine.run([FENCE])).toEqual([1, DONE])
    await machine.harness.ask(`writeback ${EIO}`)
    await expect(machine.end()).rejects.toThrow('Input/output error')
    expect(note()).toBe(FAILED)
  })
})

describe.skipIf(noMachine !== null)(`what the kernel says of a device${because}`, () => {
  const DEVICE = 'devices/platform/ndbus0/region0'

  function asked(device: string): unknown {
    return JSON.parse(spawnSync(program, ['sysfs', folder, device], { encoding: 'utf8' }).stdout)
  }

  /** A region of libnvdimm with two DIMMs, one of which counts: 5 unsafe shutdowns. */
  function ndRegion(at: string, type: string, provider: string, counter: string): void {
    sys.tree({
      [`${at}/uevent`]: `DEVTYPE=${type}\nMODALIAS=nd:t2`,
      [`${dirname(at)}/provider`]: provider,
      [`${at}/mapping0`]: 'nmem0,0,33554432,0',
      [`${at}/mapping1`]: 'nmem1,0,33554432,1',
      [`${at}/mapping3`]: 'nmem3,0,33554432,2',
      [`devices/nmem0/${counter}`]: '5',
      'devices/nmem3/nfit/dirty_shutdown': '100',
    })
    sys.link(`${at}/subsystem`, 'bus/nd')
    for (const dimm of ['nmem0', 'nmem1', 'nmem3']) {
      sys.link(`bus/nd/devices/${dimm}`, `devices/${dimm}`)
    }
  }

  function daxDevice(at: string): void {
    sys.tree({ [`${at}/size`]: '65011712', [`${at}/align`]: '2097152' })
    sys.link('dev/char/250:3', at)
    sys.link(`${at}/subsystem`, 'bus/dax')
  }

  const DAX = { isDax: true, bytes: 65_011_712, align: 2_097_152 }
  const NOTHING = {
    ...{ isDax: false, bytes: 0, align: 0, dirtyShutdowns: 0 },
    ...{ region: 'none', outlivesPower: false },
  }

  const NFIT = 'nfit/dirty_shutdown'
  const CXL_ROOT = 'devices/platform/ACPI0017:00/root0'

  test.each([
    ['NVDIMMs of ACPI', 'nd_pmem', 'ACPI.NFIT', NFIT, 'persistent', 5],
    ['legacy NVDIMMs', 'nd_pmem', 'e820', 'none', 'persistent', 0],
    ['NVDIMMs of a device tree', 'nd_pmem', 'pmem@50000000', 'none', 'persistent', 0],
    ['persistent CXL memory', 'nd_pmem', 'CXL', 'cxl/dirty_shutdown', 'persistent', 5],
    ['what a device tree calls volatile', 'nd_volatile', 'pmem@50000000', 'none', 'volatile', 0],
    ['a region of an unknown type', 'nd_other', 'ACPI.NFIT', NFIT, 'volatile', 5],
    ['virtio-pmem, whose flush is a request', 'nd_pmem', 'virtio-pmem', 'none', 'volatile', 0],
    ['DRAM that is called an NVDIMM', 'nd_pmem', 'ramdax', 'none', 'volatile', 0],
  ])('R1-C14: %s in devdax mode', (_, type, provider, counter, region, dirtyShutdowns) => {
    const at = provider === 'CXL' ? `${CXL_ROOT}/nvdimm-bridge0/ndbus0/region0` : DEVICE
    ndRegion(at, type, provider, counter)
    daxDevice(`${at}/dax0.0/dax/dax0.0`)
    const outlivesPower = region === 'persistent'
    expect(asked('char/250:3')).toEqual({ ...DAX, dirtyShutdowns, region, outlivesPower })
  })

  test('R1-C14: volatile CXL memory lies in a region of CXL, which keeps nothing', () => {
    const at = `${CXL_ROOT}/decoder0.0/region0`
    sys.tree({ [`${at}/uevent`]: 'DEVTYPE=cxl_region\nMODALIAS=cxl:t6' })
    sys.link(`${at}/subsystem`, 'bus/cxl')
    daxDevice(`${at}/dax_region0/dax0.0`)
    const nothing = { dirtyShutdowns: 0, region: 'none', outlivesPower: false }
    expect(asked('char/250:3')).toEqual({ ...DAX, ...nothing })
  })

  test('R1-C14: soft-reserved memory is below no region', () => {
    daxDevice('devices/platform/hmem.0/dax0.0')
    const nothing = { dirtyShutdowns: 0, region: 'none', outlivesPower: false }
    expect(asked('char/250:3')).toEqual({ ...DAX, ...nothing })
  })

  test('R1-C14: a region whose type cannot be read is not believed', () => {
    ndRegion(DEVICE, 'nd_pmem', 'ACPI.NFIT', NFIT)
    rmSync(join(folder, DEVICE, 'uevent'))
    daxDevice(`${DEVICE}/dax0.0/dax/dax0.0`)
    expect(asked('char/250:3')).toMatchObject({ region: 'volatile', outlivesPower: false })
  })

  test('R1-C14: a file system with DAX on a region, on part of it, and on a volatile one', () => {
    ndRegion(DEVICE, 'nd_pmem', 'ACPI.NFIT', NFIT)
    const kept = { dirtyShutdowns: 5, region: 'persistent', outlivesPower: true }
    sys.link('dev/block/259:0', `${DEVICE}/pfn0.1/block/pmem0`)
    sys.link('dev/block/259:1', `${DEVICE}/pfn0.1/block/pmem0/pmem0p1`)
    expect(asked('block/259:0')).toEqual({ ...NOTHING, ...kept })
    expect(asked('block/259:1')).toEqual({ ...NOTHING, ...kept })
    sys.tree({ [`${DEVICE}/uevent`]: 'DEVTYPE=nd_volatile' })
    const lost = { dirtyShutdowns: 5, region: 'volatile', outlivesPower: false }
    expect(asked('block/259:1')).toEqual({ ...NOTHING, ...lost })
  })

  test('R1-C14: a device made of several ones keeps what the least of them does', () => {
    const other = 'devices/platform/ndbus1/region1'
    ndRegion(DEVICE, 'nd_pmem', 'ACPI.NFIT', NFIT)
    sys.link('devices/virtual/block/dm-0/slaves/pmem0', `${DEVICE}/block/pmem0`)
    sys.link('dev/block/253:0', 'devices/virtual/block/dm-0')
    expect(asked('block/253:0')).toMatchObject({ dirtyShutdowns: 5, outlivesPower: true })
    sys.tree({ [`${other}/uevent`]: 'DEVTYPE=nd_volatile' })
    sys.link(`${other}/subsystem`, 'bus/nd')
    sys.link('devices/virtual/block/dm-0/slaves/pmem1', `${other}/block/pmem1`)
    expect(asked('block/253:0')).toMatchObject({ region: 'volatile', outlivesPower: false })
    // One stacked upon itself, which no kernel makes, ends all the same.
    sys.link('devices/virtual/block/dm-1/slaves/dm-1', 'devices/virtual/block/dm-1')
    sys.link('dev/block/253:1', 'devices/virtual/block/dm-1')
    expect(asked('block/253:1')).toEqual(NOTHING)
  })

  test('R1-C14: what is no persistent memory at all', () => {
    sys.tree({ 'devices/virtual/mem/null/dev': '1:3' })
    sys.link('dev/char/1:3', 'devices/virtual/mem/null')
    sys.link('devices/virtual/mem/null/subsystem', 'class/mem')
    expect(asked('char/1:3')).toEqual(NOTHING)
    expect(asked('char/9:9')).toEqual(NOTHING)
  })

  const noTmpfs = !existsSync('/dev/shm')
  test.skipIf(noTmpfs)('R1-C14: a file in memory is the page cache, on tmpfs too', async () => {
    const inMemory = mkdtempSync('/dev/shm/perdure-memory-')
    try {
      writeFileSync(join(inMemory, 'part'), new Uint8Array(PAGE))
      const machine = await Machine.on(`part=${join(inMemory, 'part')}`)
      expect(machine.memory).toMatchObject({ class: 'page cache', armed: false })
      await machine.end()
    } finally {
      rmSync(inMemory, { recursive: true })
    }
  })
})
