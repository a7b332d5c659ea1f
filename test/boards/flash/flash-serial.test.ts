/**
 * The console of a card over a serial line, a pseudo-terminal: no answer is lost in other text.
 */

import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { runIn } from '../../support/command/command.ts'
import { type SerialLine, serialLine } from '../../support/flash/serial.ts'
import { noCompiler, titled } from '../../support/native/harness.ts'
import { PATIENCE_MS } from '../../support/run/patience.ts'

const SEED = Number(process.env.SEED ?? 33)
const QUESTIONS = 300
const LETTERS_MAX = 3000

describe.skipIf(noCompiler !== null)(titled('a serial line'), () => {
  const folder = mkdtempSync(join(tmpdir(), 'ps-'))
  const clients = new Set<Socket>()
  let server: Server
  let line: SerialLine
  /** Lines that the card has got. */
  let asked = 0

  beforeAll(async () => {
    server = createServer((client) => {
      clients.add(client)
      client.on('error', () => {})
      createInterface({ input: client }).on('line', (text) => {
        asked++
        client.write(`[ ${asked}.0] a kernel says something\n`)
        client.write(`${JSON.stringify({ text })}\n`)
      })
    })
    server.listen(join(folder, 'card'))
    await once(server, 'listening')
    line = await serialLine(join(folder, 'card'))
  })

  afterAll(async () => {
    await line.end()
    for (const client of clients) client.destroy()
    server.close()
    rmSync(folder, { recursive: true })
  })

  test('answers every line, of every length, once, and when it is opened again', async () => {
    const random = new Random(SEED)
    for (let opened = 0; opened < 2; opened++) {
      const questions = Array.from({ length: QUESTIONS }, () => {
        return 'x'.repeat(1 + random.below(LETTERS_MAX))
      })
      const before = asked
      const args = ['console', line.path, '--json', '--timeout', String(PATIENCE_MS)]
      const { code, stdout, stderr } = await runIn(folder, args, {}, `${questions.join('\n')}\n`)
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
      const answers = stdout.trimEnd().split('\n')
      const texts = answers.map((one) => (JSON.parse(one) as { text: string }).text)
      expect(texts, `seed ${SEED}`).toEqual(questions)
      expect(asked - before).toBe(QUESTIONS)
    }
  })
})
