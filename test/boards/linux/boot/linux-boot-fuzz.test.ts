/**
 * `perdure-boot` with the sanitizers, and any bytes on its lines and in its datagrams: it answers,
 * and no byte of its C goes astray. What reads them is the script, in QuickJS; as TypeScript it has
 * been given many more (`flash-smp`, `flash-image`).
 *
 * It is compiled here, of what `node build.mjs --board linux` has left; without that this is
 * skipped.
 */

import { createSocket } from 'node:dgram'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Random } from '../../../../boards/emulator/base/random.ts'
import { writeFrame } from '../../../../boards/flash/smp-frame.ts'
import { compileBoot } from '../../../../boards/linux/boot/compile.ts'
import { hostArchitecture } from '../../../../boards/linux/toolchain.ts'
import { smpExchanges } from '../../../support/flash/smp-world.ts'
import { noBoot } from '../../../support/native/boot.ts'
import { BootFolder } from '../../../support/native/boot-folder.ts'
import { titled } from '../../../support/native/harness.ts'
import { THOROUGH } from '../../../support/run/thorough.ts'
import { ROOT } from '../../../support/source/sources.ts'

const SEED = Number(process.env.SEED ?? 34)
/** Inputs between two questions that want an answer. */
const AT_ONCE = 100

let one: BootFolder
beforeAll(async () => {
  if (noBoot !== null) return
  one = new BootFolder({ runtime: '/usr/bin/false', boot: 'smp = udp:127.0.0.1:0\n' })
  const program = compileBoot({
    ...{ architecture: hostArchitecture(), sanitize: true, dropFlush: false, install: false },
    ...{ script: join(ROOT, 'dist/boot.js'), program: one.at('perdure-boot'), say: () => {} },
  })
  one.program = program
  await one.startAlone()
})
afterAll(() => one?.close())

/** A packet of a client, or what was on the line of one, with some bytes changed. */
function drawn(random: Random, from: readonly Uint8Array[]): Uint8Array {
  const bytes = from[random.below(from.length)]!.slice()
  for (let n = random.below(5); n > 0 && bytes.length > 0; n--) {
    const most = random.chance(0.5) ? Math.min(24, bytes.length) : bytes.length
    bytes[random.below(most)] = random.below(256)
  }
  return bytes.subarray(0, random.chance(0.1) ? random.below(bytes.length + 1) : bytes.length)
}

/** Lines of a connection; asks for one that is an answer to `boot`. */
class Line {
  private readonly socket: Socket
  private wake: () => void = () => {}
  private answers = 0

  constructor(path: string) {
    this.socket = connect(path)
    createInterface({ input: this.socket }).on('line', (line) => {
      if (!line.startsWith('{"board"')) return
      this.answers++
      this.wake()
    })
  }

  write(bytes: Uint8Array): void {
    this.socket.write(bytes)
  }

  /** Resolves when it has answered; the newline ends what stands open. */
  async answers_(): Promise<void> {
    const { answers } = this
    this.socket.write('\nboot\n')
    while (this.answers === answers) {
      await new Promise<void>((resolve) => {
        this.wake = resolve
      })
    }
  }

  close(): void {
    this.socket.destroy()
  }
}

async function play(inputs: number): Promise<void> {
  const random = new Random(SEED)
  const { packets, wires } = smpExchanges()
  const line = new Line(one.socket)
  const udp = createSocket('udp4')
  const port = Number(one.ways[0]!.split(':').at(-1))
  for (let i = 0; i < inputs; i++) {
    const way = random.below(4)
    if (way === 0) line.write(drawn(random, wires))
    else if (way === 1) udp.send(drawn(random, packets), port, '127.0.0.1')
    else line.write(writeFrame(drawn(random, packets)))
    if (i % AT_ONCE === 0) await line.answers_()
  }
  await line.answers_()
  line.close()
  udp.close()
  expect(one.ends, `SEED=${SEED}: ${one.story.slice(-3000)}`).toBe(0)
}

describe.skipIf(noBoot !== null)(titled('perdure-boot with the sanitizers', noBoot), () => {
  test('answers on, whatever comes', async () => {
    await play(2_000)
  })

  test('answers on, whatever comes, again and again', THOROUGH, async () => {
    await play(100_000)
  })
})
