/**
 * What the command refuses, in a process of its own: every command with each kind of refusal.
 *
 * Invariant: the exit code is the documented one; one line on stderr names the file or the
 * address, and says what to do next; stdout is empty; nothing is left behind, and nothing that was
 * there is changed.
 */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Nvdimm, openNvdimm } from '../../boards/emulator/index.ts'
import * as exitCodes from '../../host-driver/command/base/exit-codes.ts'
import { messageOf } from '../../host-driver/command/base/system-errors.ts'
import { connect } from '../../host-driver/connect.ts'
import { openLocal } from '../../host-driver/local.ts'
import { numbersOf, read } from '../pages/tables.ts'
import { PLAIN, type Run } from '../support/command/command.ts'
import { noService, PERDURED } from '../support/native/service.ts'
import { ROOT } from '../support/source/sources.ts'

const COMMAND = join(ROOT, 'dist/perdure.js')
const folder = realpathSync(mkdtempSync(join(tmpdir(), 'perdure-refused-')))
const at = (name: string): string => join(folder, name)
mkdirSync(at('dir'))

/** Has a port, so that nobody else gets it. */
const holder: Socket = createSocket('udp4')
let taken = ''

/** An image that this process has, as a card would. */
let held: Nvdimm

/** Runs a program without what only root may: the modes of files hold then for root as well. */
const isRoot = process.getuid?.() === 0
const AS_USER = isRoot ? ['setpriv', '--inh-caps=-all', '--bounding-set=-all'] : ['env']
const isUser = spawnSync(AS_USER[0]!, [...AS_USER.slice(1), 'true']).status === 0

beforeAll(async () => {
  holder.bind(0, '127.0.0.1')
  await once(holder, 'listening')
  taken = `127.0.0.1:${holder.address().port}`
  const local = await openLocal({ path: at('good.img'), bytes: 1 << 20, engine: 'node', seed: 1 })
  const dpu = await connect(local.wire, { seed: 1, warn: () => {} })
  await dpu.format()
  const region = await dpu.provision({ name: 'orders', slots: 4, capacity: 100 })
  await region.persist(0, Buffer.from('one')).persisted
  await dpu.close()
  local.close()
  held = openNvdimm({ path: at('held.img'), bytes: 1 << 16 })
  writeFileSync(at('blank.img'), Buffer.alloc(1 << 16))
  writeFileSync(at('text'), 'hello')
  const head = { trace: 'perdure', version: 1, board: 'emulator', partBytes: 1 << 16 }
  const first = JSON.stringify({ ...head, dirtyShutdowns: 0 })
  writeFileSync(at('blank.trace'), `${first}\n{"n":1,"e":"fence"}\n`)
  writeFileSync(at('empty.trace'), `${first}\n`)
  writeFileSync(at('old.pcap'), 'what was there')
  for (const [name, mode] of [
    ['shared.key', 0o640],
    ['empty.key', 0o600],
  ] as const) {
    writeFileSync(at(name), '')
    chmodSync(at(name), mode)
  }
  mkdirSync(at('closed'))
  for (const name of ['secret', 'closed/image']) writeFileSync(at(name), Buffer.alloc(4096))
  mkdirSync(at('fixed'))
  for (const name of ['secret', 'closed']) chmodSync(at(name), 0)
  chmodSync(at('fixed'), 0o555)
})

afterAll(() => {
  holder.close()
  held.close()
  for (const name of ['closed', 'fixed']) chmodSync(at(name), 0o700)
  rmSync(folder, { recursive: true })
})

/** Every file that can be looked into, with what it holds. */
function content(): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => isRoot || !/secret|closed/.test(name))
    .map((name) => {
      const bytes = statSync(at(name)).isFile() ? readFileSync(at(name)) : ''
      return `${name} ${createHash('sha256').update(bytes).digest('hex')}`
    })
    .sort()
}

async function endOf(child: ChildProcess): Promise<Run> {
  const text = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name]?.setEncoding('utf8').on('data', (piece: string) => {
      text[name] += piece
    })
  }
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, ...text }
}

/** Runs the command in the folder, through what stands in front of it. */
function run(args: readonly string[], through: readonly string[]): Promise<Run> {
  const [program, ...words] = [...through, process.execPath, COMMAND, ...args]
  const child = spawn(program!, words, { cwd: folder, env: PLAIN })
  child.stdin.end()
  // What serves where it should refuse would not end.
  child.stdout.once('data', () => child.kill())
  return endOf(child)
}

/** What it is given, its exit code, and what its one line has: a name, and what to do next. */
type Row = [args: string, code: number, ...words: string[]]

async function expectRefused([args, code, ...words]: Row, through: string[] = []): Promise<void> {
  const before = content()
  const ended = await run(args.replaceAll('TAKEN', taken).split(' '), through)
  expect(ended.stderr).toMatch(/^[^\n]+\n$/)
  for (const one of words) expect(ended.stderr).toContain(one.replaceAll('TAKEN', taken))
  expect(ended).toMatchObject({ code, stdout: '' })
  expect(content()).toEqual(before)
}

