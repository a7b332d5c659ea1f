/**
 * The check code of frames as the native runtime computes it, against that of the boards in Node.
 * The C is compiled here, with the sanitizers for this processor; the others, and the ways without
 * an instruction for it, are emulated. What is missing for one is named, and it is skipped.
 */

import { spawnSync } from 'node:child_process'
import { beforeAll, describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { fillIcrc, icrcGood, icrcGoodLinuxFlush } from '../../../boards/software/icrc.ts'
import { titled } from '../../support/native/harness.ts'
import { codeProgram, missing, PROCESSORS } from '../../support/native/processors.ts'
import { CAPTURES, VECTORS } from '../../support/wire/vectors.ts'

const SEED = Number(process.env.SEED ?? 20261121)

describe.each(PROCESSORS)('icrc.c on $name', (processor) => {
  const why = missing(processor)
  let program = ''
  beforeAll(() => {
    if (why === null) program = codeProgram(processor)
  })

  interface Judged {
    readonly flags: number
    readonly filled: readonly [boolean, boolean]
    readonly frames: readonly [Buffer, Buffer]
  }

  function judge(frames: readonly Uint8Array[]): Judged[] {
    const parts = frames.flatMap((frame) => {
      const length = Buffer.alloc(4)
      length.writeUInt32LE(frame.length)
      return [length, frame]
    })
    const input = Buffer.concat(parts)
    const [command, ...args] = [...processor.emulator, program, 'icrc']
    const done = spawnSync(command!, args, { input, maxBuffer: 1 << 30 })
    expect(done.status, done.stderr.toString()).toBe(0)
    expect(done.stderr.toString().trim()).toMatch(processor.engine)
    const output = done.stdout
    let at = 0
    const take = (length: number): Buffer => {
      at += length
      return output.subarray(at - length, at)
    }
    const word = (): number => take(4).readUInt32LE()
    return frames.map(({ length }) => {
      const flags = word()
      const standard = { filled: word() === 1, frame: take(length) }
      const flush = { filled: word() === 1, frame: take(length) }
      const filled = [standard.filled, flush.filled] as const
      return { flags, filled, frames: [standard.frame, flush.frame] }
    })
  }

  /** What `boards/software/icrc.ts` makes of the same. */
  function expected(frame: Uint8Array): Judged {
    const { length } = frame
    const flush = icrcGoodLinuxFlush(frame, 0, length) ? 2 : 0
    const flags = icrcGood(frame, 0, length) ? 1 : flush
    const one = Buffer.from(frame)
    const isFilled = fillIcrc(one, 0, length, false)
    const other = Buffer.from(one)
    return { flags, filled: [isFilled, fillIcrc(other, 0, length, true)], frames: [one, other] }
  }

  function compare(frames: readonly Uint8Array[]): Judged[] {
    const judged = judge(frames)
    frames.forEach((frame, i) => {
      const said = `frame ${i} of ${frame.length} bytes, SEED=${SEED}`
      const [found, wanted] = [judged[i]!, expected(frame)]
      expect([found.flags, ...found.filled].join(), said).toBe(
        [wanted.flags, ...wanted.filled].join(),
      )
      // Not toEqual, which takes a quarter of a second over a thousand frames.
      expect(found.frames[0].equals(wanted.frames[0]), said).toBe(true)
      expect(found.frames[1].equals(wanted.frames[1]), said).toBe(true)
    })
    return judged
  }

  test.skipIf(why !== null)(
    titled('judges every frame of every capture and vector as the boards of Node do', why),
    () => {
      const frames = [
        ...CAPTURES.flatMap((capture) => capture.frames),
        ...VECTORS.map((v) => v.bytes),
      ]
      const judged = compare(frames)
      expect(judged.filter(({ flags }) => flags === 1).length).toBeGreaterThan(100)
      expect(judged.filter(({ flags }) => flags === 2).length).toBeGreaterThan(0)
    },
  )

  test.skipIf(why !== null)(
    titled('fills and finds good frames of every length, of both IPs, with a tag and a pad', why),
    () => {
      const random = new Random(SEED)
      const frames: Buffer[] = []
      for (let payload = 0; payload <= 4096 + 64; payload += payload < 700 ? 1 : 37) {
        for (let kind = 0; kind < 8; kind++) frames.push(rocev2(payload, kind, random))
      }
      const judged = compare(frames)
      const good = compare(judged.map((one) => one.frames[0]))
      expect(good.every(({ flags }) => flags === 1)).toBe(true)
      const flush = compare(judged.map((one) => one.frames[1]))
      expect(flush.filter(({ flags }) => flags === 2).length).toBeGreaterThan(100)
    },
  )

  test.skipIf(why !== null)(titled('agrees about 30,000 frames of any bytes', why), () => {
    const random = new Random(SEED + 1)
    const frames = Array.from({ length: 30_000 }, () => {
      const frame = rocev2(random.below(90), random.below(8), random)
      const changes = random.below(4)
      for (let k = 0; k < changes; k++) frame[random.below(frame.length)] = random.below(256)
      return frame.subarray(0, frame.length - random.below(30))
    })
    compare(frames)
  })

  /** A RoCEv2 datagram with random contents; `kind` says IPv6, VLAN and pad, one bit each. */
  function rocev2(payload: number, kind: number, random: Random): Buffer {
    const [isIpv6, tag, pad] = [
      (kind & 1) !== 0,
      (kind & 2) !== 0 ? 4 : 0,
      (kind & 4) !== 0 ? 9 : 0,
    ]
    const ipBytes = isIpv6 ? 40 : 20
    const frame = Buffer.alloc(14 + tag + ipBytes + 8 + 12 + payload + 4 + pad)
    random.fill(frame, 0, frame.length)
    if (tag !== 0) frame.writeUInt16BE(0x8100, 12)
    frame.writeUInt16BE(isIpv6 ? 0x86dd : 0x0800, 12 + tag)
    const ip = 14 + tag
    frame[ip] = isIpv6 ? 0x60 : 0x45
    const datagram = ipBytes + 8 + 12 + payload + 4
    frame.writeUInt16BE(isIpv6 ? datagram - ipBytes : datagram, ip + (isIpv6 ? 4 : 2))
    if (random.chance(0.5)) frame[ip + ipBytes + 8] = 0x1c
    return frame
  }
})
