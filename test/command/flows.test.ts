/**
 * The page of the two flows (firmware/doc/flows.md): its commands as a reader types them, and the
 * messages that they show, one by one.
 *
 * Only what is drawn or repeated is passed over: queue pairs, PSNs and keys go by the order in
 * which they come; what a slow machine made a client say again, or ask about, counts once or not.
 */

import { type ChildProcess, spawnSync } from 'node:child_process'
import { once as happens } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, afterEach, expect, test } from 'vitest'
import { PASS } from '../../firmware/board/fault.ts'
import { blankPacket, checkPacket } from '../../firmware/wire/packet.ts'
import { blankPaeth, readPaeth } from '../../firmware/wire/persist-ack.ts'
import { readPcap } from '../../host-driver/way/pcap.ts'
import { rowsOf } from '../pages/markdown.ts'
import { read } from '../pages/tables.ts'
import { emulateIn, PLAIN, stop } from '../support/command/command.ts'
import { PATIENCE_MS } from '../support/run/patience.ts'
import { ROOT } from '../support/source/sources.ts'

const PAGE = read('firmware/doc/flows.md')
const folder = mkdtempSync(join(tmpdir(), 'perdure-flows-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const cards: ChildProcess[] = []
afterEach(async () => {
  for (const card of cards.splice(0)) {
    if (card.exitCode !== null || card.signalCode !== null) continue
    card.kill('SIGKILL')
    await happens(card, 'exit')
  }
})

/** The part of the page below that heading. */
function sectionOf(heading: string): string {
  const [, section] = PAGE.split(`\n## ${heading}\n`)
  expect(section, heading).toBeDefined()
  return section!.split('\n## ')[0]!
}

/** The fenced blocks of a section in that language. */
function blocksOf(section: string, language: string): string[] {
  return [...section.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)]
    .filter(([, info]) => info === language)
    .map(([, , text]) => text!.replaceAll(/\\\n\s*/g, '').trim())
}

/** Types lines into a shell in that folder; what they print on standard output. */
function typed(at: string, text: string, target: string): string {
  const command = `"${process.execPath}" "${join(ROOT, 'dist/perdure.js')}"`
  const line = text.replaceAll('npx perdure', command).replaceAll('perdure://127.0.0.1', target)
  const options = { cwd: at, encoding: 'utf8', env: PLAIN, timeout: PATIENCE_MS } as const
  const done = spawnSync('sh', ['-c', line], options)
  expect(done.status, `${text}: ${done.stderr}`).toBe(0)
  return done.stdout
}

/** A card as the page starts it, at any port, while `use` has its target. */
async function withCard(at: string, line: string, use: (target: string) => void): Promise<void> {
  const args = line.split('npx perdure emulate ')[1]!.split(' ')
  const [card, told] = await emulateIn(at, 1, [...args, '--udp', '127.0.0.1:0'])
  cards.push(card)
  use(told[0]!)
  expect(await stop(card)).toBe(0)
}

interface Message {
  /** Who sends it to whom. */
  readonly between: string
  readonly text: string
}

/** The lines of a trace. */
function messagesOf(trace: string): Message[] {
  const lines = trace.trimEnd().split('\n')
  return lines.map((line) => ({ between: line.slice(0, 16).trim(), text: line.slice(16) }))
}

/** The rows of the section's table with that head. */
function tableOf(section: string, head: string): Message[] {
  return rowsOf(section, head).map(([between, text]) => {
    return { between: between!, text: text!.replaceAll('`', '') }
  })
}

const HEAD = '| between | message |'

/** What a client asks whose answer is late, and what it hears. */
const LATE = /^PERSIST_QUERY |^PERSIST_ACK .*\banswers a query\b/

/** Each message of the client and to it once, without what it asks because it has waited. */
function once(messages: readonly Message[]): Message[] {
  const known = new Set<string>()
  return messages.filter(({ between, text }) => {
    if (!between.includes('client')) return true
    if (LATE.test(text)) return false
    const same = text.replace(' repetition', '').replace(/ timer \d+/, '')
    if (known.has(same)) return false
    known.add(same)
    return true
  })
}

/** With queue pairs, PSNs and keys by the order in which they come. */
function named(messages: readonly Message[]): string[] {
  const names = new Map<string, string>()
  const drawn = /(?<=\b(?:qp|psn|key|durable) |\bdurable \d+-)(?:0x[\da-f]+|\d+)/g
  return once(messages).map(({ between, text }) => {
    const told = text.replaceAll(drawn, (number) => {
      if (!names.has(number)) names.set(number, `#${names.size}`)
      return names.get(number)!
    })
    return `${between}: ${told}`
  })
}

/** What `perdure capture` has printed. */
function packetsOf(printed: string): Message[] {
  const lines = printed.trimEnd().split('\n')
  return lines.map((line) => ({ between: 'client, card', text: line.split('  ').at(-1)! }))
}

/** Plays a flow in a folder of its own; what the page shows of it, and what there is. */
async function playFlow(heading: string, name: string) {
  const section = sectionOf(heading)
  const [start, persist, look] = blocksOf(section, 'sh')
  const at = mkdtempSync(join(folder, 'flow-'))
  await withCard(at, start!, (target) => typed(at, persist!, target))
  return {
    section,
    shown: messagesOf(typed(at, look!, '')),
    trace: messagesOf(readFileSync(join(at, `${name}.txt`), 'utf8')),
    captured: packetsOf(typed(at, commandOf(`${name}.pcap`), '')),
    mechanisms: mechanismsOf(join(at, `${name}.pcap`)),
  }
}

/** The page's line that prints that capture. */
function commandOf(capture: string): string {
  const lines = blocksOf(sectionOf('In Wireshark'), 'sh').flatMap((text) => text.split('\n'))
  return lines.find((line) => line.includes(capture))!
}

/** By what the records became durable, as each PERSIST_ACK of a capture has it. */
function mechanismsOf(path: string): number[] {
  const packet = blankPacket()
  const paeth = blankPaeth()
  return [...readPcap(readFileSync(path))].flatMap(({ frame }) => {
    const fault = checkPacket(packet, frame, 0, frame.length)
    if (fault !== PASS || packet.row === null || packet.row.paethAt === 0) return []
    readPaeth(paeth, frame, packet.bthAt + packet.row.paethAt)
    return [paeth.mechanism]
  })
}

const FLOW_2 = ['Flow 2: through the caches', 'flow2'] as const

const FLOWS = [
  ['Flow 1: past the caches', 'flow1', 2],
  [...FLOW_2, 3],
] as const

/** The bit of a mechanism that says that the card's own memory does not outlive the power. */
const OF_A_PROCESS = 8

test.each(FLOWS)('S1-M14: %s, message by message as the page has it', async (heading, name, by) => {
  const flow = await playFlow(heading, name)
  expect(named(flow.shown)).toEqual(named(tableOf(flow.section, HEAD)))
  const network = once(flow.shown.filter(({ between }) => between.includes('client')))
  expect(once(flow.captured).map(({ text }) => text)).toEqual(network.map(({ text }) => text))
  expect(new Set(flow.mechanisms)).toEqual(new Set([by + OF_A_PROCESS]))
})

/** A message without what is drawn, and without the address of a place in the queues. */
function plain({ between, text }: Message): string {
  const words = text.replace(/ at 0x[\da-f]+ of the queues/, ' of the queues')
  return `${between}: ${words.replace(/psn \d+/, 'psn')}`
}

/** Those of `wanted` that do not follow one another in `messages`. */
function missingOf(wanted: readonly Message[], messages: readonly Message[]): string[] {
  const all = messages.map(plain)
  let from = 0
  return wanted.map(plain).filter((one) => {
    const at = all.indexOf(one, from)
    if (at >= 0) from = at + 1
    return at < 0
  })
}

test('S1-M14: for each copy the card completes a RECEIVE, and the agent rings', async () => {
  const { section, trace } = await playFlow(...FLOW_2)
  const wanted = tableOf(section.slice(section.indexOf('**How the card asks')), HEAD)
  const writes = trace.flatMap(({ text }, at) => {
    return text.startsWith('DMA write, 128 B') && text.includes('the caches') ? [at] : []
  })
  expect(writes.length).toBe(2)
  expect(missingOf(wanted, trace.slice(...writes))).toEqual([])
})

/** Runs the program of a section against its card; what the page shows of it. */
async function playProgram(heading: string, name: string): Promise<Message[]> {
  const section = sectionOf(heading)
  const [start, look] = blocksOf(section, 'sh')
  const [program] = blocksOf(section, 'js')
  const at = mkdtempSync(join(folder, `${name}-`))
  const packageAt = pathToFileURL(join(ROOT, 'dist/index.js')).href
  await withCard(at, start!, (target) => {
    const text = program!.replace("'perdure'", `'${packageAt}'`)
    writeFileSync(join(at, `${name}.mjs`), text.replaceAll('perdure://127.0.0.1', target))
    typed(at, `"${process.execPath}" ${name}.mjs`, target)
  })
  return messagesOf(typed(at, look!, ''))
}

test('S1-M14: the flag as an address: a WRITE, and an acknowledgement', async () => {
  const heading = 'The flag as an address'
  const shown = await playProgram(heading, 'flag')
  expect(named(shown)).toEqual(named(tableOf(sectionOf(heading), HEAD)))
})

/** Where in `messages` each one of that kind stands. */
function placesOf(messages: readonly Message[], kind: RegExp): number[] {
  return messages.flatMap(({ text }, at) => (kind.test(text) ? [at] : []))
}

test('S1-M5, D-9: a plain client comes again until the bell, by WRITE and by FLUSH', async () => {
  const heading = 'A plain client, through the caches'
  const shown = await playProgram(heading, 'plain')
  const told = tableOf(sectionOf(heading), HEAD)
  expect(named(shown)).toEqual(named(told))
  for (const messages of [shown, told]) {
    const bells = placesOf(messages, /^SEND, request/)
    const fences = placesOf(messages, /^fence$/)
    const [withFlag, flushed] = [/^RDMA WRITE .* 25 B$/, /^FLUSH/].map((kind, i) => {
      const psn = / psn (\d+) /.exec(messages.find(({ text }) => kind.test(text))!.text)![1]
      const asked = placesOf(messages, kind)
      const refused = placesOf(messages, new RegExp(`psn ${psn} not ready`))
      const taken = placesOf(messages, new RegExp(`psn ${psn} ACK msn`))
      // It was refused, came again, and was taken behind fence and bell, which it had asked for.
      expect(asked.length).toBeGreaterThan(1)
      expect(asked[0]).toBeLessThan(refused[0]!)
      expect(asked[0]).toBeLessThan(fences[i]!)
      expect(fences[i]).toBeLessThan(bells[i]!)
      expect(bells[i]).toBeLessThan(taken[0]!)
      return { refused, taken }
    })
    expect(withFlag!.taken[0]).toBeLessThan(flushed!.refused[0]!)
    // The plain WRITE was acknowledged before anything of it was written back.
    expect(placesOf(messages, /ACK msn 1$/)[1]).toBeLessThan(fences[1]!)
  }
})