const MAKES = "'perdure emulate none --create' makes it"
const CHECK = 'Check its name and its folder'
const NAME_A_FILE = 'Name a file.'

/** A folder that is there, and in which nobody makes anything. */
const OF_PROC: readonly Row[] = existsSync('/proc/self')
  ? [
      [
        'demo --folder /proc/x',
        66,
        '/proc/x: no folder can be made there (ENOENT)',
        'Name another',
      ],
      ['demo --folder /proc/x/y', 66, '/proc/x: no folder can be made there (ENOENT)', 'Name'],
      ['demo --folder /proc', 66, '/proc/file.bin: it is not there (ENOENT)', CHECK],
      ['demo text --folder /proc', 66, '/proc/wire.pcap: it is not there (ENOENT)', CHECK],
    ]
  : []

const FILES: readonly Row[] = [
  ['demo none', 66, 'none: it is not there (ENOENT)', CHECK],
  ['demo dir', 65, 'dir: it is a folder (EISDIR)', NAME_A_FILE],
  ['demo --folder text', 65, 'text: it is no folder (EEXIST)', 'Name a folder.'],
  ...OF_PROC,
  ['emulate none', 66, 'none: it is not there (ENOENT)', '--create'],
  ['emulate dir --create', 65, 'dir cannot be opened: it is a folder (EISDIR)', NAME_A_FILE],
  ['emulate no/new --create', 66, 'no/new cannot be opened: it is not there (ENOENT)', CHECK],
  ['emulate text/new --create', 66, 'text/new cannot be opened', '(ENOTDIR)', 'Check the path.'],
  ['emulate text', 65, 'text: 5 bytes', 'multiple of 4096, up to 1 GiB', 'name an image'],
  ['emulate good.img --size 2M', 65, 'good.img is a part of 1048576 bytes', 'ask for that size'],
  ['persist none orders text', 66, 'none: it is not there (ENOENT)', MAKES],
  ['persist good.img orders none', 66, 'none: it is not there (ENOENT)', CHECK],
  ['persist good.img orders dir', 65, 'dir: it is a folder (EISDIR)', NAME_A_FILE],
  ['persist dir orders text', 65, 'dir: it is a folder (EISDIR)', NAME_A_FILE],
  ['read none orders', 66, 'none: it is not there (ENOENT)', MAKES],
  ['read dir orders', 65, 'dir: it is a folder (EISDIR)', NAME_A_FILE],
  ['read good.img orders --engine node --out dir', 65, 'dir cannot be written', NAME_A_FILE],
  ['read good.img orders --engine node --out no/x', 66, 'no/x cannot be written', CHECK],
  [
    'read good.img orders --raw --engine node --out /dev/full',
    74,
    '/dev/full',
    '(ENOSPC)',
    'Make some',
  ],
  ['verify none', 66, 'none: it is not there (ENOENT)', MAKES],
  ['verify dir', 65, 'dir: it is a folder (EISDIR)', NAME_A_FILE],
  ['verify text', 65, 'text: 5 bytes', 'name an image'],
  ['verify blank.img --engine node', 65, 'blank.img: this part cannot serve', 'Format the part'],
  ['inspect none', 66, 'none: it is not there (ENOENT)', MAKES],
  ['inspect dir', 65, 'dir: it is a folder (EISDIR)', NAME_A_FILE],
  ['inspect text', 65, 'text: 5 bytes', 'name an image'],
  ['recover none', 66, 'none: it is not there (ENOENT)', MAKES],
  ['recover dir', 65, 'dir: it is a folder (EISDIR)', NAME_A_FILE],
  ['capture none', 66, 'none: it is not there (ENOENT)', CHECK],
  ['capture dir', 65, 'dir: it is a folder (EISDIR)', NAME_A_FILE],
  ['timeline none', 66, 'none: it is not there (ENOENT)', CHECK],
  ['timeline dir', 65, 'dir: it is a folder (EISDIR)', NAME_A_FILE],
  ['timeline text', 65, 'text: line 1 is not the first', 'Name a trace'],
  ['timeline empty.trace', 65, 'empty.trace: line 1 is all there is', 'Name a trace'],
  ['timeline text --images 1', 64, "'1'", 'a whole number, 2 to 256'],
  ['timeline text --steps 0', 64, "'0'", 'a whole number, 1'],
  ['timeline blank.trace -o dir', 65, 'dir cannot be written', NAME_A_FILE],
  ['emulate --udp 127.0.0.1:0 --timeline dir', 65, 'dir: it is a folder (EISDIR)', NAME_A_FILE],
  ['capture text', 65, 'text: not a capture', 'Name a pcap file'],
  ['flash none --port unix:none', 66, 'unix:none', 'it is not there (ENOENT)', CHECK],
  ['emulate good.img --smp unix:no/x', 66, 'no: it is not there (ENOENT)', CHECK],
  ['emulate good.img --smp unix:x --trust none', 66, 'none: it is not there (ENOENT)', CHECK],
  ['emulate good.img --smp unix:x --trust text', 65, 'text: it holds no such key', 'Name a public'],
  ['image inspect none', 66, 'none: it is not there (ENOENT)', CHECK],
  ['image inspect dir', 65, 'dir: it is a folder (EISDIR)', NAME_A_FILE],
  ['image inspect text', 65, 'text: 5 bytes are no image', "'perdure image create'"],
  ['image verify good.img --trust none', 66, 'none: it is not there (ENOENT)', CHECK],
  ['image verify good.img --trust text', 65, 'text: it holds no such key', 'Name a public key'],
  ['image create --board emulator --signing-key text', 65, 'text: it holds no such key', 'private'],
  ['image create --board emulator --bundle none', 66, 'none: it is not there (ENOENT)', CHECK],
  ['image keygen text', 65, 'text: it is there already (EEXIST)', 'Name another one.'],
  ['key show none', 66, 'none: it is not there (ENOENT)', "'perdure key new' makes one."],
  ['key show dir', 65, 'dir: it is a folder (EISDIR)', NAME_A_FILE],
  ['key show shared.key', 65, 'shared.key: others may read this', 'chmod 600 shared.key'],
  ['key show empty.key', 65, 'empty.key: it holds no private key', "'perdure key new' has made"],
  ['key new --out text', 65, 'text is there already', 'never overwritten', 'name another file.'],
  ['key new --out text/x', 65, 'text: it is no folder (EEXIST)', 'Name a folder.'],
  ['peers list none', 66, 'none: it is not there (ENOENT)', CHECK],
  ['peers list good.img', 69, 'it has no peers', 'give the card a key and a peers file'],
  ['peers remove good.img ann', 69, 'it has no peers', 'give the card a key'],
  ['peers add good.img ann ann admin', 65, '64 hexadecimal digits', "'perdure key show' prints"],
  ['console unix:none status', 66, 'unix:none: it is not there (ENOENT)', CHECK],
  ['console unix:text status', 69, 'unix:text: nothing listens there (ECONNREFUSED)', 'Start'],
  ['console /nonexistent status', 66, '/nonexistent: it is not there (ENOENT)', CHECK],
  ['console /tmp status', 65, '/tmp: it is a folder (EISDIR)', NAME_A_FILE],
  [`inspect ${'x'.repeat(300)}`, 64, 'the name is too long (ENAMETOOLONG)', 'Name a shorter one.'],
]

