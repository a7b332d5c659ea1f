/**
 * The supervisor of `perdure-boot`: what runs by the slots, behind every end that a trial can have.
 * Its system is one in memory (`boot-host.ts`); the slots are those of the emulator's cards.
 */

import { sign } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { Random } from '../../../../boards/emulator/base/random.ts'
import { readImage, writeImage } from '../../../../boards/flash/mcuboot.ts'
import { type PartKind, writePayload } from '../../../../boards/flash/payload.ts'
import { answerSmp } from '../../../../boards/flash/smp.ts'
import { SMP_READ, writeSmp } from '../../../../boards/flash/smp-packet.ts'
import {
  checkWays,
  readSettings,
  SettingsError,
} from '../../../../boards/linux/boot/script/settings.ts'
import { BootRig } from '../../../support/flash/boot-host.ts'
import { HAL, keyOf, upload } from '../../../support/flash/slot-model.ts'

const STORAGE = (33 << 20) + 4096

/** An image whose bundle is that text, signed; with a runtime where one is named. */
function imageOf(
  text: string,
  { key = keyOf(0x11), runtime = '', signed = true } = {},
): Uint8Array {
  const bundle = Uint8Array.from(Buffer.from(text))
  const parts: [PartKind, Uint8Array][] = [['bundle', bundle]]
  if (signed) parts.push(['signature', Uint8Array.from(sign(null, bundle, key))])
  if (runtime !== '') parts.push(['runtime', Uint8Array.from(Buffer.from(runtime))])
  const purpose = { counter: 0, targets: ['emulator'], formats: [3, 3] as const, hal: HAL }
  const version = { major: text.length, minor: 0, revision: 0, build: 0 }
  return writeImage(writePayload(purpose, parts), version, key)
}

const A = imageOf('a')
const B = imageOf('bb', { runtime: 'perdured of bb' })

/** Bytes that lie where they lie, and survive the supervisor. */
class Slots {
  private readonly bytes = new Uint8Array(STORAGE)

  read(at: number, length: number): Uint8Array {
    return this.bytes.slice(at, at + length)
  }
  write(at: number, bytes: Uint8Array): void {
    this.bytes.set(bytes, at)
  }
  sync(): void {}
}

function mark(rig: BootRig, image: Uint8Array, permanent = false): void {
  upload(rig.boot.slots, image, 4096)
  rig.boot.slots.mark(readImage(image).hash, permanent)
}

/** Flashes it: it is uploaded, marked, and what runs is ended by a reset. */
function flash(rig: BootRig, image: Uint8Array, permanent = false): void {
  mark(rig, image, permanent)
  rig.boot.reset()
  rig.turn()
  expect(rig.last.signals).toEqual(['TERM'])
  rig.ends(0)
}

/** A card on which A is confirmed and serves. */
function card(slots = new Slots()): BootRig {
  const rig = new BootRig(slots)
  rig.ready()
  flash(rig, A)
  rig.ready()
  rig.boot.slots.confirm()
  rig.turn()
  return rig
}

/** What runs: the text of its bundle, or 'package'. */
function runs(rig: BootRig): string {
  const { program, files } = rig.last
  if (program === '/usr/sbin/perdured' && files.length === 0) return 'package'
  return Buffer.from(files[0]!).toString()
}

const about = (rig: BootRig): Record<string, unknown> => ({ ...rig.boot.about() })

