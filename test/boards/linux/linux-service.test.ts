/**
 * The native runtime as a service: configuration, signature, bounds of the engine, console,
 * signals, readiness, privileges. The program is the one that `node build.mjs --board linux` made;
 * without it this is skipped.
 */

import { spawnSync } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import {
  chmodSync,
  closeSync,
  existsSync,
  openSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { connect as connectSocket } from 'node:net'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import {
  AUX,
  COMMAND_WORDS,
  COMMANDS_AT,
  COPY,
  FROM,
  ICRC_NONE,
  LENGTH,
  NVDIMM_SPACE,
  OP,
  TO,
  TRANSMIT,
  TRANSMIT_AT,
} from '../../../firmware/board/hal.ts'
import { connect, type HealthNotice } from '../../../host-driver/index.ts'
import { Runtime } from '../../support/board/runtime.ts'
import { compile, Harness, noCompiler } from '../../support/native/harness.ts'
import { type Keys, noService, PERDURED, ServiceFolder } from '../../support/native/service.ts'
import { PATIENT } from '../../support/run/patience.ts'
import { THOROUGH } from '../../support/run/thorough.ts'
import { ROOT } from '../../support/source/sources.ts'

const SEED = Number(process.env.SEED ?? 20261122)
const BUNDLE = join(ROOT, 'dist/firmware.js')

const isRoot = process.getuid?.() === 0
const name = noService === null ? 'perdured' : `perdured (${noService})`

const folders: ServiceFolder[] = []
function folder(source?: string): ServiceFolder {
  const made = new ServiceFolder(source)
  folders.push(made)
  return made
}
afterEach(async () => {
  for (const one of folders.splice(0)) await one.close()
})

/** What the firmware says on stderr when it is started with that source. */
async function endOf(
  source: string,
  keys: Keys = {},
): Promise<{ code: number | null; said: string }> {
  return await folder(source).ends(keys)
}

/** A firmware that starts, and does this when it is called. */
const serving = (body: string): string =>
  `var perdure = { start: () => ({ serve() { ${body}; return 0 }, idle() { return 0 } }) }`

/** A firmware with these calls, which may `send()` a frame of 64 bytes 255. */
const sending = (calls: string): string => `
  var perdure = { start({ memory, run }) {
    const words = new Float64Array(memory, ${COMMANDS_AT}, ${COMMAND_WORDS})
    new Uint8Array(memory, ${TRANSMIT_AT}, 64).fill(255)
    const send = () => {
      words[${OP}] = ${TRANSMIT}
      words[${FROM}] = ${TRANSMIT_AT}
      words[${LENGTH}] = 64
      words[${AUX}] = ${ICRC_NONE}
      if (run(1) !== 1) throw new Error('not sent')
    }
    return { ${calls} }
  } }`

describe.skipIf(noService !== null)(name, () => {
  describe('its command line and configuration', () => {
    test('help names every key; anything else than --config FILE is refused', async () => {
      const { runtime } = { runtime: folder().run('--help') }
      expect(await runtime.over()).toBe(0)
      const none = folder().run()
      expect(await none.over()).toBe(64)
      expect(none.story).toContain('--config FILE')
      expect(await folder().run('--config', 'x', 'y').over()).toBe(64)
      expect(await folder().run('--cofnig', 'x').over()).toBe(64)
    })

    test.each(['--firmware', '--signature'])('%s alone is refused', async (option) => {
      const one = folder()
      const { code, said } = await one.ends({}, option, one.at('firmware.js'))
      expect(said).toContain('--firmware FILE and --signature FILE go together: both, or none')
      expect(code).toBe(64)
      expect(existsSync(one.at('part'))).toBe(false)
    })

    test.each<[string, Keys, string]>([
      ['an unknown key', { 'memroy-at': '0' }, 'line 9: no key is called memroy-at. There are: '],
      ['a size that is none', { 'memory-bytes': '12Q' }, 'memory-bytes = 12Q is not valid'],
      ['a size beyond 64 bits', { 'memory-at': '99999999999999T' }, 'memory-at'],
      ['a heap that is too small', { 'heap-bytes': '1M' }, 'it takes bytes, 4M to 1G'],
      ['a path MTU between two', { 'path-mtu': '1500' }, '256, 512, 1024, 2048 or 4096'],
      ["a group's address", { mac: '01:00:00:00:00:02' }, 'an address of one station'],
      ['half an address', { mac: '02:00:00' }, 'mac = 02:00:00 is not valid'],
      ['no address', { ipv4: '10.0.0.256' }, 'ipv4 = 10.0.0.256 is not valid'],
      ['neither yes nor no', { development: 'maybe' }, 'it takes yes|no'],
      ['no such choice', { log: 'xml' }, 'it takes text|json'],
    ])('%s is refused, naming the line and what is allowed', async (_what, keys, words) => {
      const { code, said } = await folder().ends(keys)
      expect(said).toContain(words)
      expect(said).toMatch(/conf, line \d+:/)
      expect(code).toBe(78)
    })

    test('a key twice, a line that is none, and keys that must be said', async () => {
      const one = folder()
      const refusal = async (text: string): Promise<string> => {
        one.write('conf', text)
        const runtime = one.run('--config', one.at('conf'))
        expect(await runtime.over()).toBe(78)
        return runtime.story
      }
      expect(await refusal('memory = a\n# memory = b\nmemory = c\n')).toContain('line 3: memory')
      expect(await refusal('memory\n')).toContain('line 1: expected key = value')
      expect(await refusal('link = udp:127.0.0.1:0\n')).toContain('memory is missing')
      expect(await refusal('memory = a\n')).toContain('link is missing')
      expect(await refusal('memory = \n')).toContain('line 1: memory =  is not valid')
      expect(await refusal(`memory = ${'x'.repeat(4000)}\n`)).toContain('line 1: too long')
    })

    test('--check says what is there, and makes nothing', async () => {
      const one = folder()
      const without = await one.ends({}, '--check')
      expect(without.code).toBe(69)
      expect(existsSync(one.at('part'))).toBe(false)
      one.write('part', new Uint8Array(1 << 20))
      const runtime = one.run('--config', one.configure({ 'memory-bytes': '1M' }), '--check')
      const told = JSON.parse(await runtime.line()) as { memory: { bytes: number } }
      expect(await runtime.over()).toBe(0)
      expect(told).toMatchObject({ memory: { bytes: 1 << 20, class: 'page cache', armed: true } })
      expect(readFileSync(one.at('part')).every((byte) => byte === 0)).toBe(true)
    })
  })

  describe('what it believes', () => {
    test('a bundle that was changed is not evaluated, and touches nothing', async () => {
      const one = folder()
      const source = readFileSync(one.at('firmware.js'))
      source[source.length >> 1]! ^= 1
      one.write('firmware.js', source)
      const { code, said } = await one.ends()
      expect(said).toContain('is not signed by the key that is trusted')
      expect(code).toBe(65)
      expect(existsSync(one.at('part'))).toBe(false)
    })

    test('nor is one that another key signed, or one whose signature is cut', async () => {
      const one = folder()
      const other = folder()
      const { code } = await one.ends({ trust: other.at('trust.pem') })
      expect(code).toBe(65)
      one.write('firmware.js.sig', readFileSync(one.at('firmware.js.sig')).subarray(1))
      const cut = await one.ends()
      expect(cut.said).toContain('has 63 bytes; an Ed25519 signature has 64')
      expect(cut.code).toBe(65)
    })

    /** Starts it with a bundle that it finds open under two descriptors. */
    function runHolding(one: ServiceFolder, conf: string): Runtime {
      const fd = '/proc/self/fd'
      const how = `--config ${conf} --firmware ${fd}/8 --signature ${fd}/9`
      const script = `exec ${PERDURED} ${how} 8<firmware.js 9<firmware.js.sig`
      const runtime = new Runtime('perdured', 'sh', ['-c', script], one.path)
      one.runtimes.push(runtime)
      return runtime
    }

    test('the command line names a bundle in place of the configuration, held open', async () => {
      const one = folder()
      const conf = one.configure({ firmware: '/nonexistent', signature: '/nonexistent' })
      const runtime = runHolding(one, conf)
      expect(await runtime.line()).toMatch(/^perdure:/)
      expect(await runtime.end('SIGTERM')).toBe(0)
      expect(runtime.story).toContain('serving')
    })

    test('a bundle that the command line names is verified like any other', async () => {
      const one = folder()
      const other = folder()
      const foreign = runHolding(one, one.configure({ trust: other.at('trust.pem') }))
      expect(await foreign.over()).toBe(65)
      const files = (name: string): string[] => {
        return ['--firmware', one.at(name), '--signature', one.at(`${name}.sig`)]
      }
      const { code, said } = await one.ends({}, ...files('gone.js'))
      expect(said).toContain('gone.js')
      expect(code).toBe(66)
      const checked = one.run('--config', one.configure(), ...files('firmware.js'), '--check')
      expect(await checked.over()).toBe(69)
      expect(checked.story).toContain('memory cannot be had')
    })

    test('a file that is not there is said', async () => {
      const one = folder()
      for (const key of ['firmware', 'signature', 'trust']) {
        const { code, said } = await one.ends({ [key]: '/nonexistent' })
        expect(said).toContain('/nonexistent')
        expect(code).toBe(66)
      }
      const { code, said } = await one.ends({ trust: one.at('firmware.js.sig') })
      expect(said).toContain('holds no Ed25519 public key')
      expect(code).toBe(65)
    })

    test('the key may stand in the configuration itself', async () => {
      const one = folder()
      const pem = readFileSync(one.at('trust.pem'), 'utf8')
      const der = Buffer.from(pem.replaceAll(/-----[^-]+-----|\s/g, ''), 'base64')
      const { runtime, address } = await one.serve({ trust: der.subarray(12).toString('hex') })
      expect(address).toMatch(/^perdure:\/\/127\.0\.0\.1:\d+$/)
      expect(await runtime.end('SIGTERM')).toBe(0)
    })
  })

  describe('what the firmware cannot do', () => {
    /** Only what hangs ends by its time, ms; all else ends by itself, however long that takes. */
    const limitOf = (reason: string): string => (reason === 'hung' ? '500' : '3600000')

    test.each([
      ['threw', "throw new TypeError('so it is')", 'TypeError: so it is'],
      ['hung', 'for (;;);', 'interrupted'],
      ['stack', 'const deep = () => deep() + 1; deep()', 'stack overflow'],
      ['memory', 'const all = []; for (;;) all.push(new Array(1000).fill(all))', 'out of memory'],
    ])('a start that ends as %s is told by that name', async (reason, body, words) => {
      const { code, said } = await endOf(`var perdure = { start() { ${body} } }`, {
        'start-ms': limitOf(reason),
      })
      expect(said).toContain(`the firmware did not start (${reason})`)
      expect(said).toContain(words)
      expect(code).toBe(70)
    })

    test('a script that is not the firmware is told as such', async () => {
      for (const source of ['var other = 1', 'var perdure = { start: () => ({}) }']) {
        const { code, said } = await endOf(source)
        expect(said).toContain('(bundle)')
        expect(code).toBe(70)
      }
    })

    test.each([
      ['threw', "throw new Error('on a frame')"],
      ['hung', 'for (;;);'],
      ['stack', 'const deep = () => deep() + 1; deep()'],
      ['memory', 'const all = []; for (;;) all.push(new Array(1000).fill(all))'],
    ])('a call that ends as %s ends the service', async (reason, body) => {
      const one = folder(serving(body))
      const { runtime, address } = await one.serve({ 'call-ms': limitOf(reason) })
      const port = Number(address.split(':').at(-1))
      const socket = createSocket('udp4')
      socket.send(Buffer.alloc(64), port, '127.0.0.1')
      expect(await runtime.over()).toBe(70)
      socket.close()
      expect(runtime.story).toMatch(new RegExp(`the firmware stopped reason=${reason} `))
    })

    test('a stack of the system that is smaller than its own is made larger', async () => {
      const one = folder('var perdure = { start() { const deep = () => deep() + 1; deep() } }')
      const script = `ulimit -S -s 256; exec ${PERDURED} --config ${one.configure({
        'stack-bytes': '4M',
      })}`
      const done = spawnSync('sh', ['-c', script], { encoding: 'utf8' })
      expect(done.stderr).toContain('(stack)')
      expect(done.status).toBe(70)
      const hard = spawnSync('sh', ['-c', script.replace('-S -s 256', '-s 1024')], {
        encoding: 'utf8',
      })
      expect(hard.stderr).toContain('stack-bytes = 4194304')
      expect(hard.status).toBe(71)
    })

    test('a bundle that is not the translated one is interpreted, and says so', async () => {
      const own = folder(`${readFileSync(BUNDLE)}// another\n`)
      const { runtime } = await own.serve()
      await runtime.end('SIGTERM')
      expect(runtime.story).toMatch(/warning the firmware is interpreted, which is slower/)
      expect(runtime.story).toContain('engine=interpreted')
    })

    /** What it tells while it takes records, and how often a translated one resumed for 100. */
    async function storyOf(one: ServiceFolder, keys: Keys): Promise<[string, number]> {
      const { runtime, address } = await one.serve(keys)
      const dpu = await connect(address, PATIENT)
      if (keys.engine === undefined) await dpu.format()
      const name = 'notes'
      const region = await dpu.provision({ name, slots: 64, capacity: 64 })
      await region.persist(0, Buffer.from('first')).persisted
      const { resumes: before } = (await one.ask('counters')) as Record<string, number>
      for (let i = 0; i < 100; i++) await region.persist(i % 64, Buffer.from('more')).persisted
      const { resumes } = (await one.ask('counters')) as Record<string, number>
      await dpu.close()
      await runtime.end('SIGTERM')
      return [runtime.story, resumes! - before!]
    }

    test('its own bundle runs translated, unless told otherwise', async () => {
      const one = folder()
      expect((await storyOf(one, {}))[0]).toContain('engine=translated')
      const [story, resumes] = await storyOf(one, { engine: 'interpreted' })
      expect(story).toContain('engine=interpreted')
      expect(resumes).toBe(0)
    })

    // It goes by what was seen of the firmware: npm run bench:native -- --learn looks again.
    test('its own bundle runs translated, and seldom resumes', THOROUGH, async () => {
      expect((await storyOf(folder(), {}))[1]).toBeLessThan(100)
    })

    test('it has no clock, no chance, no proxies and no files', async () => {
      const asked = ['Date', 'Proxy', 'WeakRef', 'performance', 'std', 'os', 'console', 'print']
      const kinds = asked.map((one) => `typeof ${one}`).join(' + " " + ')
      const { said } = await endOf(
        `var perdure = { start() { throw new Error(${kinds} + " " + typeof Math.random) } }`,
      )
      expect(said).toContain(new Array(asked.length + 1).fill('undefined').join(' '))
    })
  })

  describe('how it serves', () => {
    test('what was acknowledged is there after SIGTERM, after SIGINT and after stop', async () => {
      const one = folder()
      for (let life = 0; life < 3; life++) {
        const { runtime, address } = await one.serve({ shadow: 'yes' })
        const dpu = await connect(address, PATIENT)
        if (life === 0) {
          await dpu.format()
          await dpu.provision({ name: 'notes', slots: 8, capacity: 512 })
        }
        const region = await dpu.openRegion('notes')
        for (let slot = 0; slot < life; slot++) {
          expect((await region.read(slot)).data).toEqual(new Uint8Array(512).fill(slot + 1))
        }
        await region.persist(life, new Uint8Array(512).fill(life + 1)).persisted
        await dpu.close()
        if (life === 2) expect(await one.ask('stop')).toEqual({ state: 'stopping' })
        const signal = life === 0 ? 'SIGTERM' : 'SIGINT'
        expect(await (life === 2 ? runtime.over() : runtime.end(signal))).toBe(0)
      }
    })

    test('an answer to few frames leaves while the call still runs', async () => {
      const one = folder(sending('serve() { send(); for (;;); }, idle: () => 0'))
      const { runtime, address } = await one.serve({ 'call-ms': '600000' })
      const socket = createSocket('udp4')
      socket.send(Buffer.alloc(64), Number(address.split(':').at(-1)), '127.0.0.1')
      const [answer] = (await once(socket, 'message')) as [Buffer]
      expect(answer).toEqual(Buffer.alloc(64, 255))
      socket.close()
      expect(await runtime.end('SIGKILL')).toBeNull()
    })

    test('lazy work comes to its turn though frames keep coming, and in quiet', async () => {
      const one = folder(sending('serve: () => 1, idle() { send(); return 0 }'))
      const { address } = await one.serve()
      const socket = createSocket('udp4')
      let turns = 0
      socket.on('message', () => turns++)
      const port = Number(address.split(':').at(-1))
      const send = (): void => socket.send(Buffer.alloc(64), port, '127.0.0.1')
      const timer = setInterval(() => {
        for (let i = 0; i < 8; i++) send()
      }, 0)
      while (turns < 5) await new Promise((resolve) => setTimeout(resolve, 10))
      clearInterval(timer)
      const { frames, idleCalls } = (await one.ask('counters')) as Record<string, number>
      expect(idleCalls).toBeLessThan(frames!)
      await new Promise((resolve) => setTimeout(resolve, 100))
      const before = turns
      send()
      while (turns === before) await new Promise((resolve) => setTimeout(resolve, 10))
      socket.close()
    })

    test('its heap stays as it is, record after record', async () => {
      const one = folder()
      const { address } = await one.serve()
      const dpu = await connect(address, PATIENT)
      await dpu.format()
      const region = await dpu.provision({ name: 'notes', slots: 64, capacity: 64 })
      const heapAfter = async (records: number): Promise<number> => {
        for (let i = 0; i < records; i++) {
          await region.persist(i % 64, new Uint8Array(64).fill(i)).persisted
        }
        return (await one.ask('status')).heapBytes as number
      }
      const before = await heapAfter(300)
      expect(before).toBeGreaterThan(500_000)
      expect(before).toBeLessThan(4 << 20)
      expect(await heapAfter(1500)).toBe(before)
      await dpu.close()
    })

    test('who asks is told of a record that the medium has lost, and looks no more', async () => {
      const one = folder()
      const { runtime, address } = await one.serve()
      const [dpu, other] = [await connect(address, PATIENT), await connect(address, PATIENT)]
      await dpu.format()
      const region = await dpu.provision({ name: 'r', slots: 8, capacity: 64 })
      const record = Buffer.alloc(64, 'never anywhere else')
      await region.persist(3, record).persisted
      const told = new Promise<HealthNotice>((resolve) => {
        void dpu.onHealth(resolve, { lookMs: 3_600_000 })
      })
      const { part: seen, isTold } = await dpu.onHealth(() => {}, { lookMs: 3_600_000 })
      expect(isTold).toBe(true)
      expect([seen.unsettled, seen.refusing]).toEqual([0, []])
      // It has mapped the file, which must stay as long as it is.
      const part = readFileSync(one.at('part'))
      const file = openSync(one.at('part'), 'r+')
      for (let at = part.indexOf(record); at >= 0; at = part.indexOf(record, at + 1)) {
        writeSync(file, Buffer.alloc(8), 0, 8, at)
      }
      closeSync(file)
      expect((await other.scan('r')).lost).toBe(1)
      const notice = await told
      expect(notice).toMatchObject({ type: 'changed', part: { unsettled: 1, refusing: [0] } })
      await other.close()
      await dpu.close()
      expect(await runtime.end('SIGTERM')).toBe(0)
    })

    test('on a plain file it acknowledges nothing unless it is told what the file is', async () => {
      const one = folder()
      const { runtime, address } = await one.serve({ development: 'no' })
      const dpu = await connect(address, PATIENT)
      expect((await dpu.status()).armed).toBe(false)
      await dpu.close()
      const { memory } = (await one.ask('status')) as { memory: Record<string, unknown> }
      expect(memory).toMatchObject({ armed: false, class: 'page cache' })
      expect(await runtime.end('SIGINT')).toBe(0)
      expect(runtime.story).toContain('durability is not claimed')
    })

    test('bytes of any kind, on link and console, harm nothing', async () => {
      const one = folder()
      const { runtime, address } = await one.serve()
      const random = new Random(SEED)
      const port = Number(address.split(':').at(-1))
      const socket = createSocket('udp4')
      const peer = connectSocket(one.at('console'))
      peer.on('error', () => {})
      for (let i = 0; i < 1500; i++) {
        const bytes = Buffer.from(
          Array.from({ length: random.below(300) }, () => random.below(256)),
        )
        // Now and then what goes a little further: IPv4, UDP, port 4791.
        if (i % 3 === 0) Buffer.from('0800450000', 'hex').copy(bytes, 12)
        if (i % 6 === 0) Buffer.from('12b7', 'hex').copy(bytes, 36)
        socket.send(i % 50 === 0 ? Buffer.alloc(9000 + i) : bytes, port, '127.0.0.1')
        if (i % 5 === 0) peer.write(bytes)
        if (i % 100 === 0) await new Promise((resolve) => setTimeout(resolve, 5))
      }
      expect((await one.ask('counters')).frames, `seed ${SEED}`).toBeGreaterThan(0)
      const dpu = await connect(address, PATIENT)
      expect((await dpu.status()).state).toBe('blank')
      await dpu.close()
      socket.close()
      peer.destroy()
      expect(await runtime.end('SIGTERM')).toBe(0)
    })

    test('without sleep it serves likewise, and hears a signal', async () => {
      const { runtime, address } = await folder().serve({ poll: 'spin' })
      const dpu = await connect(address, PATIENT)
      expect((await dpu.status()).state).toBe('blank')
      await dpu.close()
      expect(await runtime.end('SIGTERM')).toBe(0)
    })

    test('a second one on the same memory is refused', async () => {
      const one = folder()
      await one.serve()
      const { code, said } = await one.ends({ console: 'none' })
      expect(said).toContain('memory cannot be had')
      expect(code).toBe(69)
    })

    test('a link and a console that cannot be had are refused', async () => {
      const one = folder()
      expect((await one.ends({ link: 'udp:203.0.113.1:4791' })).code).toBe(69)
      expect((await one.ends({ link: 'carrier:pigeon' })).code).toBe(69)
      expect((await one.ends({ console: 'telepathy' })).code).toBe(69)
      expect((await one.ends({ console: `tty:${one.at('part')}` })).code).toBe(69)
      one.write('console', 'a file')
      expect((await one.ends()).code).toBe(69)
      expect(readFileSync(one.at('console'), 'utf8')).toBe('a file')
    })

    test('its log is JSON where that is wanted', async () => {
      const one = folder()
      const { runtime } = await one.serve({ log: 'json', engine: 'interpreted' })
      await runtime.end('SIGTERM')
      const events = runtime.story
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line))
      expect(events.map(({ level, event }) => [level, event])).toEqual([
        ['warning', 'the card is open: who reaches it may read, write and administer it'],
        ['info', 'memory'],
        ['warning', 'what is acknowledged as durable outlives the process, not the power'],
        ['info', 'serving'],
        ['info', 'stopped'],
      ])
      for (const { time } of events) {
        expect(time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
      }
    })
  })

  describe('its console', () => {
    test('says what it understands, and does that', async () => {
      const one = folder()
      await one.serve()
      const help = await one.ask('help')
      expect(Object.keys(help)).toEqual(['help', 'status', 'counters', 'hash', 'stop'])
      const { bundle } = await one.ask('hash')
      expect(bundle).toMatch(/^[0-9a-f]{64}$/)
      expect(await one.ask('status')).toMatchObject({ state: 'serving', bundle, board: 'linux' })
      expect(await one.ask('counters')).toMatchObject({ frames: 0, machine: { badCommands: 0 } })
      expect(await one.ask('"\u0001\\é')).toMatchObject({ line: '"\u0001\\é' })
      expect(await one.ask('x'.repeat(300))).toEqual({ error: 'a line has at most 255 bytes' })
      expect(await one.ask('\n\r\n hash ')).toMatchObject({ error: expect.any(String) })
    })

    test('who does not read is left behind, and a fifth peer is sent away', async () => {
      const one = folder()
      const { address } = await one.serve()
      const deaf = connectSocket(one.at('console'))
      deaf.on('error', () => {})
      deaf.pause()
      await once(deaf, 'connect')
      for (let i = 0; i < 200; i++) deaf.write('status\n'.repeat(30))
      const dpu = await connect(address, PATIENT)
      expect((await dpu.status()).state).toBe('blank')
      await dpu.close()
      const peers = [1, 2, 3, 4].map(() => connectSocket(one.at('console')))
      await once(peers[3]!, 'close')
      expect(peers.slice(0, 3).every((peer) => !peer.destroyed)).toBe(true)
      for (const peer of [deaf, ...peers]) peer.destroy()
      // Until it has seen that they are gone, whoever comes is sent away as well.
      let answer: object | null = null
      while (answer === null) answer = await one.ask('hash').catch(() => null)
      expect(answer).toHaveProperty('bundle')
    })

    test('on stdin and stdout its answers follow the address; no input is no end', async () => {
      const one = folder()
      const args = ['--config', one.configure({ console: 'stdio' })]
      const runtime = new Runtime('perdured', PERDURED, args, one.path, 'hash\nhelp\n')
      one.runtimes.push(runtime)
      const address = await runtime.line()
      expect(address).toMatch(/^perdure:/)
      for (const key of ['bundle', 'help']) {
        expect(Object.keys(JSON.parse(await runtime.line()))[0]).toBe(key)
      }
      // In each of these it looks at its input again, which has ended.
      const dpu = await connect(address, PATIENT)
      for (let i = 0; i < 20; i++) expect((await dpu.status()).state).toBe('blank')
      await dpu.close()
      expect(await runtime.end('SIGTERM')).toBe(0)
      expect(runtime.story).toContain('stopped')
    })

    test.skipIf(noCompiler !== null)('works over a serial line', async () => {
      const line = new Harness(compile('pty-harness', []), [])
      const tty = await line.line()
      const one = folder()
      const { runtime } = await one.serve({ console: `tty:${tty}` })
      expect(JSON.parse(await line.ask('hash\r'))).toHaveProperty('bundle')
      expect(JSON.parse(await line.ask('stop'))).toEqual({ state: 'stopping' })
      expect(await runtime.over()).toBe(0)
      await line.kill()
    })
  })

  test.skipIf(noCompiler !== null)(
    'R1-A7: a serial line that hangs up costs nothing, and is opened again when it is back',
    async () => {
      const program = compile('pty-harness', [])
      const one = folder()
      const tty = one.at('line')
      const first = new Harness(program, [])
      symlinkSync(await first.line(), tty)
      const { runtime } = await one.serve({ console: `tty:${tty}` })
      expect(JSON.parse(await first.ask('hash'))).toHaveProperty('bundle')
      await first.kill()
      const used = (): number => {
        const stat = readFileSync(`/proc/${runtime.process.pid}/stat`, 'utf8').replace(
          /^.*\) /s,
          '',
        )
        return Number(stat.split(' ')[11]) + Number(stat.split(' ')[12])
      }
      await new Promise((resolve) => setTimeout(resolve, 500))
      const before = used()
      await new Promise((resolve) => setTimeout(resolve, 3000))
      // Ticks of 10 ms. One that spins takes what it gets, on a busy machine a tenth of the time.
      expect(used() - before).toBeLessThan(10)
      const second = new Harness(program, [])
      const there = await second.line()
      rmSync(tty)
      symlinkSync(there, tty)
      let answer: string | null = null
      const heard = second.line().then((line) => {
        answer = line
      })
      while (answer === null) {
        second.send('hash\n')
        await new Promise((resolve) => setTimeout(resolve, 100))
      }
      await heard
      expect(JSON.parse(answer)).toHaveProperty('bundle')
      expect(await runtime.end('SIGTERM')).toBe(0)
      await second.kill()
    },
  )

  describe('under a service manager', () => {
    const EXTEND = 'EXTEND_TIMEOUT_USEC=60000000'
    let program: string | null = null
    const ears: Harness[] = []
    afterEach(async () => {
      for (const ear of ears.splice(0)) await ear.kill()
    })

    /** A service manager's ear in that folder. */
    async function earIn(one: ServiceFolder): Promise<Harness> {
      program ??= compile('notify-harness', [])
      const ear = new Harness(program, [one.at('notify')])
      ears.push(ear)
      expect(await ear.line()).toBe('listening')
      return ear
    }

    /** Starts it where that ear hears it. */
    function runHeard(one: ServiceFolder, keys: Keys = {}, watchdog = ''): Runtime {
      const notify = { NOTIFY_SOCKET: one.at('notify') }
      const environment = watchdog === '' ? notify : { ...notify, WATCHDOG_USEC: watchdog }
      const args = ['--config', one.configure(keys)]
      const runtime = new Runtime('perdured', PERDURED, args, one.path, undefined, environment)
      one.runtimes.push(runtime)
      return runtime
    }

    /** The lines of the datagram that says that it is ready; a slow start may tell of itself. */
    async function readyIn(ear: Harness): Promise<string[]> {
      let said = await ear.line()
      while (said === EXTEND) said = await ear.line()
      return said.split(';')
    }
    /** What stands in it of a bundle, for one that reports nothing. */
    const OF_ANY = ['READY=1', expect.stringMatching(/^PERDURE_BUNDLE=[0-9a-f]{64}$/)]

    test.skipIf(noCompiler !== null)(
      'tells that it is ready, that it lives, and its end',
      async () => {
        const one = folder()
        const ear = await earIn(one)
        const runtime = runHeard(one, {}, '200000')
        expect((await readyIn(ear))[0]).toBe('READY=1')
        expect(await ear.line()).toBe('WATCHDOG=1')
        expect(await ear.line()).toBe('WATCHDOG=1')
        await runtime.end('SIGTERM')
        let last = await ear.line()
        while (last === 'WATCHDOG=1') last = await ear.line()
        expect(last).toBe('STOPPING=1')
      },
    )

    test.skipIf(noCompiler !== null)('tells with it what the start has found', async () => {
      const one = folder()
      const ear = await earIn(one)
      const blank = runHeard(one)
      const { bundle } = await blank.line().then(() => one.ask('hash'))
      const own = ['READY=1', `PERDURE_BUNDLE=${bundle}`, 'PERDURE_ARMED=1']
      const reported = ['PERDURE_STATE=blank', 'PERDURE_FORMAT=0', 'PERDURE_LOST=0']
      expect(await readyIn(ear)).toEqual([...own, ...reported, 'PERDURE_FAULT=BLANK'])
      await blank.end('SIGTERM')
      expect(await ear.line()).toBe('STOPPING=1')
      const { runtime, address } = await one.serve()
      const dpu = await connect(address, PATIENT)
      await dpu.format()
      await dpu.close()
      await runtime.end('SIGTERM')
      const serving = runHeard(one)
      const found = ['PERDURE_STATE=serving', 'PERDURE_FORMAT=3', 'PERDURE_LOST=0']
      expect(await readyIn(ear)).toEqual([...own, ...found])
      await serving.end('SIGTERM')
      expect(await ear.line()).toBe('STOPPING=1')
      runHeard(one, { development: '' })
      expect(await readyIn(ear)).toContain('PERDURE_ARMED=0')
    })

    test.skipIf(noCompiler !== null).each<[string, string, readonly string[]]>([
      ['none', '', []],
      [
        'of words',
        ", report: () => 'one=1  none = two2=b=c '",
        ['PERDURE_ONE=1', 'PERDURE_TWO2=b=c'],
      ],
      [
        'of 200 characters',
        ", report: () => 'a='.padEnd(200, 'b')",
        [`PERDURE_A=${'b'.repeat(198)}`],
      ],
      [
        'of the shortest words',
        ", report: () => 'a= '.repeat(66)",
        new Array(66).fill('PERDURE_A='),
      ],
      ['that is too long', ", report: () => 'a='.padEnd(201, 'b')", []],
      ['of two lines', ", report: () => 'a=1\\nREADY=0'", []],
      ['with a zero', ", report: () => 'a=1\\0'", []],
      ['beyond ASCII', ", report: () => 'a=é'", []],
      ['that is no text', ', report: () => ({})', []],
      ['that is no function', ", report: 'a=1'", []],
    ])('a report %s', async (_what, report, lines) => {
      const calls = `serve: () => 0, idle: () => 0${report}`
      const one = folder(`var perdure = { start: () => ({ ${calls} }) }`)
      const ear = await earIn(one)
      runHeard(one)
      expect(await readyIn(ear)).toEqual([...OF_ANY, 'PERDURE_ARMED=1', ...lines])
    })

    test.each([
      ['threw', "report() { throw new Error('no report') }"],
      ['hung', 'report() { for (;;); }'],
      ['threw', "get report() { throw new Error('no report') }"],
    ])('a report that ends as %s is a start that ends so: %s', async (reason, report) => {
      const calls = `serve: () => 0, idle: () => 0, ${report}`
      const { code, said } = await endOf(`var perdure = { start: () => ({ ${calls} }) }`, {
        'start-ms': '500',
      })
      expect(said).toContain(`the firmware did not start (${reason})`)
      expect(code).toBe(70)
    })

    test.skipIf(noCompiler !== null)(
      'tells that it lives while it starts, and not once it serves',
      async () => {
        // Starts until the part's first byte is no zero; then every call hangs.
        const one = folder(`
          var perdure = { start({ memory, run }) {
            const words = new Float64Array(memory, ${COMMANDS_AT}, ${COMMAND_WORDS})
            const seen = new Uint8Array(memory, ${TRANSMIT_AT}, 1)
            while (seen[0] === 0) {
              words[${OP}] = ${COPY}
              words[${FROM}] = ${NVDIMM_SPACE}
              words[${TO}] = ${TRANSMIT_AT}
              words[${LENGTH}] = 1
              if (run(1) !== 1) throw new Error('not read')
            }
            return { serve() { for (;;); }, idle: () => 0 }
          } }`)
        const ear = await earIn(one)
        const runtime = runHeard(one, { 'call-ms': '2500' })
        expect(await ear.line()).toBe(EXTEND)
        expect(await ear.line()).toBe(EXTEND)
        writeFileSync(one.at('part'), 'x', { flag: 'r+' })
        const address = await runtime.line()
        expect((await readyIn(ear))[0]).toBe('READY=1')
        const socket = createSocket('udp4')
        socket.send(Buffer.alloc(64), Number(address.split(':').at(-1)), '127.0.0.1')
        expect(await runtime.over()).toBe(70)
        socket.close()
        // The next that the ear hears is of the next one.
        runHeard(one)
        expect((await ear.line()).split(';')[0]).toBe('READY=1')
      },
    )

    test.skipIf(!isRoot || noCompiler !== null)(
      'tells a manager whose socket is for root alone, whoever it has become',
      async () => {
        const one = folder()
        const ear = await earIn(one)
        chmodSync(one.at('notify'), 0o600)
        runHeard(one, { user: 'nobody' }, '200000')
        expect((await readyIn(ear))[0]).toBe('READY=1')
        expect(await ear.line()).toBe('WATCHDOG=1')
      },
    )

    test.skipIf(!isRoot)('becomes the user that is named, with no way back', async () => {
      const one = folder()
      const { runtime } = await one.serve({ user: 'nobody' })
      const status = readFileSync(`/proc/${runtime.process.pid}/status`, 'utf8')
      const field = (what: string): string => {
        return new RegExp(`^${what}:[ \\t]*(.*)$`, 'm').exec(status)![1]!.replaceAll('\t', ' ')
      }
      expect(field('Uid')).toBe('65534 65534 65534 65534')
      expect(field('Gid')).toBe('65534 65534 65534 65534')
      expect(field('Groups')).toBe('')
      expect(field('NoNewPrivs')).toBe('1')
      for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapAmb']) {
        expect(Number.parseInt(field(set), 16)).toBe(0)
      }
      expect(await runtime.end('SIGTERM')).toBe(0)
      const { code } = await one.ends({ user: 'nobody-of-that-name' })
      expect(code).toBe(77)
    })
  })
})
