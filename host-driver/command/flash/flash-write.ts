/**
 * `perdure flash FILE`: an upload, a trial, a confirm.
 *
 * Invariant: nothing is marked that the card has not looked at whole; what is confirmed is
 * what has run. Whoever ends it in the middle is told what is so now; the same command goes on.
 */

import { readFileSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { type Opened, openImage } from '../../../boards/flash/check-image.ts'
import { TLV_KEY_HASH, tlvValue, versionText } from '../../../boards/flash/mcuboot.ts'
import type { FlashTarget, Slot } from '../../flash/card.ts'
import { BUSY, DATA, OK } from '../base/exit-codes.ts'
import { whenInterrupted } from '../base/interrupts.ts'
import type { Output } from '../base/output.ts'
import { checkFile, messageOf } from '../base/system-errors.ts'
import { withTarget } from '../base/target.ts'
import { firstUnread } from '../first-record.ts'
import {
  isSame,
  LOOK_MS,
  RESTART_MS,
  restart,
  running,
  slotFields,
  stage,
  told,
  trialOf,
} from './flash-stages.ts'
import { inFile } from './image.ts'
import { shortHash } from './signing-key.ts'

/** Progress that is told to programs, of a whole. */
const TOLD_SHARE = 0.1

export interface WriteOptions {
  readonly confirm: boolean
  readonly reset: boolean
  /** A card, whose records are read before it is confirmed. */
  readonly target?: string
  readonly dryRun?: boolean
  readonly force?: boolean
}

/** Uploads an image, tries it, and confirms it; the exit code. */
export async function write(
  card: FlashTarget,
  output: Output,
  file: string,
  options: WriteOptions,
): Promise<number> {
  checkFile(file)
  const bytes = new Uint8Array(readFileSync(file))
  const opened = inFile(file, () => openImage(bytes))
  const slots = await card.list()
  sayPlan(output, slots, opened)
  const busy = busyWith(slots)
  if (busy !== null) {
    stage(output, 'busy', busy)
    return BUSY
  }
  const runs = running(slots)
  const isEqual = runs !== undefined && isSame(runs.hash, opened.image.hash)
  if (isEqual && options.force !== true) {
    stage(output, 'equal', `${runs.version} runs already`, slotFields(runs))
    return OK
  }
  if (options.dryRun === true) {
    output.say('--dry-run: it would be uploaded, tried and confirmed')
    return OK
  }
  const stopped = { words: 'nothing has begun' }
  const listensNoMore = whenInterrupted(() => output.say(`stopped   ${stopped.words}`))
  try {
    await uploadTo(card, output, bytes, stopped)
    return isEqual ? OK : await tryOut(card, output, opened.image.hash, options, stopped)
  } finally {
    listensNoMore()
  }
}

/** What is said to whoever ends the command now. */
interface Stopped {
  words: string
}

/** Marks what slot 1 holds, starts it, and confirms it if it is good. */
async function tryOut(
  card: FlashTarget,
  output: Output,
  hash: Uint8Array,
  options: WriteOptions,
  stopped: Stopped,
): Promise<number> {
  await card.test(hash)
  stopped.words = 'it is marked: the next start tries it'
  if (!options.reset) {
    stage(output, 'marked', 'the next start tries it')
    return OK
  }
  stopped.words = "it is on trial: it goes back by itself unless 'perdure flash confirm' keeps it"
  await restart(card, output)
  return await tried(card, output, hash, options)
}

function sayPlan(output: Output, slots: readonly Slot[], { image, payload }: Opened): void {
  for (const slot of slots.filter(({ active }) => active)) {
    stage(output, 'runs', told(slot), slotFields(slot))
  }
  const { counter, formats } = payload.manifest
  const name = tlvValue(image, TLV_KEY_HASH)
  const by = name === null ? 'no key' : shortHash(name)
  const version = versionText(image.version)
  const words = `signed by ${by}, counter ${counter}, formats ${[...new Set(formats)].join(' to ')}`
  const hash = Buffer.from(image.hash).toString('hex')
  stage(output, 'image', `${version.padEnd(10)} ${shortHash(image.hash)}  ${words}`, {
    version,
    hash,
  })
}

/** Why nothing can be uploaded now; null if it can. */
function busyWith(slots: readonly Slot[]): string | null {
  const trial = trialOf(slots)
  if (trial !== undefined) return `${trial.version} is on trial: confirm or revert it`
  const marked = slots.find(({ pending }) => pending)
  return marked === undefined ? null : `${marked.version} is marked for the next start: reset first`
}

async function uploadTo(
  card: FlashTarget,
  output: Output,
  bytes: Uint8Array,
  stopped: Stopped,
): Promise<void> {
  const from = performance.now()
  let begun = -1
  let toldAt = 0
  let reached = (_: number): void => {}
  await card.upload(bytes, (done) => {
    if (begun < 0) {
      begun = done
      reached = output.progress('upload', bytes.length, 'bytes', done)
    }
    const percent = Math.floor((100 * done) / bytes.length)
    stopped.words = `upload stopped at ${percent} %: the same command goes on there`
    reached(done)
    if (!output.json || done < toldAt * bytes.length) return
    toldAt = Math.floor(done / bytes.length / TOLD_SHARE) * TOLD_SHARE + TOLD_SHARE
    output.printJson({ stage: 'upload', done, bytes: bytes.length })
  })
  const seconds = (performance.now() - from) / 1000
  const rate = `${((bytes.length - Math.max(begun, 0)) / seconds / 1000).toFixed(1)} kB/s`
  stage(output, 'verified', `${bytes.length} bytes, ${rate}: the card has the same SHA-256`, {
    bytes: bytes.length,
    seconds,
  })
}

/** Behind the restart: does it pass its self-test, and what `--target` asks, and does it stay? */
async function tried(
  card: FlashTarget,
  output: Output,
  hash: Uint8Array,
  { confirm: stays, target }: WriteOptions,
): Promise<number> {
  const from = performance.now()
  while ((await isUnderWay(card, hash)) && performance.now() - from < RESTART_MS) {
    await setTimeout(LOOK_MS)
  }
  const slots = await card.list()
  const runs = running(slots)
  if (runs === undefined || !isSame(runs.hash, hash)) return await reverted(card, output, runs)
  const unread = target === undefined ? null : await unreadAt(target)
  if (unread !== null) {
    const words = `${unread}. ${runs.version} stays on trial: 'perdure flash revert' goes back now`
    stage(output, 'unread', words, { reason: unread })
    return DATA
  }
  if (stays) return await keep(card, output, hash, slots)
  const about = await card.about()
  const left = about === null ? '' : ` It goes back in ${about.left} s.`
  stage(output, 'trial', `${runs.version} runs: 'perdure flash confirm' keeps it.${left}`)
  return OK
}

async function reverted(card: FlashTarget, output: Output, runs?: Slot): Promise<number> {
  const reason = (await card.about())?.reason ?? 'the card does not say why'
  const version = runs?.version ?? 'what it came with'
  stage(output, 'reverted', `${reason}; ${version} serves again`, { reason })
  return DATA
}

/** Confirms what is on trial, if it still is. */
async function keep(
  card: FlashTarget,
  output: Output,
  hash: Uint8Array,
  slots: readonly Slot[],
): Promise<number> {
  const runs = running(trialOf(slots) === undefined ? slots : await card.confirm())
  if (runs === undefined || !isSame(runs.hash, hash)) return await reverted(card, output, runs)
  stage(output, 'confirmed', runs.version, slotFields(runs))
  return OK
}

/** Which record of the target a driver cannot read, and why; null where it reads them. */
async function unreadAt(target: string): Promise<string | null> {
  try {
    return await withTarget(target, { writes: false }, ({ dpu }) => firstUnread(dpu))
  } catch (error) {
    return messageOf(error)
  }
}

/** It is not started yet, or its self-test is not over. */
async function isUnderWay(card: FlashTarget, hash: Uint8Array): Promise<boolean> {
  const isMarked = (await card.list()).some((one) => one.pending && isSame(one.hash, hash))
  return isMarked || (await card.about())?.tested === false
}