const ADMINISTER: readonly Row[] = [
  ['check good.img --timeout 0', 64, "'0'", 'seconds, more than 0, to 3600'],
  ['check good.img --allow all', 64, "'all'", 'volatile or open'],
  ['monitor', 64, "missing required argument 'target'"],
  ['monitor good.img', 64, 'a card is what can be monitored', "'perdure inspect good.img'"],
  ['monitor perdure://TAKEN perdure://TAKEN', 64, 'is there twice', 'name it once'],
  ['monitor perdure://TAKEN --interval 0', 64, "'0'", 'seconds, 0.1 to 3600'],
  ['monitor perdure://TAKEN --count 0', 64, "'0'", 'a whole number, 1 or more'],
  ['monitor perdure://TAKEN --timeout x', 64, "'x'", 'seconds, 0.1 to 3600'],
  ['monitor perdure://127.0.0.1:70000', 64, '127.0.0.1:70000', '1 to 65535'],
  ['monitor perdure://TAKEN --metrics --json', 64, '--metrics is a text of its own', '--json'],
  ['monitor perdure://TAKEN pcie:x --smp unix:x', 64, '--smp is the port of one card', 'alone'],
  ['monitor perdure://TAKEN --metrics --web', 64, '--metrics is a text of its own', '--web'],
  ['monitor perdure://TAKEN --web 65536', 64, "'65536'", 'a port, 0 to 65535'],
  ['monitor perdure://TAKEN --metrics --told', 64, '--metrics is one look', '--told'],
  ['monitor pcie:x --told', 64, 'pcie:x: a card tells nothing to its own host', '--told'],
  ['monitor pcie:none', 66, 'none is not there', "'perdure emulate --host none' makes it"],
  ['status none', 66, 'none: it is not there (ENOENT)', MAKES],
  ['status dir', 65, 'dir: it is a folder (EISDIR)', NAME_A_FILE],
  ['status text', 65, 'text: 5 bytes', 'name an image'],
  ['counters none', 66, 'none: it is not there (ENOENT)', MAKES],
  ['format none', 66, 'none: it is not there (ENOENT)', MAKES],
  ['format text', 65, 'text: 5 bytes', 'name an image'],
  ['format good.img --engine node --dry-run', 69, '(FORMATTED)', 'would lose them'],
  ['format blank.img --device-id 12', 64, "'12'", '16 bytes, as 32 hexadecimal digits'],
  ['region list none', 66, 'none: it is not there (ENOENT)', MAKES],
  ['region list blank.img --engine node', 65, 'BLANK', "'perdure format blank.img'"],
  ['region create none x --bytes 1', 66, 'none: it is not there (ENOENT)', MAKES],
  ['region create good.img x', 64, 'say --slots and --capacity', 'or --bytes'],
  ['region create good.img x --slots 4', 64, 'say --slots and --capacity', 'or --bytes'],
  ['region create good.img x --bytes 64 --slots 4', 64, 'without records', 'one or the other'],
  ['region create good.img x --bytes 64 --copies 2', 64, 'without records', 'one or the other'],
  ['region create good.img x --write-persist', 64, '--write-persist is of --bytes', '--bytes'],
  ['region create good.img x --slots 0', 64, "'0'", 'a whole number, 1 to 2147483647'],
  ['region create good.img x --bytes much', 64, "'much'", 'bytes, or as 64K, 16M, 1G'],
  ['region create good.img x --bytes 64 --placement moon', 64, "'moon'", 'local, bypass, through'],
  ['region create good.img x --slots 1 --capacity 1 --copies 5', 64, "'5'", '2 to 4'],
  ['region remove none x', 66, 'none: it is not there (ENOENT)', MAKES],
  ['scan none', 66, 'none: it is not there (ENOENT)', MAKES],
  ['discard none orders:1', 66, 'none: it is not there (ENOENT)', MAKES],
  ['discard good.img orders', 64, "'orders'", 'region:record'],
  ['publish good.img orders 7471', 64, 'a card is what offers', "'perdure emulate IMAGE'"],
  ['publish perdure://TAKEN orders 0', 64, "'0'", 'a whole number, 1 to 65535'],
  ['publish perdure://TAKEN orders 7471', 69, 'TAKEN (no answer)', 'See that the card is on'],
  ['publish perdure://TAKEN orders 1 --form x', 64, "'x'", 'librpma, capability, announced'],
  ['publish perdure://TAKEN orders 1 --connections 0', 64, "'0'", '1 to 65535'],
  ['withdraw good.img 7471', 64, 'a card is what offers', "'perdure emulate IMAGE'"],
  ['withdraw perdure://TAKEN 65536', 64, "'65536'", 'a whole number, 1 to 65535'],
  ['detach good.img orders', 64, 'a card is what offers', "'perdure emulate IMAGE'"],
  ['status pcie:none', 66, 'none is not there', "'perdure emulate --host none' makes it"],
]

