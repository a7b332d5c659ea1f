/**
 * One card for one image: a second one would write what the first does not know of (fault H12).
 *
 * Invariant: the lock is the kernel's, on the open file (flock), and goes with whoever has
 * the file open: after a kill, and after a power cut, it is nobody's. It is given back by a call,
 * not by closing: a child that another thread has forked has the file open until it runs. Node has
 * no call for it, but such a lock belongs to the open file and not to the process that asked:
 * `flock` of util-linux or busybox is handed the descriptor, locks it, and ends; the lock stays
 * with ours. It is exclusive, as an emulated card has the whole file; the native runtime, which may
 * have a part of it, takes it shared and its own bytes by an OFD lock
 * (`boards/linux/src/memory/image-lock.h`).
 *
 * A file beside the image says who has it: process, start of the process, boot of the machine. It
 * is words for people; and where there is no `flock`, on other systems, it is the lock as well.
 * Then a process has the image if there is one of that number, that start, in this boot.
 * /proc/locks is no help: it names the process that asked, which has ended.
 */

import { spawnSync } from 'node:child_process'
import {
  closeSync,
  constants,
  fstatSync,
  linkSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { BEGAN, STATE, statOf } from './proc-stat.ts'

/** Gives a lock back. */
type Unlock = () => void

/** The process that has it; 0 is one that nothing names. */
type Holder = number

/** Never through a symbolic link that somebody has laid there. */
const { O_CREAT, O_NOFOLLOW = 0, O_RDWR, O_TRUNC, O_WRONLY } = constants
const WRITE = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW
const READ_WRITE = O_RDWR | O_CREAT | O_NOFOLLOW

/** How often a file that comes and goes is tried. */
const ATTEMPTS = 8

/** Locks the image that `descriptor` is open on, at that path. */
export function lockImage(path: string, descriptor: number): Unlock | Holder {
  const name = `${realpathSync(path)}.lock`
  return takeFile(name, descriptor, askKernel(descriptor))
}

/** Locks one side of a file that two processes share: the lock is on a file of the side's own. */
export function lockSide(path: string, side: string): Unlock | Holder {
  const name = `${realpathSync(path)}.${side}.lock`
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const descriptor = openSync(name, READ_WRITE, 0o644)
    const kernel = askKernel(descriptor)
    // Who had it before takes its file away: a lock on that one is none.
    const isOurs = kernel !== 'locked' || isAt(name, descriptor)
    const taken = isOurs ? takeFile(name, descriptor, kernel) : null
    if (taken !== null && typeof taken !== 'number') {
      return () => {
        taken()
        closeSync(descriptor)
      }
    }
    closeSync(descriptor)
    if (taken !== null) return taken
  }
  throw new Error(`${name} comes and goes`)
}

function isAt(name: string, descriptor: number): boolean {
  const ours = fstatSync(descriptor, { bigint: true })
  const there = statSync(name, { bigint: true, throwIfNoEntry: false })
  return there !== undefined && there.ino === ours.ino && there.dev === ours.dev
}

type Answer = 'locked' | 'refused' | 'no answer'

/** What stands beside: read, and made to name us, as the kernel's answer has it. */
function takeFile(name: string, descriptor: number, kernel: Answer): Unlock | Holder {
  const holder = livingHolder(name)
  if (kernel === 'refused') return holder ?? 0
  const giveBack = (): void => void (kernel === 'locked' && flock(descriptor, '-u'))
  // Of our own number is what another thread has; with the kernel's lock nobody else has it.
  if (holder !== null && (kernel === 'no answer' || holder !== process.pid)) {
    giveBack()
    return holder
  }
  if (kernel === 'locked') say(name)
  const first = kernel === 'locked' ? null : claim(name)
  if (first !== null) return first
  return () => {
    // Nothing is lost if it stays: it is believed of a process only that has the same start.
    if (livingHolder(name) === process.pid) removeIfMay(name)
    giveBack()
  }
}

/** An exclusive lock of the open file, at once or not at all. */
function askKernel(descriptor: number): Answer {
  const status = flock(descriptor, '-x', '-n')
  if (status === 0) return 'locked'
  return status === 1 ? 'refused' : 'no answer'
}

/** Asks the kernel by that program; its exit code, or null where there is no such program. */
function flock(descriptor: number, ...options: string[]): number | null {
  const stdio = ['ignore', 'ignore', 'ignore', descriptor] as const
  return spawnSync('flock', [...options, '3'], { stdio: [...stdio] }).status
}

/** Writes who we are. That it cannot be written takes nothing away from the lock. */
function say(name: string): void {
  try {
    const descriptor = openSync(name, WRITE, 0o644)
    writeFileSync(descriptor, whoWeAre())
    closeSync(descriptor)
  } catch {}
}

function removeIfMay(name: string): void {
  try {
    rmSync(name, { force: true })
  } catch {}
}

/**
 * Takes the file as a lock: it is made by one call that fails where it exists, with its content in
 * place. Returns who was faster, or null.
 */
function claim(name: string): Holder | null {
  const ours = `${name}.${process.pid}`
  try {
    writeFileSync(ours, whoWeAre())
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      try {
        linkSync(ours, name)
        return null
      } catch (error) {
        if (!isThere(error)) throw error
      }
      const holder = livingHolder(name)
      if (holder !== null) return holder
      putAside(name, `${ours}.before`)
    }
    throw new Error(`${name} comes and goes`)
  } finally {
    rmSync(ours, { force: true })
  }
}

/** Takes away what names nobody, and puts back what somebody has made in its place meanwhile. */
function putAside(name: string, aside: string): void {
  try {
    renameSync(name, aside)
    if (livingHolder(aside) !== null) linkSync(aside, name)
  } catch {
    // It has gone, or somebody was faster once more: the next attempt sees.
  } finally {
    rmSync(aside, { force: true })
  }
}

function isThere(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EEXIST'
}

/** The process that the file names, or null if it lives no more, or nothing is named. */
function livingHolder(name: string): Holder | null {
  const text = readIfThere(name)
  const holder = Number(text.split(' ', 1)[0])
  if (!Number.isInteger(holder) || holder <= 0) return null
  return text === whoIs(holder) && isAlive(holder) ? holder : null
}

function isAlive(holder: number): boolean {
  try {
    process.kill(holder, 0)
    return true
  } catch (error) {
    // A process that we may not signal is there.
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}

function whoWeAre(): string {
  return whoIs(process.pid)
}

/**
 * "4711 81125 8d3c…": number, start in ticks since the machine's, and boot; nothing of one that has
 * ended. Outside of Linux, and without /proc, a process is known by its number alone.
 */
function whoIs(process: number): string {
  const fields = statOf(process)
  // One that was killed stays in the table until its parent asks about it: some never do.
  if (fields[STATE] === 'Z' || fields[STATE] === 'X') return ''
  const boot = readIfThere('/proc/sys/kernel/random/boot_id').trim()
  return `${process} ${fields[BEGAN] ?? '-'} ${boot || '-'}\n`
}

function readIfThere(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
