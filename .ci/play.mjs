/**
 * Plays a plan (plans.mjs) step by step, and says at the end how each step went.
 *
 *     node .ci/play.mjs gate | thorough [--step NAME]
 *
 * Invariants:
 * - A step has no standard input, a temporary folder of its own and a process group of its own.
 *   When it ends, or this program does, whatever the step left of both is gone.
 * - What follows a step of `stops` that failed is not played: it would only say the same again.
 * - A step that ends with 3 is not run here, and not red; one of `reaches` says by it that not all
 *   was reached, and is.
 * - What a step leaves to look at goes to the folder PERDURE_PICTURES of its environment, which is
 *   emptied before, stays, and is told of at the end.
 * - A run has its time (SECONDS_MAX). What is not over by then is ended, and the run is red.
 * - A run that is red says why in its last 40 lines: the steps that failed, what each said of it,
 *   how it is played again. Exit code 0: every step that can run here passed; 1: one did not;
 *   2: a wrong command line.
 */

import { spawn } from 'node:child_process'
import {
  createWriteStream,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
} from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { PLANS, SECONDS_MAX } from './plans.mjs'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
/** Exit code of a program that cannot run here, and has said why. */
const NOT_HERE = 3
/** Lines of the end, and how many of them tell of what failed. */
const TELLING_MAX = 20
const SKIPS_MAX = 8
const COLUMNS = 200

const work = mkdtempSync(join(tmpdir(), 'pci-'))
const running = new Set()
const results = []
let isOver = false

const say = (line) => void process.stdout.write(`${line}\n`)
const secondsSince = (from) => Math.round((performance.now() - from) / 1000)
const logOf = ({ name }) => join(work, `${name}.log`)

/** Sends a signal to a process group; whether there was one. */
function tell(pid, signal) {
  try {
    return process.kill(-pid, signal)
  } catch {
    return false
  }
}

/** Where a step leaves pictures, or null. */
const picturesOf = ({ environment }) => environment?.PERDURE_PICTURES ?? null

/** Runs a command to its end; what it says goes to the log, and to stdout where it is `loud`. */
function run(step, loud) {
  const [program, ...args] = step.command
  const folder = join(work, `${step.name}.tmp`)
  mkdirSync(folder)
  const log = createWriteStream(logOf(step))
  const env = { ...process.env, TMPDIR: folder, ...step.environment }
  const pictures = picturesOf(step)
  if (pictures !== null) rmSync(join(ROOT, pictures), { recursive: true, force: true })
  const stdio = ['ignore', 'pipe', 'pipe']
  const child = spawn(program, args, { cwd: ROOT, env, stdio, detached: true })
  running.add(child.pid)
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (bytes) => {
      log.write(bytes)
      if (loud) process.stdout.write(bytes)
    })
  }
  return new Promise((resolve) => {
    const end = (code) => {
      tell(child.pid, 'SIGKILL')
      running.delete(child.pid)
      rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
      log.end(() => resolve(code))
    }
    child.on('error', (error) => log.write(`${program}: ${error.message}\n`, () => end(1)))
    child.on('exit', (code) => {
      // What is left of the group may hold the pipes open.
      tell(child.pid, 'SIGKILL')
      child.on('close', () => end(code ?? 1))
    })
  })
}

/** Plays one step and notes how it went; whether the next may follow. */
async function play(step, loud) {
  const { name, command, stops = false } = step
  say(`-- ${name}: ${command.join(' ')}${loud ? '' : ', beside what follows'}`)
  const from = performance.now()
  const code = await run(step, loud)
  if (!loud) say(readFileSync(logOf(step), 'utf8'))
  const seconds = secondsSince(from)
  const failed = code !== 0 && (code !== NOT_HERE || step.reaches === true)
  const result = code === 0 ? 'ok' : failed ? `FAILED (${code})` : 'not run here'
  results.push({ step, seconds, result: failed && isOver ? 'NOT OVER in time' : result, failed })
  say(`-- ${name}: ${result}, ${seconds} s`)
  return !isOver && (!failed || !stops)
}

/** Plays the steps of a lane, one after the other; whether the next group may follow. */
async function playLane(lane, loud) {
  for (const step of lane) if (!(await play(step, loud))) return false
  return true
}