const CARDS: readonly Row[] = [
  ['persist 10.0.0.2:4791 orders text', 66, '10.0.0.2:4791', 'say perdure://10.0.0.2:4791.'],
  ['read localhost:9 orders', 66, 'localhost:9', 'say perdure://localhost:9.'],
  ['verify [::1]:9', 66, '[::1]:9', 'say perdure://[::1]:9.'],
  ['inspect ::1', 66, '::1', 'say perdure://[::1].'],
  ['recover udp://card:4791', 66, 'udp://card:4791', 'say perdure://card:4791.'],
  ['inspect perdure://127.0.0.1:70000', 64, '127.0.0.1:70000', '1 to 65535'],
  ['recover perdure://127.0.0.1', 64, 'when it starts', "'perdure inspect perdure://127.0.0.1'"],
  ['inspect perdure://TAKEN', 69, 'TAKEN (no answer)', 'See that the card is on'],
  ['persist perdure://card.invalid orders text', 69, "'card.invalid' does not resolve", 'Check it'],
  ['read perdure://card.invalid orders', 69, "'card.invalid' does not resolve", 'Check it'],
  ['verify perdure://card.invalid', 69, "'card.invalid' does not resolve", 'Check it'],
  ['read pcie:none orders', 66, 'none is not there', "'perdure emulate --host none' makes it"],
  ['verify pcie:dir', 65, 'dir cannot be opened: it is a folder (EISDIR)', NAME_A_FILE],
  ['inspect pcie:text', 65, 'text is no port of ours', 'name another file'],
  [
    'read good.img none --engine node',
    ...([69, "open 'none'", "See the names with 'perdure region list good.img'"] as const),
  ],
  ['read good.img orders --engine node', 65, "no file begins at slot 0 of 'orders'", '--raw gives'],
]

/** Somebody has the image. */
const HELD: readonly Row[] = [
  'emulate held.img --udp 127.0.0.1:0',
  'emulate held.img --create --host port',
  'persist held.img orders text',
  'recover held.img',
].map((args) => [args, 69, 'held.img is in use by process', 'stop that card first'])

