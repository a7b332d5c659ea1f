/**
 * What a card answers to SMP: the transcripts of clients as they come, smpclient, smpmgr and those
 * that were made after mcumgr-client and Go's mcumgr, held again; refusals; any bytes at all.
 */

import { createSocket } from 'node:dgram'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { decode } from 'cbor2'
import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { answerSmp } from '../../../boards/flash/smp.ts'
import {
  crc16,
  FrameReader,
  PACKET_BYTES_MAX,
  writeFrame,
} from '../../../boards/flash/smp-frame.ts'
import {
  GROUP_PERDURE,
  SMP_HEADER_BYTES,
  SMP_READ,
  SMP_WRITE,
  udpWay,
  writeSmp,
} from '../../../boards/flash/smp-packet.ts'
import { serveSmpSocket, serveSmpUdp } from '../../../boards/flash/smp-ways.ts'
import { SMP_VECTORS, SmpWorld, vectorOf } from '../../support/flash/smp-world.ts'
import { THOROUGH } from '../../support/run/thorough.ts'

const SEED = Number(process.env.SEED ?? 33)

interface Line {
  readonly dir: 'host>card' | 'card>host'
  readonly meaning: string
  /** Hexadecimal: the packet, and what was on the line or in the datagram. */
  readonly smp?: string
  readonly wire: string
}

const CAPTURES = readdirSync(join(SMP_VECTORS, 'captures')).filter((name) => /\.jsonl$/.test(name))

function linesOf(name: string): Line[] {
  const text = readFileSync(join(SMP_VECTORS, 'captures', name), 'utf8').trimEnd()
  return text.split('\n').map((line) => JSON.parse(line) as Line)
}

const bytesOf = (hex: string): Uint8Array => new Uint8Array(Buffer.from(hex, 'hex'))
const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

/** What is said, except for the words of a refusal: they are ours. */
function meaningOf(packet: Uint8Array): object {
  const body = decode(packet.slice(SMP_HEADER_BYTES)) as Record<string, unknown>
  const { rsn, ...meaning } = body
  return { head: hexOf(packet.slice(4, 8)), first: packet[0], ...meaning, words: rsn !== undefined }
}

describe('the transcript of a client', () => {
  test.each(CAPTURES)('%s is answered as it was', (name) => {
    const card = new SmpWorld()
    const reader = new FrameReader()
    const isLine = !name.includes('udp')
    const left = linesOf(name).reverse()
    let asked = 0
    while (left.length > 0) {
      const { dir, smp, wire } = left.pop()!
      if (dir === 'card>host') continue
      const came = isLine ? reader.push(bytesOf(wire), asked) : [{ packet: bytesOf(wire) }]
      if (smp === undefined) {
        // Text, or a frame that is dropped.
        expect(came.filter((one) => 'packet' in one)).toEqual([])
        continue
      }
      expect(came).toEqual([{ packet: bytesOf(smp) }])
      const answer = answerSmp(card, bytesOf(smp))!
      const expected = left.findLast((one) => one.dir === 'card>host' && one.smp !== undefined)!
      asked++
      const was = bytesOf(expected.smp!)
      expect(meaningOf(answer), `request ${asked}`).toEqual(meaningOf(was))
      if (Buffer.from(was).includes('rsn')) continue
      expect(hexOf(answer), `request ${asked}`).toBe(expected.smp)
      const said = hexOf(isLine ? writeFrame(answer) : answer)
      expect(expected.wire.replace(/^0a/, '')).toBe(said)
    }
    expect(asked).toBeGreaterThan(5)
  })
})

test('a card prints where SMP is asked as `perdure flash --port` takes it', () => {
  expect(udpWay('10.0.0.2', 1337)).toBe('smp:udp:10.0.0.2:1337')
  expect(udpWay('fe80::1%eth0', 1337)).toBe('smp:udp:[fe80::1%eth0]:1337')
})

/** Asks, and says what comes back. */
function ask(card: SmpWorld, id: string, fields: object, version = 1): Record<string, unknown> {
  const [op, group, command] = id.split(/[ /]/)
  const header = { version, group: Number(group), sequence: 0x5a, command: Number(command) }
  const packet = writeSmp({ op: op === 'write' ? SMP_WRITE : SMP_READ, ...header }, fields)
  const answer = answerSmp(card, packet)!
  expect(hexOf(answer.slice(4, 8))).toBe(hexOf(packet.slice(4, 8)))
  expect(answer[0]).toBe(packet[0]! + 1)
  expect(new DataView(answer.buffer).getUint16(2)).toBe(answer.length - SMP_HEADER_BYTES)
  return decode(answer.slice(SMP_HEADER_BYTES))
}