/** Plays groups in turn, the lanes of a group beside each other; the last lane is heard at once. */
async function playAll(groups) {
  for (const lanes of groups) {
    const ends = await Promise.all(lanes.map((lane, i) => playLane(lane, i === lanes.length - 1)))
    if (ends.includes(false)) return
  }
}

/** The lines of a step's output that tell why it failed: those that name it, or the last ones. */
function telling({ step }, most) {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colours begin with one.
  const text = readFileSync(logOf(step), 'utf8').replace(/\x1b\[[\d;]*m/g, '')
  const lines = text.split('\n').filter((line) => line.trim() !== '')
  const named = lines.filter((line) => (step.tells ?? /^FAILED /).test(line))
  const chosen = named.length > 0 ? named.slice(0, most) : lines.slice(-most)
  const more = named.length > most ? [`… and ${named.length - most} more`] : []
  return [...chosen, ...more].map((line) => line.slice(0, COLUMNS))
}

/** What was left out for want of something: whole steps, and tests by file. */
function skips() {
  const steps = results.filter(({ result }) => result === 'not run here')
  const lines = steps.map((one) => `not run: ${one.step.name}: ${telling(one, 1).join('')}`)
  for (const { step } of results) {
    const text = readFileSync(logOf(step), 'utf8')
    for (const [line] of text.matchAll(/^SKIPPED .*$/gm)) lines.push(line.slice(0, COLUMNS))
  }
  if (lines.length <= SKIPS_MAX) return lines
  return [...lines.slice(0, SKIPS_MAX), `… and ${lines.length - SKIPS_MAX} more`]
}

/** Says which pictures there are to look at. */
function tellPictures() {
  for (const { step } of results) {
    const folder = picturesOf(step)
    if (folder === null || !existsSync(join(ROOT, folder))) continue
    say(`to look at, in ${folder}: ${readdirSync(join(ROOT, folder)).sort().join(', ')}`)
  }
}

/** Says how each step went, what was skipped, and why the run is red. */
function conclude(name, steps, seconds) {
  say(`\n${'step'.padEnd(14)}${'seconds'.padStart(8)}  result`)
  for (const step of steps) {
    const played = results.find((one) => one.step === step)
    const { seconds: took = '', result = 'not played' } = played ?? {}
    say(`${step.name.padEnd(14)}${String(took).padStart(8)}  ${result}`)
  }
  say(`${'all'.padEnd(14)}${String(seconds).padStart(8)}  load ${loadavg()[0].toFixed(1)}`)
  for (const line of skips()) say(line)
  tellPictures()
  const failed = results.filter((one) => one.failed)
  for (const one of failed) {
    say(`-- ${one.step.name}: ${one.step.command.join(' ')}`)
    for (const line of telling(one, Math.floor(TELLING_MAX / failed.length) - 1)) say(line)
  }
  if (failed.length === 0) say(`${name}: green`)
  else say(`${name}: RED: ${failed.map(({ step }) => step.name).join(', ')}`)
  return failed.length === 0 ? 0 : 1
}

/** The groups that are asked for, or null after words about the command line. */
function planOf([name, option, only, ...rest]) {
  const groups = PLANS[name]
  const usage = `usage: .ci/${name === 'thorough' ? 'nightly' : 'run'} [--step NAME]`
  if (groups === undefined || rest.length > 0 || (option !== undefined && option !== '--step')) {
    process.stderr.write(`${usage}\n`)
    return null
  }
  if (option === undefined) return groups
  const step = groups.flat(2).find((one) => one.name === only)
  if (step !== undefined) return [[[step]]]
  const names = groups.flat(2).map((one) => one.name)
  process.stderr.write(`${usage}, NAME one of ${names.join(', ')}\n`)
  return null
}

function clearUp() {
  for (const pid of running) tell(pid, 'SIGKILL')
  rmSync(work, { recursive: true, force: true, maxRetries: 3 })
}

/** The time of the run is over: the steps that are played end now, and no other begins. */
function timeIsOver() {
  isOver = true
  for (const pid of running) tell(pid, 'SIGKILL')
}

process.on('exit', clearUp)
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => process.exit(130))

const groups = planOf(process.argv.slice(2))
if (groups === null) {
  process.exitCode = 2
} else {
  setTimeout(timeIsOver, SECONDS_MAX[process.argv[2]] * 1000).unref()
  await playAll(groups)
  const seconds = secondsSince(0)
  process.exitCode = conclude(process.argv[2], groups.flat(2), seconds)
}