/** What these starts have made is gone again: image, its lock, the files of the host. */
const STARTS: readonly Row[] = [
  ['emulate new --create --udp TAKEN', 69, 'TAKEN: it is in use already (EADDRINUSE)', 'port: 0'],
  ['emulate --udp TAKEN', 69, 'TAKEN: it is in use already (EADDRINUSE)', 'another port'],
  ['emulate new --create --udp 192.0.2.1:0', 69, '192.0.2.1', '(EADDRNOTAVAIL)', '127.0.0.1'],
  ['emulate new --create --udp card.invalid:0', 69, 'card.invalid', 'or say an address'],
  ['emulate new --create --netdev unix:text', 69, 'text: it is in use already', 'another path'],
  ['emulate new --create --netdev unix:no/x', 66, 'no: it is not there (ENOENT)', CHECK],
  ['emulate new --create --join unix:none --ip 10.0.0.3', 66, 'none: it is not there', CHECK],
  ['emulate new --create --join unix:text --ip 10.0.0.3', 69, 'text: nothing listens', 'Start who'],
  ['emulate new --create --host port --udp TAKEN', 69, 'TAKEN', 'another port'],
  ['emulate new --create --host no/x', 66, 'no/x cannot be opened', CHECK],
  ['emulate new --create --host text', 65, 'text is no port of ours', 'name another file'],
  ['emulate new --create --persistent 1M,far --udp TAKEN', 69, 'TAKEN', 'another port'],
  ['emulate new --create --persistent 1M,no/x', 66, 'no/x cannot be opened', CHECK],
  ['emulate new --create --udp TAKEN --capture old.pcap', 69, 'TAKEN', 'another port'],
  ['emulate new --create --udp TAKEN --trace old.pcap', 69, 'TAKEN', 'another port'],
  ['emulate new --create --udp 127.0.0.1:0 --trace no/x', 66, 'no/x: it is not there', CHECK],
  ['emulate new --create --udp 127.0.0.1:0 --trace new.txt --capture no/x', 66, 'no/x', CHECK],
  ['emulate new --create --udp 127.0.0.1:0 --trace old.pcap --capture no/x', 66, 'no/x', CHECK],
  ['emulate new --create --udp 127.0.0.1:0 --capture no/x', 66, 'no/x: it is not there', CHECK],
  [
    'emulate new --create --udp 127.0.0.1:0 --capture old.pcap --size 64K --region x:999:999',
    ...([69, "provision 'x'", 'NO_SPACE', 'Ask for fewer slots'] as const),
  ],
  [
    'emulate new --create --udp 127.0.0.1:0 --engine node --remove none --persistent 1M,far',
    ...([69, "remove 'none'", 'NO_REGION', 'See the names'] as const),
  ],
  ['emulate blank.img --udp TAKEN --create', 69, 'TAKEN', 'another port'],
  ['emulate good.img --udp TAKEN', 69, 'TAKEN', 'another port'],
]