/** The first piece of an upload of that image, its fields over. */
function pieceOf(name: string, over: object = {}): object {
  const image = vectorOf(name)
  return { off: 0, len: image.length, data: image.slice(0, 100), ...over }
}

/** The end of an upload of that image. */
function uploaded(card: SmpWorld, name: string, version = 1): Record<string, unknown> {
  const image = vectorOf(name)
  let said = ask(card, 'write 1/1', pieceOf(name), version)
  for (let off = 100; off < image.length; off += 2000) {
    said = ask(card, 'write 1/1', { off, data: image.slice(off, off + 2000) }, version)
  }
  return said
}

describe('what is refused', () => {
  const words = { rsn: expect.stringMatching(/^\S.{8,}$/) }

  test.each<[string, string, object, number, number?]>([
    ['write 1/0', 'no hash', { confirm: false }, 3],
    ['write 1/0', 'a short hash', { hash: new Uint8Array(31) }, 3, 24],
    ['write 1/0', 'a hash of nothing', { hash: new Uint8Array(32).fill(1) }, 5, 8],
    ['write 1/1', 'no off', { data: new Uint8Array(4) }, 3, 20],
    ['write 1/1', 'no data', { off: 0 }, 3, 20],
    ['write 1/1', 'an off below 0', { off: -1, data: new Uint8Array(4) }, 3, 20],
    ['write 1/1', 'a broken off', { off: 0.5, data: new Uint8Array(4) }, 3, 20],
    ['write 1/1', 'image 2', pieceOf('b-1.1.0', { image: 2 }), 3, 14],
    ['write 1/1', 'no len', pieceOf('b-1.1.0', { len: undefined }), 3, 21],
    ['write 1/1', 'a long sha', pieceOf('b-1.1.0', { sha: new Uint8Array(33) }), 3, 24],
    ['write 1/1', 'too much', pieceOf('b-1.1.0', { len: 2 ** 30 }), 3, 30],
    ['write 1/1', 'a short header', pieceOf('b-1.1.0', { data: new Uint8Array(31) }), 3, 22],
    ['write 1/1', 'another magic', pieceOf('b-1.1.0', { data: new Uint8Array(64) }), 3, 23],
    ['write 1/1', 'more than len', pieceOf('b-1.1.0', { len: 50 }), 3, 31],
    ['write 1/1', 'what is not newer', pieceOf('a-1.0.0', { upgrade: true }), 6, 27],
    ['write 1/5', 'slot 0', { slot: 0 }, 6, 9],
    ['read 0/8', 'another question', { query: 'colour' }, 8],
    ['read 2/0', 'another group', { name: 'none' }, 5],
    ['write 9/0', 'no words', { argv: 'status' }, 3],
    ['read 0/4', 'a command that is none', {}, 8],
    ['read 8/0', 'a group that is none', {}, 8],
  ])('%s: %s, in both versions', (id, _what, fields, rc, code) => {
    const first = ask(new SmpWorld(), id, fields, 0)
    expect(first).toEqual({ rc, ...words })
    const second = ask(new SmpWorld(), id, fields, 1)
    expect(second).toEqual(code === undefined ? { rc, ...words } : { err: { group: 1, rc: code } })
  })

  test.each<[string, object]>([
    ['badhash', { err: { group: 1, rc: 24 } }],
    ['wrongkey', { rc: 11, ...words }],
    ['oldcounter', { rc: 11, ...words }],
    ['wrongcard', { rc: 8, ...words }],
    ['flag-lzma2', { err: { group: 1, rc: 5 } }],
  ])('the upload of %s, at its end, and nothing is left of it', (name, refused) => {
    const card = new SmpWorld()
    expect(uploaded(card, name)).toEqual(refused)
    expect((ask(card, 'read 1/0', {}).images as unknown[]).length).toBe(1)
    expect(uploaded(card, 'b-1.1.0')).toEqual({ off: vectorOf('b-1.1.0').length })
  })

  test('to test what runs, to confirm while a test is marked, to mark while one is tried', () => {
    const card = new SmpWorld()
    uploaded(card, 'b-1.1.0')
    const [first, second] = ask(card, 'read 1/0', {}).images as { hash: Uint8Array }[]
    const refused = (fields: object) => ask(card, 'write 1/0', fields).err
    expect(refused({ hash: first!.hash })).toEqual({ group: 1, rc: 33 })
    ask(card, 'write 1/0', { hash: second!.hash })
    expect(refused({ confirm: true })).toEqual({ group: 1, rc: 28 })
    ask(card, 'write 0/5', {})
    expect(refused({ hash: first!.hash })).toEqual({ group: 1, rc: 28 })
    expect(ask(card, `read ${GROUP_PERDURE}/0`, {})).toEqual({ trial: true, reason: '' })
  })

  test('a version that is none yet, a length that is another, and no map', () => {
    const card = new SmpWorld()
    const answerTo = (hex: string): object => {
      const answer = answerSmp(card, bytesOf(hex))!
      return decode(answer.slice(SMP_HEADER_BYTES))
    }
    expect(answerTo('1800000100000006a0')).toEqual({ rc: 13, ...words })
    expect(answerTo('0800000200000006a0')).toEqual({ rc: 3, ...words })
    expect(answerTo('080000010000000680')).toEqual({ rc: 3, ...words })
    expect(answerTo('0800000100000006ff')).toEqual({ rc: 3, ...words })
    expect(answerTo('0c00000100000006a0')).toEqual({ rc: 8, ...words })
    // An echo gives text back, and nothing that a client could take for more.
    expect(answerTo('0a00000400000000a1616401')).toEqual({ rc: 3, ...words })
    // Answers are not answered.
    for (const op of ['09', '0b', '0f']) {
      expect(answerSmp(card, bytesOf(`${op}00000100000006a0`))).toBe(null)
    }
    for (let length = 0; length < SMP_HEADER_BYTES; length++) {
      expect(answerSmp(card, new Uint8Array(length))).toBe(null)
    }
  })
})