describe('the supervisor', () => {
  test('runs what came with the package, and then what is flashed, bit for bit', () => {
    const rig = new BootRig(new Slots())
    const { program, args, inherits } = rig.last
    expect([program, ...args, ...inherits]).toEqual([
      ...['/usr/sbin/perdured', 'perdured', '--config', '/etc/perdure/perdured.conf'],
      // The lock of the slots.
      9,
    ])
    expect(rig.last.env).toContain('NOTIFY_SOCKET=/notify')
    expect(rig.host.told).not.toContain('READY=1')
    rig.ready()
    expect(rig.host.told).toContain('READY=1')
    flash(rig, B)
    expect(runs(rig)).toBe('bb')
    expect(Buffer.from(rig.last.files[2]!).toString()).toBe('perdured of bb')
    expect(rig.last.args).toEqual([
      ...['perdured', '--config', '/etc/perdure/perdured.conf'],
      ...['--trust', expect.stringMatching(/^[0-9a-f]{64}$/)],
      ...['--firmware', '/proc/self/fd/3', '--signature', '/proc/self/fd/4'],
    ])
    expect(rig.host.openFiles).toBe(0)
    expect(rig.host.started.map(({ env }) => env.includes('PERDURE_ON_TRIAL=1'))).toEqual([
      ...[false, true],
    ])
    expect(about(rig)).toMatchObject({ trial: true, tested: false, left: 600, state: 'starting' })
    rig.ready()
    expect(about(rig)).toMatchObject({ trial: true, tested: true, state: 'serving' })
    expect(rig.last.confirmed).toBe(0)
    rig.boot.slots.confirm()
    rig.pass(100_000)
    expect(rig.last.confirmed).toBe(1)
    expect(about(rig)).toMatchObject({ trial: false, left: 0, reason: '', state: 'serving' })
  })

  test('notes the format of the part that what is confirmed has told, and of no trial', () => {
    const rig = new BootRig(new Slots())
    rig.ready({ state: 'blank', format: 0 })
    expect(about(rig)).toMatchObject({ format: 0 })
    flash(rig, A)
    rig.ready()
    expect(about(rig)).toMatchObject({ format: 0, tested: true })
    rig.boot.slots.confirm()
    rig.turn()
    expect(about(rig)).toMatchObject({ format: 3 })
  })

  test('knows two keys, and hands over the one that has signed', () => {
    const rig = card()
    flash(rig, imageOf('other', { key: keyOf(0x22) }))
    const keys = [rig.host.started[1]!, rig.last].map(({ args }) => args[4])
    expect(keys[0]).not.toBe(keys[1])
    expect(keys.every((key) => /^[0-9a-f]{64}$/.test(key!))).toBe(true)
  })

  /** How a trial ends, and what is said of it. */
  const ENDS: readonly (readonly [string, (rig: BootRig) => void, RegExp])[] = [
    ['exits', (rig) => rig.ends(70), /^exit 70 after 0\.0 s$/],
    ['is killed', (rig) => rig.ends(-9), /^signal 9 after/],
    ['ends in order, unasked', (rig) => rig.ends(0), /^exit 0 after/],
    [
      'serves and then exits',
      (rig) => {
        rig.ready()
        rig.pass(2000)
        rig.ends(70)
      },
      /^exit 70 after 2\.0 s$/,
    ],
    ['gives no sign of its start', (rig) => rig.pass(61_000), /^no sign of life for 60 s of its/],
    [
      'serves, and gives no sign',
      (rig) => {
        rig.ready()
        rig.pass(121_000)
      },
      /^no sign of life for 120 s$/,
    ],
    [
      'cannot read the part',
      (rig) => rig.ready({ state: 'refused', fault: 'NEWER' }),
      /^the part does not serve: NEWER$/,
    ],
    ['fails closed', (rig) => rig.ready({ state: 'failedClosed' }), /not serve: failedClosed$/],
    ['finds the part blank', (rig) => rig.ready({ state: 'blank' }), /^the part is blank to it$/],
    ['loses records', (rig) => rig.ready({ lost: 3 }), /^3 records more are lost than before$/],
    ['is not armed', (rig) => rig.ready({ armed: 0 }), /^the part is not armed/],
    [
      'is not confirmed',
      (rig) => {
        rig.ready()
        for (let s = 0; s < 610; s += 10) {
          rig.host.says('WATCHDOG=1')
          rig.turn()
          rig.pass(10_000)
        }
      },
      /^it was not confirmed within 600 s$/,
    ],
  ]

  test.each(ENDS)('goes back where what is on trial %s', (_how, end, reason) => {
    const rig = card()
    flash(rig, B)
    expect(runs(rig)).toBe('bb')
    end(rig)
    // Where it was told to end, it ends, or is killed.
    if (runs(rig) === 'bb') {
      expect(rig.last.signals.length).toBeGreaterThan(0)
      rig.ends(-15)
    }
    expect(runs(rig)).toBe('a')
    expect(rig.boot.slots.reason).toMatch(reason)
    rig.ready()
    expect(about(rig)).toMatchObject({ trial: false, state: 'serving' })
    expect(rig.boot.statistics('boot')).toMatchObject({ reverts: 1 })
  })

  test('goes back where it is itself started again', () => {
    const slots = new Slots()
    const rig = card(slots)
    flash(rig, B)
    rig.ready()
    const again = new BootRig(slots)
    expect(runs(again)).toBe('a')
    expect(again.boot.slots.reason).toBe('it was not confirmed before the next start')
  })

  test('goes back where the system does not run it, or it is not signed as a bundle is', () => {
    const rig = card()
    mark(rig, B)
    rig.host.refuses = 'the program of memory cannot be run: Permission denied'
    rig.boot.reset()
    rig.turn()
    rig.ends(0)
    expect(runs(rig)).toBe('a')
    expect(rig.boot.slots.reason).toMatch(/Permission denied$/)
    rig.ready()
    flash(rig, imageOf('ccc', { signed: false }))
    expect(runs(rig)).toBe('a')
    expect(rig.boot.slots.reason).toBe('the image has no signature')
  })

  test('keeps what was marked as permanent when its self-test has passed, and not before', () => {
    const rig = card()
    flash(rig, B, true)
    rig.ends(70)
    expect(runs(rig)).toBe('a')
    rig.ready()
    flash(rig, B, true)
    rig.ready()
    expect(about(rig)).toMatchObject({ trial: false, left: 0 })
    rig.ends(70)
    rig.pass(1000)
    expect(runs(rig)).toBe('bb')
  })

  test('hears nothing that one says which has ended', () => {
    const rig = card()
    const { pid } = rig.last
    flash(rig, B)
    rig.host.says('READY=1\nPERDURE_STATE=serving', pid)
    rig.turn()
    expect(about(rig)).toMatchObject({ state: 'starting', tested: false })
    rig.ready()
    expect(about(rig)).toMatchObject({ state: 'serving', tested: true })
  })

  test('waits for a start that says that it lives, however long', () => {
    const rig = card()
    flash(rig, B)
    for (let s = 0; s < 300; s += 10) {
      rig.host.says('EXTEND_TIMEOUT_USEC=60000000')
      rig.turn()
      rig.pass(10_000)
    }
    expect(about(rig)).toMatchObject({ state: 'starting', trial: true, left: 300 })
    rig.ready()
    expect(about(rig)).toMatchObject({ state: 'serving' })
  })

  test('starts what is confirmed again behind a second, as often as it ends', () => {
    const rig = card()
    for (let times = 0; times < 5; times++) {
      const count = rig.host.started.length
      rig.ends(times % 2 === 0 ? 70 : -11)
      rig.pass(900)
      expect(rig.host.started.length).toBe(count)
      rig.pass(100)
      expect(rig.host.started.length).toBe(count + 1)
      expect(runs(rig)).toBe('a')
    }
  })

  test('is there to the service manager by SMP alone, where a link is missing', () => {
    const rig = new BootRig(new Slots())
    expect(rig.host.told).not.toContain('READY=1')
    rig.ends(69)
    expect(rig.host.told).toContain('READY=1')
    rig.pass(1000)
    expect(rig.host.started.length).toBe(2)
  })

  test.each([64, 65, 66, 77, 78])('leaves off what ends with %i until a reset', (code) => {
    const rig = new BootRig(new Slots())
    rig.ends(code)
    rig.pass(3_600_000)
    expect(rig.host.started.length).toBe(1)
    expect(about(rig)).toMatchObject({ state: 'off', reason: `exit ${code} after 0.0 s` })
    // SMP serves all the same, and brings what does run.
    expect(rig.host.told).toContain(
      `READY=1\nSTATUS=SMP serves, and nothing runs: exit ${code} after 0.0 s`,
    )
    mark(rig, A)
    rig.boot.reset()
    rig.turn()
    rig.pass(1)
    expect(runs(rig)).toBe('a')
  })

  test('ends when what runs was told to end by its console, and when it is told to itself', () => {
    const rig = card()
    rig.ends(0)
    expect(rig.host.exited).toBe(0)
    const other = card()
    other.turn({ stops: true })
    expect(other.host.told).toContain('STOPPING=1')
    expect(other.last.signals).toEqual(['TERM'])
    other.pass(10_000)
    expect(other.last.signals).toEqual(['TERM', 'KILL'])
    expect(other.host.exited).toBeNull()
    other.ends(-9)
    expect(other.host.exited).toBe(0)
  })

  test('kills what does not end behind a reset, and starts nothing before it has', () => {
    const rig = card()
    mark(rig, B)
    const count = rig.host.started.length
    rig.boot.reset()
    rig.turn()
    rig.boot.reset()
    rig.pass(9_999)
    expect(rig.last.signals).toEqual(['TERM'])
    rig.pass(50_000)
    expect(rig.last.signals).toEqual(['TERM', 'KILL'])
    expect(rig.host.started.length).toBe(count)
    rig.ends(-9)
    expect(runs(rig)).toBe('bb')
  })

  test('gives the service manager its sign, and asks the console of what runs', () => {
    const rig = card()
    rig.host.told.length = 0
    rig.pass(20_000)
    expect(rig.host.told.filter((one) => one === 'WATCHDOG=1').length).toBe(4)
    rig.host.console = '{"frames":7,"link":{"sent":3},"machine":{"fences":2}}'
    expect(rig.boot.shell('counters')).toBe(rig.host.console)
    expect(rig.boot.statistics('card')).toEqual({ frames: 7, 'link.sent': 3, 'machine.fences': 2 })
    rig.host.console = null
    expect(rig.boot.shell('status')).toContain('"error":"what runs does not answer"')
    expect(JSON.parse(rig.boot.shell('boot'))).toMatchObject({ board: 'emulator', runs: '1.0.0' })
    expect(rig.boot.statistics('card')).toMatchObject({ counter: 0 })
  })

  test('whatever happens, in any order: one child, SMP that answers, and A or B in the end', () => {
    const seed = 20261127
    const random = new Random(seed)
    for (let round = 0; round < 60; round++) {
      const slots = new Slots()
      let rig = card(slots)
      for (let step = 0; step < 40; step++) {
        const where = `seed ${seed}, round ${round}, step ${step}`
        const state = String(about(rig).state)
        const act = random.below(9)
        if (act === 0) rig.pass(random.below(90_000))
        else if (act === 1 && state !== 'waiting' && state !== 'off')
          rig.ends(random.below(80) - 15)
        else if (act === 2) rig.ready({ lost: random.below(2) })
        else if (act === 3) rig.host.says('WATCHDOG=1')
        else if (act === 4) attempt(() => mark(rig, random.chance(0.5) ? A : B, random.chance(0.3)))
        else if (act === 5) rig.boot.reset()
        else if (act === 6) attempt(() => rig.boot.slots.confirm())
        else if (act === 7) rig.host.refuses = random.chance(0.2) ? 'no' : null
        else if (random.chance(0.2)) rig = new BootRig(slots)
        if (rig.host.exited !== null) rig = new BootRig(slots)
        rig.turn()
        expect(answerSmp(rig.boot, LIST), where).not.toBeNull()
        const told = rig.host.started.map(({ pid }) => pid)
        expect(new Set(told).size, where).toBe(told.length)
      }
      rig = new BootRig(slots)
      expect(['a', 'bb'], `seed ${seed}, round ${round}`).toContain(runs(rig))
    }
  })
})