const WORDS: readonly Row[] = [
  ['emulate new --create --size 1000', 64, "'1000'", 'whole pages of 4096, 36864 to 1073741824'],
  ['emulate new --create --size 0', 64, "'0'", 'whole pages of 4096, 36864 to 1073741824'],
  ['emulate new --create --size 2G', 64, "'2G'", 'whole pages of 4096, 36864 to 1073741824'],
  ['emulate new --create --size much', 64, "'much'", 'bytes, or as 64K, 16M, 1G'],
  ['emulate --size 4096', 64, "'4096'", '36864 to 1073741824'],
  ['emulate new --create --host p --host-memory 100', 64, "'100'", 'whole lines of 64'],
  ['emulate new --create --host p --host-memory 2G', 64, "'2G'", 'less than 2147483648'],
  ['emulate new --create --region x:0:100', 64, "'x:0:100'", 'slots: 1 to 2147483647'],
  ['emulate new --create --region x:4:64:5', 64, "'x:4:64:5'", 'copies 2 to 4'],
  ['emulate new --create --region x:4:65537', 64, "'x:4:65537'", 'capacity: 1 to 65536 bytes'],
  ['emulate new --create --region x', 64, "'x'", 'name:slots:capacity[:copies], copies 2 to 4'],
  ['emulate new --create --region x:4:64@moon', 64, "'moon' is no placement", 'bypass, through'],
  ['emulate new --create --region x:4:64@moon', 64, "'moon' is no placement", 'host or pair'],
  ['emulate new --create --region x:4:64@pair@bypass', 64, 'own NVDIMM', 'say @pair alone'],
  [
    'emulate new --create --region x:4:64:3@through@pair --persistent 1M,far --ddio',
    ...([64, 'own NVDIMM', 'say @pair alone'] as const),
  ],
  ['emulate new --create --region x:4:64:1@pair', 64, "'x:4:64:1@pair'", 'copies 2 to 4'],
  ['emulate new --create --region x:4:64@bypass', 64, "region 'x'", '--persistent gives it room'],
  [
    'emulate new --create --region x:4:64@through --persistent 1M,far',
    ...([64, "region 'x'", 'say --ddio as well, or @bypass'] as const),
  ],
  ['emulate new --create --publish 1@7000,flag', 64, "'1@7000,flag'", 'size@port,write-persist'],
  ['emulate new --create --publish 1@7000,moon', 64, "'1@7000,moon'", 'bypass ,through ,host'],
  [
    'emulate new --create --publish 1@7000,bypass',
    ...([64, "region 'port-7000'", '--persistent gives it room'] as const),
  ],
  [
    'emulate new --create --publish 1@7000,through --persistent 1M,far',
    ...([64, "region 'port-7000'", 'say --ddio as well, or @bypass'] as const),
  ],
  ['emulate new --create --publish 0@7000', 64, "'0@7000'", 'size: 1 byte or more'],
  ['emulate new --create --udp 127.0.0.1', 64, "'127.0.0.1'", 'address:port'],
  ['emulate new --create --join unix:x', 64, '--join', 'no other card has there, by --ip'],
  ['emulate new --create --join unix:x --ip fd00::3', 64, '--join', 'an IPv4 address'],
  [
    'emulate new --create --join unix:x --netdev unix:./x --ip 10.0.0.3',
    ...([64, 'the socket of --netdev', 'another card is meant'] as const),
  ],
  ['persist good.img orders text --attach 10.0.0.3', 64, 'an image has no network', 'for a card'],
  ['persist pcie:x orders text --attach 10.0.0.3', 64, 'without --attach', 'pcie:x/ADDRESS'],
  [
    'persist perdure://TAKEN orders text --attach 10.0.0.3 --resume',
    ...([64, 'nobody reads through a card', 'leave --resume out'] as const),
  ],
  ['persist good.img orders text --attach far', 64, "'far'", 'as 10.0.0.3 or [fd00::3]:7300'],
  ['persist good.img orders text --attach fd00::3:0:70000', 64, 'address[:port]', '1 to 65535'],
  ['persist good.img orders text --attach perdure://10.0.0.3', 64, 'KEY@address', 'without a port'],
  [
    `persist good.img orders text --attach perdure://${'0'.repeat(64)}@10.0.0.3:7300`,
    ...([64, 'KEY@address', 'without a port'] as const),
  ],
  [
    `persist good.img orders text --attach perdure://${'0'.repeat(64)}@10.0.0.3`,
    ...([64, 'nobody has that public key', 'perdure key show'] as const),
  ],
  [
    'persist good.img orders text --attach perdure://1234@[fd00::3]',
    ...([64, '64 hexadecimal digits', 'perdure key show'] as const),
  ],
  ['demo --record-bytes 65537', 64, '65537', '1 to 64K'],
  ['emulate good.img --smp tty', 64, "'tty'", 'unix:path or udp:address:port'],
  ['emulate --smp unix:x', 64, '--smp needs an image', 'beside it'],
  [
    'emulate good.img --smp unix:x --smp udp:127.0.0.1:0 --key none --peers none',
    ...([64, '--smp udp', 'say unix:path'] as const),
  ],
  ['emulate good.img --smp unix:x --engine node', 64, '--engine quickjs', 'runs bundles'],
  ['emulate good.img --trust text', 64, '--trust is of --smp', '--smp'],
  ['flash list --port tty', 64, 'tty', 'unix:PATH'],
  ['image create --board card', 64, "'card'", 'bluefield3'],
  [
    'image create --board emulator --image-version 256.0.0',
    64,
    "'256.0.0'",
    '8, 8, 16 and 32 bits',
  ],
  ['image create --board emulator --counter 4294967296', 64, 'a whole number, 0 to 4294967295'],
  ['persist good.img orders text --slot x', 64, "'x'", 'a whole number, 0 or more'],
  ['read good.img orders --engine node --slots 0..9', 64, "'orders'", 'ends at slot 3'],
  ['read good.img orders --engine node --slot 4', 64, "'orders'", 'ends at slot 3'],
  ['capture', 64, 'name a pcap file', '--install-dissector'],
  ['completion csh', 64, "'csh' is invalid", 'bash, zsh, fish'],
  ['capture text --install-dissector', 64, '--install-dissector takes no file', 'leave out text'],
  ['read good.img orders --raw --slot 1', 64, '--slot names a file', 'not with --raw'],
  ['read good.img orders --slots 0 --slot 1', 64, '--slot names a file', '--slots'],
]