describe('a line', () => {
  const packet = bytesOf('0a00000900000100a16164 6568656c6c6f'.replace(' ', ''))

  test('has the code that the others compute', () => {
    expect(crc16(new TextEncoder().encode('123456789'))).toBe(0x31c3)
  })

  test('carries packets of every length, in lines that the strictest client reads', () => {
    for (let length = 0; length <= PACKET_BYTES_MAX; length += length < 300 ? 1 : 97) {
      const bytes = Uint8Array.from({ length }, (_, i) => i * 7)
      const frame = writeFrame(bytes)
      for (const line of Buffer.from(frame).toString('latin1').trimEnd().split('\n')) {
        expect(line.length).toBeLessThan(127)
        expect((line.length - 2) % 4).toBe(0)
      }
      expect(new FrameReader().push(frame, 0)).toEqual([{ packet: bytes }])
      const reader = new FrameReader()
      expect([...frame].flatMap((byte) => reader.push(Uint8Array.of(byte), 0))).toHaveLength(1)
    }
  })

  test('is dropped where its code, its order or its time is wrong, and the next is read', () => {
    const long = new Uint8Array(200).fill(3)
    const frame = writeFrame(long)
    const end = Buffer.from(frame).indexOf('\n') + 1
    const reader = new FrameReader()
    const bad = frame.slice()
    bad[10] = bad[10] === 65 ? 66 : 65
    expect(reader.push(bad, 0)).toEqual([])
    expect(reader.push(frame.slice(end), 0)).toEqual([])
    reader.push(frame.slice(0, end), 1000)
    expect(reader.push(frame.slice(end), 3001)).toEqual([])
    expect(reader.push(frame, 3002)).toEqual([{ packet: long }])
  })

  test('of text is text, between frames, and has an end', () => {
    const reader = new FrameReader()
    const both = Buffer.concat([
      Buffer.from('status\r\n\n'),
      writeFrame(packet),
      Buffer.from('x\n'),
    ])
    expect(reader.push(both, 0)).toEqual([{ text: 'status' }, { packet }, { text: 'x' }])
    expect(reader.push(Buffer.from(`${'y'.repeat(9000)}\nz\n`), 0)).toEqual([{ text: 'z' }])
  })

  test('of a packet that is too long, or of none, is dropped', () => {
    const over = writeFrame(new Uint8Array(PACKET_BYTES_MAX + 1))
    expect(new FrameReader().push(over, 0)).toEqual([])
    for (const length of [0, 1]) {
      const head = Buffer.from([0, length, 0, 0]).toString('base64')
      expect(new FrameReader().push(Buffer.from(`\x06\x09${head}\n`), 0)).toEqual([])
    }
  })
})

