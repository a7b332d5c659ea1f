/**
 * `perdure monitor TARGET…`: what cards tell of themselves, again and again: a table that renews
 * itself on a terminal, a line for each look elsewhere, JSON Lines, or a page for a browser.
 *
 * Invariants:
 * - A card that goes away is waited for, and said to be away; no card holds up the others.
 * - Only cards are monitored. An image stands still, and booting it would be a start of its own.
 * - It ends with 0 where its user ends it. After `--count` looks, 69 says that a card did not
 *   answer the last one.
 */

import { readFileSync } from 'node:fs'
import { type Command, InvalidArgumentError } from 'commander'
import { ArgumentError } from '../../base/errors.ts'
import { isPcieTarget } from '../../card/target.ts'
import { wholeNumber } from '../base/arguments.ts'
import { OK, UNAVAILABLE } from '../base/exit-codes.ts'
import { Output } from '../base/output.ts'
import { isAddress } from '../base/target.ts'
import { Follower, type Looked } from './follower.ts'
import { eventJson, lookJson } from './json.ts'
import { metricsText } from './metrics.ts'
import { Screen } from './screen.ts'
import { eventLine, lookLine } from './text.ts'
import { type PageFiles, WebServer } from './web.ts'

interface Options {
  readonly json?: boolean
  readonly smp?: string
  readonly metrics?: boolean
  readonly told?: boolean
  /** The port of the page, 0 for any; true where none is said. */
  readonly web?: number | true
  readonly interval: number
  readonly timeout: number
  readonly count: number
}

const INTERVAL_SECONDS = 2
const TIMEOUT_SECONDS = 5

export function addMonitor(program: Command): void {
  program
    .command('monitor')
    .description('show what cards tell of themselves, and go on showing it')
    .argument('<target...>', 'perdure://[key@]host[:port], or pcie:FILE[/address]')
    .option('--interval <seconds>', 'between two looks', seconds(0.1), INTERVAL_SECONDS)
    .option('--count <n>', 'end after so many looks at each card', wholeNumber(1), Infinity)
    .option('--timeout <seconds>', 'for an answer of a card', seconds(0.1), TIMEOUT_SECONDS)
    .option('--json', 'as JSON Lines: one object for each look, and for each event')
    .option('--smp <port>', 'ask what firmware runs: unix:PATH, udp:HOST, a serial line')
    .option('--told', 'look at once when a card tells that its health has changed')
    .option('--metrics', 'print once what there is, as Prometheus wants it')
    .option('--web [port]', 'show it as a page on this machine, on any port by default', port)
    .action(async (targets: readonly string[], options: Options) => {
      process.exitCode = await monitor(targets, options)
    })
}

function seconds(least: number): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (text.trim() !== '' && value >= least && value <= 3600) return value
    throw new InvalidArgumentError(`seconds, ${least} to 3600`)
  }
}

function port(text: string): number {
  const value = Number(text)
  if (/^\d+$/.test(text) && value <= 65535) return value
  throw new InvalidArgumentError('a port, 0 to 65535; 0 takes any that is free')
}

async function monitor(targets: readonly string[], options: Options): Promise<number> {
  checkTargets(targets)
  const { timeout, smp = null, told = false } = options
  if (told) checkTold(targets, options)
  if (smp !== null && targets.length > 1) {
    throw new ArgumentError('--smp is the port of one card: name that card alone')
  }
  const followers = targets.map((target) => new Follower(target, timeout * 1000, smp, told))
  if (options.metrics === true) return await printMetrics(followers, options)
  const ended = new AbortController()
  const release = whenEnded(() => ended.abort())
  ended.signal.addEventListener('abort', () => {
    for (const one of followers) one.close()
  })
  let server: WebServer | null = null
  try {
    server = await serve(targets, options)
    const tell = teller(options, server)
    const looks = followers.map((one) => follow(one, options, ended.signal, tell))
    const isUp = await Promise.all(looks)
    return ended.signal.aborted || isUp.every((is) => is) ? OK : UNAVAILABLE
  } finally {
    release()
    ended.abort()
    server?.close()
  }
}

/** The server of the page, where one is asked for; its address is data. */
async function serve(
  targets: readonly string[],
  { json = false, web, interval }: Options,
): Promise<WebServer | null> {
  if (web === undefined) return null
  const server = new WebServer(pageFiles(), targets, interval * 1000)
  const address = await server.listen(web === true ? 0 : web)
  const output = new Output(json)
  if (json) output.printJson({ web: address })
  else output.print(address)
  return server
}

