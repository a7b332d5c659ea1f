/**
 * What `perdure-boot` gives to its script: every function of `Host`, by scripts of this file. The C
 * is compiled here with the sanitizers, with QuickJS as `node build.mjs --board linux` has compiled
 * it; without that, or without a compiler, this is skipped.
 */

import { createHash, generateKeyPairSync, sign } from 'node:crypto'
import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { connect, createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { brotliCompressSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { Host, Script } from '../../../../boards/linux/boot/script/host.ts'
import {
  type BootHarness,
  callBoot,
  compileBootHarness,
  noBoot,
  type Start,
  startBoot,
} from '../../../support/native/boot.ts'
import { compile, Harness, titled } from '../../../support/native/harness.ts'

let program = ''
let folder = ''
beforeAll(() => {
  if (noBoot !== null) return
  program = compileBootHarness()
  folder = mkdtempSync(join(tmpdir(), 'host-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const at = (name: string): string => join(folder, name)

const running: BootHarness[] = []
const servers: (Server | Socket)[] = []
afterEach(() => {
  for (const one of running.splice(0)) one.child.kill('SIGKILL')
  for (const one of servers.splice(0)) one.close()
})

const call = <T, R>(body: (host: Host, given: T) => R, given: T): Promise<R> =>
  callBoot(program, body, given)

function start<T>(body: Start<T>, given: T, env: NodeJS.ProcessEnv = {}): BootHarness {
  const one = startBoot(program, body, given, env)
  running.push(one)
  return one
}

/** Answers what a connection says, in capitals; a line `end` ends the program. */
function echo(host: Host, [kind, where]: readonly [kind: string, where: string]): Script {
  const isUnix = kind === 'unix'
  const first = isUnix ? host.listenUnix(where) : host.openTty(where)
  const open = new Set<number>(isUnix ? [] : [first])
  host.print('ready')
  const hear = (one: number): void => {
    const bytes = host.read(one, 100)
    if (bytes === null) {
      host.print('gone')
      host.close(one)
      open.delete(one)
      return
    }
    const said = toText(bytes)
    host.write(one, toBytes(said.toUpperCase()))
    if (said.includes('end')) host.exit(0)
  }
  return {
    watch: () => ({
      readable: isUnix ? [first, ...open] : [...open],
      writable: [],
      untilMs: Number.POSITIVE_INFINITY,
    }),
    turn: ({ readable }) => {
      for (const one of readable) if (open.has(one)) hear(one)
      if (!isUnix) return
      for (let next = host.accept(first); next >= 0; next = host.accept(first)) open.add(next)
    },
  }
}

/** Sends datagrams back, in capitals; `end` ends the program. */
function answerDatagrams(host: Host, address: string): Script {
  const socket = host.listenUdp(address, 0)
  host.print(`port ${host.portOf(socket)}.`)
  return {
    watch: () => ({ readable: [socket], writable: [], untilMs: host.nowMs() + 60_000 }),
    turn: () => {
      for (let one = host.receiveFrom(socket); one !== null; one = host.receiveFrom(socket)) {
        const said = toText(one.bytes)
        host.print(`from ${one.peer}`)
        host.sendTo(socket, one.peer, toBytes(said.toUpperCase()))
        if (said === 'end') host.exit(0)
      }
    },
  }
}

/** Starts programs of the shell at once; prints how each ended, and ends behind the last. */
function shells(host: Host, commands: readonly string[]): Script {
  const names = new Map<number, string>()
  for (const command of commands) {
    const args = ['sh', '-c', command]
    names.set(host.spawn({ program: '/bin/sh', args, env: [], inherits: [] }), command)
  }
  return {
    watch: () => ({ readable: [], writable: [], untilMs: host.nowMs() + 60_000 }),
    turn: ({ ended }) => {
      for (const { pid, status } of ended) {
        host.print(`${names.get(pid)}: ${status}`)
        names.delete(pid)
      }
      if (names.size === 0) host.exit(0)
    },
  }
}

describe.skipIf(noBoot !== null)(titled('perdure-boot and its script', noBoot), () => {
  test('it knows its words, its machine and the time', async () => {
    const body = (host: Host): unknown => {
      return [host.args.length, host.architecture, host.nowMs() > 0, host.watchdogMs]
    }
    const architecture = process.arch === 'x64' ? 'x86-64' : process.arch
    const answer = await callBoot(program, body, null, { WATCHDOG_USEC: '5000000' })
    expect(answer).toEqual([2, architecture, true, 2500])
  })

  test('a line goes to stdout, and one with time and level to stderr', async () => {
    const one = start((host: Host) => {
      host.print('all well')
      host.log('warning', 'one\ntwo')
      host.exit(3)
      return {} as Script
    }, null)
    expect(await one.over()).toBe(3)
    expect(one.stdout).toBe('all well\n')
    expect(one.stderr).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z warning one;two\n$/)
  })
})

describe.skipIf(noBoot !== null)(titled('files of perdure-boot', noBoot), () => {
  test('a file is read whole, or refused', async () => {
    const long = Buffer.alloc(200_000, 'abc')
    writeFileSync(at('short'), 'four')
    writeFileSync(at('empty'), '')
    writeFileSync(at('long'), long)
    const body = (host: Host, folder: string): unknown => [
      toText(host.readFile(`${folder}/short`, 4)),
      host.readFile(`${folder}/empty`, 0).byteLength,
      host.readFile(`${folder}/long`, 1 << 20).byteLength,
      host.readFile('/proc/self/maps', 1 << 24).byteLength > 5000,
      thrown(() => host.readFile(`${folder}/short`, 3)),
      thrown(() => host.readFile('/proc/self/maps', 100)),
      thrown(() => host.readFile(`${folder}/none`, 9)),
      thrown(() => host.readFile(folder, 1 << 20)),
    ]
    expect(await call(body, folder)).toEqual([
      ...['four', 0, 200_000, true],
      `Error EFBIG: ${at('short')} has more than 3 bytes`,
      'Error EFBIG: /proc/self/maps has more than 100 bytes',
      `Error ENOENT: ${at('none')} cannot be read: No such file or directory`,
      `Error EISDIR: ${folder} cannot be read: Is a directory`,
    ])
  })

  test('storage is made, made longer and kept; behind its end is nothing', async () => {
    const body = (host: Host, path: string): unknown => {
      const file = host.openStorage(path, 8192)
      host.writeAt(file, 5, toBytes('hello'))
      host.sync(file)
      host.close(file)
      const again = host.openStorage(path, 100)
      const longer = host.openStorage(path, 10_000)
      return [
        toText(host.readAt(again, 5, 5)),
        [...new Uint8Array(host.readAt(longer, 9998, 4))],
        host.readAt(again, 0, 0).byteLength,
        thrown(() => host.openStorage('/dev/null', 1)),
        thrown(() => host.openStorage('/proc/none/at/all', 1)),
        thrown(() => host.readAt(again, -1, 1)),
        thrown(() => host.writeAt(again, 0.5, toBytes('x'))),
      ]
    }
    expect(await call(body, at('storage'))).toEqual([
      ...['hello', [0, 0, 0, 0], 0],
      'Error EINVAL: /dev/null is neither a file nor a block device',
      'Error ENOENT: /proc/none/at/all cannot be opened: No such file or directory',
      expect.stringMatching(/^RangeError .*at is to be a whole number/),
      expect.stringMatching(/^RangeError .*at is to be a whole number/),
    ])
    expect(statSync(at('storage')).size).toBe(10_000)
    expect(statSync(at('storage')).mode & 0o777).toBe(0o600)
  })

  test('a file is locked until the descriptor is closed, and can only be read by it', async () => {
    writeFileSync(at('lock'), 'content')
    const body = (host: Host, path: string): unknown => {
      const lock = host.lock(path)
      const kept = [host.lock(path), thrown(() => host.writeAt(lock, 0, toBytes('x')))]
      host.close(lock)
      const again = host.lock(path)
      return [lock >= 0, ...kept, again >= 0, thrown(() => host.lock(`${path}-not`))]
    }
    expect(await call(body, at('lock'))).toEqual([
      ...[true, -1, expect.stringContaining('cannot be written: Bad file descriptor'), true],
      expect.stringMatching(/^Error ENOENT: .*lock-not cannot be opened/),
    ])
    expect(readFileSync(at('lock'), 'latin1')).toBe('content')
  })
})

describe.skipIf(noBoot !== null)(titled('what perdure-boot calculates', noBoot), () => {
  test('hashes and signatures are those of Node, of a part of a buffer, too', async () => {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519')
    const key = publicKey.export({ type: 'spki', format: 'der' }).subarray(-32)
    const message = Buffer.from('a message')
    const signature = sign(null, message, privateKey)
    const given = [key, message, signature].map((one) => [...one])
    const body = (host: Host, [key, message, signature]: number[][]): unknown => {
      class Buffer extends Uint8Array {}
      const inside = (bytes: number[]): Uint8Array => {
        const all = Buffer.from([9, 9, 9, ...bytes, 9])
        return new Buffer(all.buffer, 3, bytes.length)
      }
      const isSigned = (by: number[]): boolean =>
        host.verify(inside(key!), inside(message!), inside(by))
      return [
        [...new Uint8Array(host.sha256(inside(message!)))],
        [...new Uint8Array(host.sha256(new Uint8Array(0)))],
        isSigned(signature!),
        isSigned(signature!.with(3, signature![3]! ^ 1)),
        isSigned(signature!.slice(1)),
        thrown(() => host.verify(inside(message!), inside(message!), inside(signature!))),
      ]
    }
    const hash = (bytes: Buffer): number[] => [...createHash('sha256').update(bytes).digest()]
    expect(await call(body, given)).toEqual([
      ...[hash(message), hash(Buffer.alloc(0)), true, false, false],
      'RangeError undefined: key is to have 32 bytes',
    ])
  })

  test('brotli is unpacked up to a bound, whole and with nothing behind it', async () => {
    const large = Buffer.from(Array.from({ length: 700_000 }, (_, i) => (i * i) >> 7))
    writeFileSync(at('packed'), brotliCompressSync(large))
    writeFileSync(at('packed-nothing'), brotliCompressSync(Buffer.alloc(0)))
    const body = (host: Host, folder: string): unknown => {
      const packed = new Uint8Array(host.readFile(`${folder}/packed`, 1 << 20))
      const nothing = new Uint8Array(host.readFile(`${folder}/packed-nothing`, 100))
      return [
        [...new Uint8Array(host.sha256(new Uint8Array(host.brotli(packed, 700_000))))],
        host.brotli(packed, 1 << 30).byteLength,
        host.brotli(nothing, 0).byteLength,
        thrown(() => host.brotli(packed, 699_999)),
        thrown(() => host.brotli(packed.subarray(0, packed.length - 1), 1 << 20)),
        thrown(() => host.brotli(new Uint8Array([...packed, 0]), 1 << 20)),
        thrown(() => host.brotli(toBytes('hello, world'), 1 << 20)),
      ]
    }
    expect(await call(body, folder)).toEqual([
      ...[[...createHash('sha256').update(large).digest()], 700_000, 0],
      'Error EFBIG: unpacked, the bytes are more than 699999',
      'Error undefined: the packed bytes are cut short',
      'Error undefined: 1 bytes follow the packed ones',
      expect.stringMatching(/^Error undefined: the packed bytes are no brotli: /),
    ])
  })
})

describe.skipIf(noBoot !== null)(titled('programs of perdure-boot', noBoot), () => {
  test('ends are told: exit codes, and signals below zero', async () => {
    const commands = ['exit 7', 'true', 'kill -9 $$', 'kill -6 $$']
    const one = start(shells, commands)
    expect(await one.over()).toBe(0)
    const told = ['exit 7: 7', 'kill -6 $$: -6', 'kill -9 $$: -9', 'true: 0']
    expect(one.stdout.trim().split('\n').sort()).toEqual(told)
    expect(one.stderr).toBe('')
  })

  test('a signal reaches a program of ours, and no other process', async () => {
    const body = (host: Host, other: number): Script => {
      const args = ['sh', '-c', 'sleep 600 & wait']
      const pid = host.spawn({ program: '/bin/sh', args, env: [], inherits: [] })
      host.kill(other, 'KILL')
      host.print(thrown(() => host.kill(pid, 'SIGTERM')))
      host.kill(pid, 'TERM')
      return {
        watch: () => ({ readable: [], writable: [], untilMs: host.nowMs() + 60_000 }),
        turn: ({ ended }) => {
          for (const { status } of ended) host.print(`${status}`)
          host.kill(pid, 'KILL')
          if (ended.length > 0) host.exit(0)
        },
      }
    }
    const other = start(shells, ['sleep 600'])
    const one = start(body, other.child.pid!)
    await one.says('-15\n')
    expect(one.stdout).toContain("RangeError undefined: there is no signal 'SIGTERM'\n")
    expect(other.child.exitCode ?? other.child.signalCode).toBe(null)
  })

  test('a program has descriptors that it is given, stdio, its variables, no more', async () => {
    const body = (host: Host): Script => {
      const [a, b, c] = ['a', 'b', 'c'].map((name) => host.memoryFile(name, toBytes(name), false))
      const list = 'for one in /proc/self/fd/*; do echo "$one"; done | tr "\\n" " "'
      const command = `cat <&3; cat <&4; cat <&5; readlink /proc/$$/fd/0; env | sort; ${list}`
      host.spawn({
        ...{ program: '/bin/sh', args: ['sh', '-c', command] },
        ...{ env: ['PATH=/usr/bin:/bin', 'MINE=1'], inherits: [c!, a!, b!] },
      })
      return {
        watch: () => ({ readable: [], writable: [], untilMs: host.nowMs() + 60_000 }),
        turn: ({ ended }) => {
          if (ended.length > 0) host.exit(0)
        },
      }
    }
    const one = start(body, null, { SECRET: 'x' })
    expect(await one.over()).toBe(0)
    expect(one.stdout).toContain('cab/dev/null\nMINE=1\nPATH=/usr/bin:/bin\n')
    const open = [...one.stdout.matchAll(/fd\/(\d+)/g)].map(([, number]) => Number(number))
    // The last is the folder that the shell itself is reading.
    expect(open.slice(0, 6)).toEqual([0, 1, 2, 3, 4, 5])
    expect(open.length).toBeLessThanOrEqual(7)
    expect(one.stdout).not.toContain('SECRET')
  })

  test('a program has no signal that is blocked or ignored', async () => {
    const one = start(shells, ["exec grep -E '^Sig(Blk|Ign)' /proc/self/status"])
    expect(await one.over()).toBe(0)
    expect(one.stdout).toMatch(/SigBlk:\s0+\nSigIgn:\s0+\n/)
  })

  test('a file of memory is sealed, and no program unless that was said', async () => {
    const body = (host: Host): unknown => {
      const bytes = new Uint8Array(host.readFile('/bin/true', 1 << 24))
      const data = host.memoryFile('data', bytes, false)
      const program = host.memoryFile('true', bytes, true)
      const words = { args: ['true'], env: [], inherits: [] }
      const same = host.readAt(program, 0, bytes.length)
      return [
        toText(host.sha256(new Uint8Array(same))) === toText(host.sha256(bytes)),
        thrown(() => host.writeAt(program, 0, toBytes('x'))),
        thrown(() => host.writeAt(data, bytes.length, toBytes('x'))),
        thrown(() => host.spawn({ program: `/proc/self/fd/${data}`, ...words })),
        thrown(() => host.spawn({ program: '/proc/self/fd/99', ...words })),
      ].map((one) => `${one}`.replace(/(descriptor |fd\/)\d+/, '$1N'))
    }
    const size = readFileSync('/bin/true').length
    expect(await call(body, null)).toEqual([
      'true',
      'Error EPERM: 1 bytes at 0 of descriptor N cannot be written: Operation not permitted',
      `Error EPERM: 1 bytes at ${size} of descriptor N cannot be written: Operation not permitted`,
      'Error EACCES: /proc/self/fd/N cannot be started: Permission denied',
      'Error EBADF: program: the script has no descriptor for /proc/self/fd/N',
    ])
  })

  test('a program runs from a file of memory, with others beside it', async () => {
    const body = (host: Host): Script => {
      const first = host.memoryFile('first', toBytes('one '), false)
      const bytes = new Uint8Array(host.readFile('/bin/cat', 1 << 24))
      // Its number is one that something inherited is to have.
      const program = host.memoryFile('cat', bytes, true)
      const last = host.memoryFile('last', toBytes('two\n'), false)
      const pid = host.spawn({
        ...{ program: `/proc/self/fd/${program}`, env: [] },
        ...{ args: ['cat', '/proc/self/fd/3', '/proc/self/fd/5'], inherits: [first, last, last] },
      })
      host.close(program)
      return {
        watch: () => ({ readable: [], writable: [], untilMs: host.nowMs() + 60_000 }),
        turn: ({ ended }) => {
          if (ended.length > 0) host.print(`${ended[0]!.pid === pid} ${ended[0]!.status}`)
          if (ended.length > 0) host.exit(0)
        },
      }
    }
    const one = start(body, null)
    expect(await one.over()).toBe(0)
    expect(one.stdout).toBe('one two\ntrue 0\n')
    expect(one.stderr).toBe('')
  })

  test('what cannot be started is told, and is no process', async () => {
    writeFileSync(at('no-program'), 'x')
    chmodSync(at('no-program'), 0o600)
    writeFileSync(at('nonsense'), '\0\0')
    chmodSync(at('nonsense'), 0o700)
    const body = (host: Host, folder: string): unknown => {
      const words = { args: ['x'], env: [], inherits: [] }
      const names = ['none', 'no-program', 'nonsense']
      const all = names.map((name) =>
        thrown(() => host.spawn({ program: `${folder}/${name}`, ...words })),
      )
      const long = { ...words, program: '/bin/true', args: ['x'.repeat(300_000)] }
      return [...all, thrown(() => host.spawn(long))]
    }
    expect(await call(body, folder)).toEqual([
      `Error ENOENT: ${at('none')} cannot be started: No such file or directory`,
      `Error EACCES: ${at('no-program')} cannot be started: Permission denied`,
      `Error ENOEXEC: ${at('nonsense')} cannot be started: Exec format error`,
      'Error E2BIG: /bin/true cannot be started: Argument list too long',
    ])
  })

  test('a program is told to end when its supervisor is killed', async () => {
    const one = start(shells, [
      'trap "echo told; exit" TERM; echo waits; while :; do sleep 0.02; done',
    ])
    await one.says('waits')
    one.child.kill('SIGKILL')
    await one.over()
    expect(one.stdout).toBe('waits\ntold\n')
  })

  test('SIGTERM and SIGINT are told once, and the script decides', async () => {
    const body = (host: Host): Script => {
      let told = 0
      let turns = 0
      host.print('ready')
      return {
        watch: () => ({
          readable: [],
          writable: [],
          untilMs: host.nowMs() + (told > 0 ? 20 : 1e6),
        }),
        turn: ({ stops }) => {
          if (stops) host.print(`told ${++told}`)
          if (told === 2 && ++turns === 3) host.exit(5)
        },
      }
    }
    const one = start(body, null)
    await one.says('ready')
    one.child.kill('SIGTERM')
    await one.says('told 1')
    one.child.kill('SIGINT')
    expect(await one.over()).toBe(5)
    expect(one.stdout).toBe('ready\ntold 1\ntold 2\n')
  })
})

describe.skipIf(noBoot !== null)(titled('sockets of perdure-boot', noBoot), () => {
  /** One line to a Unix socket and what comes back. */
  async function ask(path: string, line: string): Promise<string> {
    const socket = connect(path)
    socket.write(`${line}\n`)
    const [answer] = (await once(createInterface({ input: socket }), 'line')) as [string]
    socket.destroy()
    return answer
  }

  test('a Unix socket serves connections, and is for its owner alone', async () => {
    const path = at('socket')
    const one = start(echo, ['unix', path] as const)
    await one.says('ready')
    expect(statSync(path).mode & 0o777).toBe(0o600)
    const taken = (host: Host, path: string): string => thrown(() => host.listenUnix(path))
    const text = `cannot listen on the Unix socket ${path}: Address already in use`
    expect(await call(taken, path)).toBe(`Error EADDRINUSE: ${text}`)
    expect(await ask(path, 'hello')).toBe('HELLO')
    await one.says('gone')
    one.child.kill('SIGKILL')
    await one.over()
    const next = start(echo, ['unix', path] as const)
    await next.says('ready')
    expect(await ask(path, 'the end')).toBe('THE END')
    expect(await next.over()).toBe(0)
    expect(next.stderr).toBe('')
  })

  test('bytes are written as far as they are taken, and not to one that is gone', async () => {
    const body = (host: Host, path: string): Script => {
      const listener = host.listenUnix(path)
      let peer = -1
      let went = 0
      let phase = 'full'
      host.print('ready')
      return {
        watch: () => ({
          readable: peer < 0 ? [listener] : [],
          writable: peer < 0 || phase === 'full' ? [] : [peer],
          untilMs: host.nowMs() + 20,
        }),
        turn: ({ writable }) => {
          if (peer < 0) peer = host.accept(listener)
          if (peer < 0) return
          const took = host.write(peer, new Uint8Array(100_000))
          if (took > 0) went += took
          if (took === 0 && phase === 'full') {
            phase = 'wait'
            host.print(`full ${went > 0}`)
          }
          if (took === -1) {
            host.print(`gone ${writable.length}`)
            host.exit(0)
          }
        },
      }
    }
    const one = start(body, at('full'))
    await one.says('ready')
    const socket = connect(at('full'))
    socket.pause()
    await one.says('full true')
    socket.destroy()
    expect(await one.over()).toBe(0)
    expect(one.stdout).toContain('gone 1')
  })

  const ADDRESSES = [
    ['127.0.0.1', '127.0.0.1', /from 127\.0\.0\.1:\d+\n/],
    ['::1', '::1', /from \[::1\]:\d+\n/],
    ['0.0.0.0', '127.0.0.5', /from 127\.0\.0\.1:\d+\/::ffff:127\.0\.0\.5\n/],
    ['::', '::1', /from \[::1\]:\d+\/::1\n/],
  ] as const
  test.each(ADDRESSES)('UDP at %s answers from %s, which was asked', async (own, asked, peer) => {
    const one = start(answerDatagrams, own)
    await one.says('.\n')
    const port = Number(/port (\d+)/.exec(one.stdout)![1])
    const socket = createSocket(asked.includes(':') ? 'udp6' : 'udp4')
    servers.push(socket)
    for (const said of ['hello', '', 'end']) {
      socket.send(said, port, asked)
      const [bytes, from] = (await once(socket, 'message')) as [Buffer, { address: string }]
      expect([bytes.toString(), from.address]).toEqual([said.toUpperCase(), asked])
    }
    expect(await one.over()).toBe(0)
    expect(one.stdout).toMatch(peer)
    expect(one.stderr).toBe('')
  })

  test('an address that is taken or none, and a peer that is none, are refused', async () => {
    const body = (host: Host): unknown => {
      const socket = host.listenUdp('127.0.0.1', 0)
      const port = host.portOf(socket)
      return [
        thrown(() => host.listenUdp('127.0.0.1', port)).replace(`${port}`, 'PORT'),
        thrown(() => host.listenUdp('localhost', 1)).slice(0, 50),
        thrown(() => host.listenUdp('[::1]', 1)).slice(0, 30),
        thrown(() => host.sendTo(socket, 'nobody', toBytes('x'))),
        host.sendTo(socket, '[::1]:1', toBytes('x')) ?? 'dropped',
        host.receiveFrom(socket),
      ]
    }
    expect(await call(body, null)).toEqual([
      'Error EADDRINUSE: cannot listen on UDP 127.0.0.1:PORT: Address already in use',
      "Error undefined: 'localhost:1' is no address with ",
      "Error undefined: '[[::1]]:1' i",
      "Error EINVAL: 'nobody' is no peer that a datagram came from",
      'dropped',
      null,
    ])
  })

  test('a serial line carries bytes as they are, until it hangs up', async () => {
    const line = new Harness(compile('pty-harness', []), [])
    const path = await line.line()
    const one = start(echo, ['tty', path] as const)
    await one.says('ready')
    expect(await line.ask('hello')).toBe('HELLO')
    await line.kill()
    await one.says('gone')
    const body = (host: Host): string => thrown(() => host.openTty('/dev/null'))
    const text = '/dev/null is no serial line: Inappropriate ioctl for device'
    expect(await call(body, null)).toBe(`Error ENOTTY: ${text}`)
  })

  test('a child says how it is, and nobody else is heard', async () => {
    const body = (host: Host, [program, path]: readonly string[]): Script => {
      const heard = host.listenNotify(path!)
      const state = "(host) => { host.notify('READY=1'); host.exit(0) }"
      const child = host.spawn({
        ...{ program: program!, args: ['boot', state, 'null'] },
        ...{ env: [`NOTIFY_SOCKET=${path}`], inherits: [] },
      })
      return {
        watch: () => ({ readable: [heard], writable: [], untilMs: host.nowMs() + 60_000 }),
        turn: () => {
          for (let one = host.receiveFrom(heard); one !== null; one = host.receiveFrom(heard)) {
            host.print(`${toText(one.bytes)} of ${one.peer === String(child)}.`)
          }
        },
      }
    }
    const path = at('notify')
    const one = start(body, [program, path] as const)
    await one.says('.')
    expect(statSync(path).mode & 0o777).toBe(0o600)
    const stranger = start(
      (host: Host) => {
        host.notify('STOPPING=1')
        host.exit(0)
        return {} as Script
      },
      null,
      { NOTIFY_SOCKET: path },
    )
    expect(await stranger.over()).toBe(0)
    one.child.kill('SIGKILL')
    await one.over()
    expect(one.stdout).toBe('READY=1 of true.\n')
    const again = start(body, [program, path] as const)
    await again.says('READY=1 of true.')
  })

  test('another program is asked, and one that says nothing is not waited for', async () => {
    const server = createServer((socket) => {
      socket.on('error', () => {})
      socket.on('data', (bytes) => {
        const line = bytes.toString().trim()
        if (line === 'status') socket.write('{"fine":')
        if (line === 'status') socket.write('true}\nmore\n')
        if (line === 'bye') socket.end('half a line')
      })
    })
    servers.push(server)
    server.listen(at('asked'))
    await once(server, 'listening')
    const body = (host: Host, folder: string): unknown => {
      const path = `${folder}/asked`
      const answers = ['status', 'bye'].map((line) => host.ask(path, line, 10_000))
      const from = host.nowMs()
      const none = host.ask(path, 'silence', 60)
      const waited = host.nowMs() - from
      return [...answers, none, waited >= 59, host.ask(`${folder}/nobody`, 'status', 10_000)]
    }
    expect(await call(body, folder)).toEqual(['{"fine":true}', null, null, true, null])
  })
})

describe.skipIf(noBoot !== null)(titled('mistakes of the script', noBoot), () => {
  test('a function that gets no arguments, or wrong ones, throws a TypeError', async () => {
    const body = (host: Host): unknown => {
      const functions = Object.entries(host).filter(([, value]) => typeof value === 'function')
      const wrong = functions.filter(([name, value]) => {
        if (name === 'nowMs') return false
        const none = thrown(() => (value as () => unknown)())
        const odd = thrown(() => value({}, {}, {}))
        return ![none, odd].every((text) => text.startsWith('TypeError '))
      })
      return [functions.length, wrong.map(([name]) => name)]
    }
    expect(await call(body, null)).toEqual([29, []])
  })

  test('what is nearly right is refused, in words', async () => {
    const body = (host: Host): string[] => {
      const any = (value: unknown): never => value as never
      const spawn = { program: '/bin/true', args: ['true'], env: [], inherits: [] }
      return [
        () => host.readFile('a\0b', 1),
        () => host.readFile('', 1),
        () => host.readFile('/', Number.NaN),
        () => host.readFile('/', any(1n)),
        () => host.sha256(any([1])),
        () => host.sha256(any(new Uint16Array(1))),
        () => host.memoryFile('x', new Uint8Array(1), any(1)),
        () => host.log(any('loud'), 'x'),
        () => host.exit(256),
        () => host.spawn({ ...spawn, args: any('true') }),
        () => host.spawn({ ...spawn, env: [any(1)] }),
        () => host.spawn({ ...spawn, inherits: [1] }),
        () => host.spawn(any({ ...spawn, inherits: undefined })),
      ].map((call) => thrown(call))
    }
    expect(await call(body, null)).toEqual([
      'TypeError undefined: path has a NUL inside',
      'RangeError undefined: path is to have 1 to 4095 bytes',
      'RangeError undefined: most is to be a whole number from 0 to 1073741824',
      'TypeError undefined: most is to be a number',
      'TypeError undefined: bytes is to be a Uint8Array',
      'TypeError undefined: bytes is to be a Uint8Array',
      'TypeError undefined: executable is to be true or false',
      'RangeError undefined: level is to be info, warning or error',
      'RangeError undefined: code is to be a whole number from 0 to 255',
      'TypeError undefined: args is to be an array',
      'TypeError undefined: env is to be a string',
      'Error EBADF: inherits: the script has no descriptor 1',
      'TypeError undefined: inherits is to be an array',
    ])
  })

  test('descriptors of the program itself, and those that are closed, are nobody’s', async () => {
    const body = (host: Host): string[] => {
      const file = host.memoryFile('x', new Uint8Array(1), false)
      host.close(file)
      const bytes = new Uint8Array(1)
      const calls = [0, 1, 2, 3, file, -1, 1e6].map((n) => () => host.close(n))
      return [
        ...calls,
        () => host.read(1, 1),
        () => host.write(1, bytes),
        () => host.readAt(2, 0, 1),
        () => host.writeAt(2, 0, bytes),
        () => host.sync(2),
        () => host.accept(0),
        () => host.portOf(0),
        () => host.receiveFrom(0),
        () => host.sendTo(0, '127.0.0.1:1', bytes),
      ].map((call) => thrown(call).replace(/-?\d+$/, 'N'))
    }
    const answers = await call(body, null)
    const refused = 'Error EBADF: descriptor: the script has no descriptor N'
    expect(answers).toEqual(answers.map(() => refused))
  })

  const LOSSES: readonly (readonly [name: string, body: Start<null>, said: string])[] = [
    [
      'at its start',
      () => {
        throw new TypeError('oh\nno')
      },
      'reason="TypeError: oh;no"',
    ],
    [
      'when it is asked what to wait for',
      () => ({
        watch: () => {
          throw new Error('no watch')
        },
        turn: () => {},
      }),
      'reason="Error: no watch"',
    ],
    [
      'at its turn',
      (host) => ({
        watch: () => ({ readable: [], writable: [], untilMs: host.nowMs() }),
        turn: () => JSON.parse('{'),
      }),
      'reason="SyntaxError: ',
    ],
    [
      'in a promise',
      (host) => ({
        watch: () => ({ readable: [], writable: [], untilMs: host.nowMs() }),
        turn: () => {
          void Promise.resolve().then(() => Promise.reject(new Error('late')))
        },
      }),
      'reason="Error: late"',
    ],
    [
      'with a watch that is none',
      () => ({ watch: () => ({ readable: [7], writable: [], untilMs: 0 }), turn: () => {} }),
      'reason="Error: readable: the script has no descriptor 7"',
    ],
    [
      'without an end of its recursion',
      () => {
        const deeper = (n: number): number => deeper(n + 1) + 1
        deeper(0)
        return {} as Script
      },
      'stack overflow',
    ],
    [
      'without memory',
      () => {
        const all: Uint8Array[] = []
        for (;;) all.push(new Uint8Array(16 << 20))
      },
      'out of memory',
    ],
  ]
  test.each(LOSSES)('an exception %s ends the program with 70', async (_name, body, said) => {
    const one = start(body, null)
    expect(await one.over()).toBe(70)
    expect(one.stderr).toContain(' error the script stopped ')
    expect(one.stderr).toContain(said)
    expect(one.stderr.trim().split('\n').length).toBeLessThanOrEqual(2)
  })

  test('a promise that is refused and looked after is no failure', async () => {
    const body = (host: Host): Script => {
      const refused = Promise.reject(new Error('expected'))
      refused.catch(() => host.exit(4))
      return {
        watch: () => ({ readable: [], writable: [], untilMs: host.nowMs() + 60_000 }),
        turn: () => {},
      }
    }
    expect(await start(body, null).over()).toBe(4)
  })
})