const NO_PERMISSION: readonly Row[] = [
  ['demo secret', 77, 'secret', '(EACCES)', 'See who may'],
  ['demo --folder fixed', 77, 'file.bin: there is no permission (EACCES)', 'See who may'],
  ['demo text --folder fixed', 77, 'wire.pcap: there is no permission (EACCES)', 'See who may'],
  ['demo --folder fixed/x', 77, 'fixed/x: there is no permission (EACCES)', 'See who may'],
  ['emulate secret', 77, 'secret: there is no permission (EACCES)', 'See who may'],
  ['emulate fixed/new --create', 77, 'fixed/new cannot be opened', '(EACCES)', 'See who may'],
  ['emulate --host secret', 77, 'secret cannot be opened', '(EACCES)', 'See who may'],
  ['emulate --netdev unix:fixed/x', 77, 'fixed: there is no permission', 'See who may'],
  ['emulate --join unix:closed/x --ip 10.0.0.3', 77, 'closed/x: there is no permission', 'See who'],
  ['emulate --udp 127.0.0.1:0 --capture fixed/x', 77, 'fixed/x', '(EACCES)', 'See who may'],
  ['persist good.img orders secret', 77, 'secret: there is no permission', 'See who may'],
  ['persist secret orders text', 77, 'secret: there is no permission (EACCES)', 'See who may'],
  ['read secret orders', 77, 'secret: there is no permission (EACCES)', 'See who may'],
  ['read good.img orders --engine node --out fixed/x', 77, 'fixed/x cannot be written', 'See who'],
  ['verify secret', 77, 'secret: there is no permission (EACCES)', 'See who may'],
  ['inspect closed/image', 77, 'closed/image: there is no permission (EACCES)', 'See who may'],
  ['recover secret', 77, 'secret: there is no permission (EACCES)', 'See who may'],
  ['capture secret', 77, 'secret: there is no permission (EACCES)', 'See who may'],
  ['key show secret', 77, 'secret: there is no permission (EACCES)', 'See who may'],
  ['key new --out fixed/key', 77, 'fixed/key: there is no permission (EACCES)', 'See who may'],
  ['key new --out fixed/x/key', 77, 'fixed/x: there is no permission (EACCES)', 'See who may'],
  ['console unix:closed/x status', 77, 'unix:closed/x: there is no permission', 'See who may'],
]

describe('R1-U7, R1-U14: refused', () => {
  test.each(FILES)('a file: perdure %s ends with %i', (...row) => expectRefused(row))
  test.each(ADMINISTER)('an administrator: perdure %s ends with %i', (...row) => expectRefused(row))
  test.each(CARDS)('a card: perdure %s ends with %i', (...row) => expectRefused(row))
  test.each(HELD)('a lock: perdure %s ends with %i', (...row) => expectRefused(row))
  test.each(STARTS)('a start: perdure %s ends with %i', (...row) => expectRefused(row))
  test.each(WORDS)('a word: perdure %s ends with %i', (...row) => expectRefused(row))

  const name = isUser ? '' : ' (root may do all, and there is no setpriv)'
  describe.skipIf(!isUser)(`without permission${name}`, () => {
    test.each(NO_PERMISSION)('perdure %s ends with %i', (...row) => expectRefused(row, AS_USER))
  })

  test('no command is left out', () => {
    const help = spawnSync(process.execPath, [COMMAND, '--help'], { encoding: 'utf8' }).stdout
    const names = [...help.split('Commands:')[1]!.matchAll(/^ {2}(\w+) /gm)].map(([, one]) => one!)
    const all = [FILES, ADMINISTER, CARDS, HELD, STARTS, WORDS, NO_PERMISSION]
    const shown = new Set(all.flat().map(([args]) => args.split(' ')[0]))
    expect(names.filter((one) => one !== 'help' && !shown.has(one))).toEqual([])
  })
})

/** Runs it on a disk of its own of so many bytes, named `full`; prints what is left there. */
const SHELL =
  'mount -t tmpfs -o size=$0 none dir && cd dir && { "$@"; code=$?; ls -A; exit $code; }'
const UNSHARE = ['--map-root-user', '--mount', 'sh', '-c', SHELL]
const hasDisk = spawnSync('unshare', [...UNSHARE, '64k', 'true'], { cwd: folder }).status === 0