describe('the ways', () => {
  const echo = bytesOf('0a00000900000100a161646568656c6c6f')
  const echoed = '0b00000900000100a161726568656c6c6f'

  test('UDP: a datagram is a packet, or the rest of one; any other is no harm', async () => {
    const way = await serveSmpUdp('127.0.0.1', 0, new SmpWorld())
    const socket = createSocket('udp4')
    try {
      const next = (): Promise<string> =>
        new Promise((resolve) => socket.once('message', (bytes) => resolve(hexOf(bytes))))
      const send = (bytes: Uint8Array): void => socket.send(bytes, way.port, '127.0.0.1')
      let heard = next()
      send(echo)
      expect(await heard).toBe(echoed)
      for (const length of [0, 1, 7]) send(new Uint8Array(length).fill(0xff))
      heard = next()
      send(new Uint8Array(60000).fill(0xfe))
      expect(await heard).toMatch(/^07/)
      heard = next()
      send(echo.slice(0, 10))
      send(echo.slice(10))
      expect(await heard).toBe(echoed)
    } finally {
      socket.close()
      await way.close()
    }
  })

  test('a socket: frames and text, of several clients, one of which does not read', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'ps-'))
    const path = join(folder, 'p')
    const card = new SmpWorld()
    const way = await serveSmpSocket(path, card)
    const deaf = connect(path)
    deaf.on('error', () => {})
    deaf.pause()
    try {
      for (let i = 0; i < 200; i++) deaf.write(writeFrame(echo))
      const client = connect(path)
      client.write('status\n')
      client.write(writeFrame(echo))
      const came: string[] = []
      const reader = new FrameReader()
      await new Promise<void>((resolve) => {
        client.on('data', (bytes) => {
          for (const one of reader.push(bytes, 0)) {
            came.push('packet' in one ? hexOf(one.packet) : one.text)
          }
          if (came.length === 2) resolve()
        })
      })
      expect(came).toEqual(['{"state":"serving","line":"status"}', echoed])
      client.destroy()
    } finally {
      deaf.destroy()
      await way.close()
      rmSync(folder, { recursive: true })
    }
  })
})

/** Recorded packets of which some bytes are others: each has an answer, and the card goes on. */
function answersDrawn(inputs: number): void {
  const random = new Random(SEED)
  const packets = CAPTURES.flatMap(linesOf).flatMap(({ dir, smp }) => {
    return dir === 'host>card' && smp !== undefined ? [bytesOf(smp)] : []
  })
  let card = new SmpWorld()
  for (let i = 0; i < inputs; i++) {
    if (i % 1000 === 0) card = new SmpWorld()
    const bytes = packets[random.below(packets.length)]!.slice()
    for (let n = random.below(5); n > 0; n--) {
      const at = random.chance(0.5)
        ? random.below(Math.min(24, bytes.length))
        : random.below(bytes.length)
      bytes[at]! ^= 1 + random.below(255)
    }
    const answer = answerSmp(card, bytes)
    if (answer === null) continue
    expect(answer.length, `input ${i}, SEED=${SEED}`).toBeLessThanOrEqual(PACKET_BYTES_MAX)
    decode(answer.slice(SMP_HEADER_BYTES))
  }
  expect(ask(new SmpWorld(), 'write 0/0', { d: 'here' })).toEqual({ r: 'here' })
}

/** Any bytes on the line, some of them of frames. */
function readsDrawn(inputs: number): void {
  const random = new Random(SEED)
  const wires = CAPTURES.flatMap(linesOf).map(({ wire }) => bytesOf(wire))
  const reader = new FrameReader()
  for (let i = 0; i < inputs; i++) {
    const bytes = wires[random.below(wires.length)]!.slice(random.below(3))
    for (let n = random.below(4); n > 0 && bytes.length > 0; n--) {
      bytes[random.below(bytes.length)] = random.below(256)
    }
    for (const came of reader.push(bytes, i)) {
      const length = 'packet' in came ? came.packet.length : came.text.length
      expect(length, `input ${i}, SEED=${SEED}`).toBeLessThanOrEqual(2 * PACKET_BYTES_MAX)
    }
  }
}

describe('any bytes', () => {
  test('of packets are answered', () => answersDrawn(5_000))
  test('of packets are answered, many of them', THOROUGH, () => answersDrawn(300_000))
  test('of lines are read', () => readsDrawn(5_000))
  test('of lines are read, many of them', THOROUGH, () => readsDrawn(300_000))
})