const LIST = writeSmp({ op: SMP_READ, version: 1, group: 1, sequence: 0, command: 0 }, {})

/** What the slots refuse is no matter here. */
function attempt(work: () => void): void {
  try {
    work()
  } catch {
    // Refused.
  }
}

describe('its configuration', () => {
  test('has what it says, and else what the page says', () => {
    const settings = readSettings(`# a comment
board = bluefield3
smp = udp:[fd00::2]:1337
smp=tty:/dev/hvc0
 smp = unix:/run/perdure/smp
trial = 30
`)
    expect(settings).toEqual({
      board: 'bluefield3',
      trust: ['/etc/perdure/trust.pem'],
      slots: '/var/lib/perdure/slots',
      smp: [
        { kind: 'udp', address: 'fd00::2', port: 1337 },
        { kind: 'tty', path: '/dev/hvc0' },
        { kind: 'unix', path: '/run/perdure/smp' },
      ],
      runtime: '/usr/sbin/perdured',
      configuration: '/etc/perdure/perdured.conf',
      console: '/run/perdure/console',
      trial: 30,
      silence: 120,
    })
  })

  test.each<[string, RegExp]>([
    ['', /^board is missing; it takes a name/],
    ['board', /^line 1: expected key = value, found board$/],
    ['board = x\nboard = y', /^line 2: board is given more than 1 times$/],
    ['board = X', /^line 1: board = X is not valid; it takes a name/],
    ['bored = x', /^line 1: no key is called bored\. There are: board, trust/],
    ['toString = x', /^line 1: no key is called toString/],
    ['board = x\ntrust = a', /^line 2: trust = a is not valid; it takes a path from the root$/],
    ['board = x\ntrial = 0', /it takes seconds, 1 to 86400$/],
    ['board = x\ntrial = 86401', /is not valid/],
    ['board = x\nsmp = udp:localhost:1', /it takes unix:PATH, tty:DEVICE or udp:ADDRESS:PORT$/],
    ['board = x\nsmp = udp:1.2.3.4:65536', /is not valid/],
    ['board = x\nsmp = udp:::1:1337', /is not valid/],
    ['board = x\nsmp = tty:', /is not valid/],
    [`board = x\n${'trust = /a\n'.repeat(3)}`, /trust is given more than 2 times$/],
  ])('%j is refused in words', (text, words) => {
    expect(() => readSettings(text)).toThrow(SettingsError)
    expect(() => readSettings(text)).toThrow(words)
  })

  test('R1-S13: a card with peers is not flashed over UDP', () => {
    const check = (ways: string, perdured: string): void =>
      checkWays(readSettings(`board = x\n${ways}`), () => perdured)
    const [udp, unix] = ['smp = unix:/s\nsmp = udp:127.0.0.1:0\n', 'smp = unix:/s\n']
    const closed = ['peers = /etc/perdure/peers', '# why\n  peers=/p', 'key = /k\npeers =\t/p\n']
    for (const perdured of closed) {
      expect(() => check(udp, perdured)).toThrow(SettingsError)
      expect(() => check(unix, perdured)).not.toThrow()
    }
    expect(() => check(udp, closed[1]!)).toThrow(
      'smp = udp:… is not for a card with peers, which /etc/perdure/perdured.conf names in line 2:',
    )
    for (const open of ['', '# peers = /p', 'peers =', 'key = /peers = x', 'peersfile = /p']) {
      expect(() => check(udp, open)).not.toThrow()
    }
  })
})