describe('R1-U7: a disk that is full', () => {
  const name = hasDisk ? '' : ' (no disk of its own can be had: unshare)'
  test.skipIf(!hasDisk)(`in the midst of emulate --create${name}`, async () => {
    const start = [process.execPath, COMMAND, 'emulate', 'new', '--create', '--udp', '127.0.0.1:0']
    const child = spawn('unshare', [...UNSHARE, '128k', ...start, '--region', 'x:64:60000'], {
      ...{ cwd: folder, env: PLAIN },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const ended = await endOf(child)
    expect(ended.stderr).toMatch(/^perdure: \S+new cannot be written: [^\n]+\(ENOSPC\)[^\n]+\n$/)
    expect(ended).toMatchObject({ code: 74, stdout: '' })
  })

  test.skipIf(!hasDisk)(`under a private key: nothing is left of it${name}`, async () => {
    const full = 'head -c 4096 /dev/zero > full && exec "$@" 2>&1'
    const start = [process.execPath, COMMAND, 'key', 'new', '--out', 'own.key']
    const child = spawn('unshare', [...UNSHARE, '4k', 'sh', '-c', full, 'sh', ...start], {
      ...{ cwd: folder, env: PLAIN },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const { code, stdout } = await endOf(child)
    expect(stdout).toMatch(/^perdure: own\.key cannot be written: [^\n]+\(ENOSPC\)[^\n]+\nfull\n$/)
    expect(code).toBe(74)
  })

  test('behind standard output', async () => {
    const full = openSync('/dev/full', 'w')
    const args = [COMMAND, 'read', 'good.img', 'orders', '--raw', '--engine', 'node']
    const child = spawn(process.execPath, args, {
      ...{ cwd: folder, env: PLAIN },
      stdio: ['ignore', full, 'pipe'],
    })
    closeSync(full)
    const { code, stderr } = await endOf(child)
    expect(stderr).toMatch(/^perdure: standard output cannot be written: [^\n]+\(ENOSPC\)[^\n]+\n$/)
    expect(code).toBe(74)
  })
})

describe('R1-U7: an error of the system in words', () => {
  const error = (code: string, more: object = {}): Error =>
    Object.assign(new Error(`${code}: so it is, open 'x'`), { code, syscall: 'open', ...more })

  test.each([
    ['EMFILE', 71],
    ['ENFILE', 71],
    ['ENOMEM', 71],
    ['ENOSPC', 74],
    ['EDQUOT', 74],
    ['EFBIG', 74],
    ['EROFS', 74],
    ['EIO', 74],
    ['EPERM', 77],
    ['ELOOP', 64],
  ])('%s has words, an advice and the exit code %i', (code, exit) => {
    const told = messageOf(error(code, { path: 'x' }))
    expect(told).toMatch(new RegExp(`^x: [a-z][^.]+ \\(${code}\\)\\. [A-Z].+\\.$`))
    expect(exitCodes.exitCodeOf(error(code))).toBe(exit)
  })

  test('one that has none is shown as it is', () => {
    expect(messageOf(error('EPROTO'))).toBe("EPROTO: so it is, open 'x'")
    expect(exitCodes.exitCodeOf(error('EPROTO'))).toBe(74)
    expect(messageOf(new TypeError('a bug'))).toBe('a bug')
    expect(messageOf('text')).toBe('text')
  })

  test('an error with its own words keeps them, and only what it quotes is told again', () => {
    const cause = error('ENOSPC')
    const quoting = new Error(`x cannot be written: ${cause.message}`, { cause })
    expect(messageOf(quoting)).toMatch(/^x cannot be written: no room .* \(ENOSPC\)\. Make some/)
    expect(messageOf(new Error('all is said', { cause }))).toBe('all is said')
  })

  test('an address of either family has its port', () => {
    const taken = { syscall: 'bind', port: 4791 }
    const of = (address: string): string => messageOf(error('EADDRINUSE', { ...taken, address }))
    expect(of('::1')).toContain('[::1]:4791: it is in use')
    expect(of('127.0.0.1')).toContain('127.0.0.1:4791: it is in use')
  })
})

describe('R1-U14: one table of exit codes', () => {
  const rows = read('boards/doc/operating.md').split('| code | meaning |')[1]!.split('\n\n')[0]!
  const shown = [...rows.matchAll(/^\| (\d+) \|/gm)].map(([, code]) => Number(code))
  const ofRuntime = [...read('boards/linux/src/exit-codes.h').matchAll(/EXIT_\w+ = (\d+),/g)]
  const codes = [...Object.values(numbersOf(exitCodes)), ...ofRuntime.map(([, one]) => Number(one))]

  test('has every code of the command and of the native runtime, and no other', () => {
    expect(shown).toEqual([...new Set(codes)].sort((a, b) => a - b))
  })

  test('is what the tables of both pages say', () => {
    const page = read('boards/linux/README.md').split('## Exit codes')[1]!
    const there = [...page.matchAll(/^\| (\d+) \|/gm)].map(([, code]) => Number(code))
    expect(there.filter((code) => !shown.includes(code))).toEqual([])
  })

  test('has every code of perdure-boot', () => {
    const page = read('boards/linux/doc/perdure-boot.md').split('| code of `perdure-boot` |')[1]!
    const there = [...page.matchAll(/^\| (\d+) \|/gm)].map(([, code]) => Number(code))
    expect(there.length).toBeGreaterThan(0)
    expect(there.filter((code) => !shown.includes(code))).toEqual([])
  })

  test('its words are those of the sources, and of the help', () => {
    const help = spawnSync(process.execPath, [COMMAND, '--help'], { encoding: 'utf8' }).stdout
    const lines = help.split('Exit codes:\n')[1]!.trimEnd().split('\n')
    const told = lines.map((line) => /^ +(\d+) (.+)$/.exec(line)!.slice(1))
    expect(told.map(([code]) => Number(code))).toEqual([...exitCodes.MEANINGS.keys()])
    for (const [code, words] of told) expect(rows).toContain(`| ${code} | ${words} |`)
    const numbers = Object.values(numbersOf(exitCodes)).sort((a, b) => a - b)
    expect([...exitCodes.MEANINGS.keys()]).toEqual(numbers)
  })

  test.skipIf(noService !== null)(
    `is true for perdured${noService === null ? '' : ` (${noService})`}`,
    () => {
      for (const [code, ...args] of [
        [0, '--help'],
        [64, '--nonsense'],
        [64],
        [78, '--config', '/nonexistent'],
      ] as const) {
        expect([code, ...args]).toEqual([spawnSync(PERDURED, args).status, ...args])
      }
    },
  )
})