/** What the page is made of lies beside the bundle. */
function pageFiles(): PageFiles {
  const read = (name: string): string => {
    return readFileSync(new URL(`./${name}`, import.meta.url), 'utf8')
  }
  const [html, script, style] = ['monitor.html', 'monitor.js', 'monitor.css'].map(read)
  return { html: html!, script: script!, style: style! }
}

function checkTargets(targets: readonly string[]): void {
  const twice = targets.find((target, i) => targets.indexOf(target) < i)
  if (twice !== undefined) throw new ArgumentError(`${twice} is there twice: name it once`)
  const image = targets.find((target) => !isAddress(target))
  if (image === undefined) return
  const how = `a card is perdure://HOST, and 'perdure inspect ${image}' looks at an image`
  throw new ArgumentError(`${image}: a card is what can be monitored; ${how}`)
}

/** A card tells those alone who reach it by frames. */
function checkTold(targets: readonly string[], { metrics = false }: Options): void {
  if (metrics) throw new ArgumentError('--metrics is one look: leave out --told')
  const own = targets.find(isPcieTarget)
  if (own === undefined) return
  throw new ArgumentError(`${own}: a card tells nothing to its own host: leave out --told`)
}

/** One look at each card, as text of Prometheus: for who collects files, or has a script. */
async function printMetrics(
  followers: readonly Follower[],
  { json = false, web }: Options,
): Promise<number> {
  if (json || web !== undefined) {
    throw new ArgumentError('--metrics is a text of its own: leave out --json and --web')
  }
  const output = new Output(false)
  try {
    const looked = await Promise.all(followers.map((one) => one.look()))
    const looks = looked.map(({ look }) => look)
    for (const look of looks) if (!look.up) output.say(lookLine(look))
    process.stdout.write(metricsText(looks))
    return looks.every(({ up }) => up) ? OK : UNAVAILABLE
  } finally {
    for (const one of followers) one.close()
  }
}

/** Looks until there were enough, or the signal fires; whether the card answered the last look. */
async function follow(
  follower: Follower,
  { interval, count }: Options,
  signal: AbortSignal,
  tell: (looked: Looked) => void,
): Promise<boolean> {
  const beganMs = performance.now()
  for (let done = 0; ; ) {
    const looked = await follower.look()
    if (signal.aborted) return true
    tell(looked)
    done += 1
    if (done >= count) return looked.look.up
    // A look that took longer than the interval leaves out those that it would have met.
    const nowMs = performance.now()
    const next = Math.ceil((nowMs - beganMs) / (interval * 1000) + 1e-6)
    const waitMs = beganMs + next * interval * 1000 - nowMs
    await follower.pause(waitMs, signal)
    if (signal.aborted) return true
  }
}

/** Shows looks as they come. */
function teller(options: Options, server: WebServer | null): (looked: Looked) => void {
  const show = shower(options)
  return (looked) => {
    server?.take(looked.look, looked.events)
    show(looked)
  }
}

function shower({ json = false, interval, web }: Options): (looked: Looked) => void {
  const output = new Output(json)
  if (json) {
    return ({ look, events }) => {
      for (const event of events) output.printJson(eventJson(event))
      output.printJson(lookJson(look))
    }
  }
  if (process.stdout.isTTY !== true || web !== undefined) {
    return ({ look, events }) => {
      for (const event of events) output.say(eventLine(event))
      if (web === undefined) output.print(lookLine(look))
    }
  }
  const screen = new Screen(interval)
  return ({ look, events }) => {
    // A line without a size, as of a program that types, says 0.
    const [columns, rows] = [process.stdout.columns || 80, process.stdout.rows || 24]
    process.stdout.write(screen.renew(look, events, { columns, rows }))
  }
}

const ENDS = ['SIGINT', 'SIGTERM'] as const

/** Does that when the user ends the command; a second signal ends it hard. */
function whenEnded(end: () => void): () => void {
  const once = (): void => {
    release()
    end()
  }
  const release = (): void => {
    for (const signal of ENDS) process.off(signal, once)
  }
  for (const signal of ENDS) process.on(signal, once)
  return release
}
