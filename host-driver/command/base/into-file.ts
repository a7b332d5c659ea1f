/**
 * Files that a command writes.
 *
 * Invariant: whoever looks finds what was there before, or all of what came; a command that
 * is interrupted leaves nothing beside it.
 */

import {
  closeSync,
  fchmodSync,
  fchownSync,
  openSync,
  readlinkSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  writeSync,
} from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { ArgumentError, PerdureError } from '../../base/errors.ts'
import { whenInterrupted } from './interrupts.ts'
import { systemCodeOf } from './system-errors.ts'

/** As many symbolic links as Linux follows. */
const LINKS_MAX = 40

/**
 * Fills a file: it has its name when it is whole, and a file of that name is left alone until then;
 * it keeps its mode and owner. What is no plain file (a device, a pipe) is written as it is.
 * Rejects with what `fill` says, or with an error of the system that names the path.
 */
export async function intoFile(
  path: string,
  fill: (file: number) => Promise<void> | void,
): Promise<void> {
  try {
    await filled(path, fill)
  } catch (error) {
    throw naming(path, error)
  }
}

/** The error, which names the file that the user has named, and not the one aside. */
function naming(path: string, cause: unknown): unknown {
  if (cause instanceof PerdureError || systemCodeOf(cause) === null) return cause
  return new Error(`${path} cannot be written: ${(cause as Error).message}`, { cause })
}

async function filled(path: string, fill: (file: number) => Promise<void> | void): Promise<void> {
  const found = statSync(path, { throwIfNoEntry: false })
  if (found !== undefined && !found.isFile()) {
    const file = openSync(path, 'w')
    try {
      await fill(file)
    } finally {
      closeSync(file)
    }
    return
  }
  const whole = targetOf(path)
  const aside = join(dirname(whole), `.perdure-${process.pid}`)
  await interruptible(aside, async () => {
    const file = openSync(aside, 'wx')
    try {
      if (found !== undefined) keepOwner(file, found)
      await fill(file)
      renameSync(aside, whole)
    } catch (error) {
      rmSync(aside, { force: true })
      throw error
    } finally {
      closeSync(file)
    }
  })
}

/** The signals are listened for before the file is there, and until it is not. */
async function interruptible(aside: string, work: () => Promise<void>): Promise<void> {
  const listensNoMore = whenInterrupted(() => rmSync(aside, { force: true }))
  try {
    await work()
  } finally {
    listensNoMore()
  }
}

/** What the path leads to, through symbolic links, be it there or not. */
function targetOf(path: string): string {
  let at = resolve(path)
  for (let links = 0; links < LINKS_MAX; links++) {
    try {
      at = resolve(dirname(at), readlinkSync(at))
    } catch {
      return at
    }
  }
  throw new ArgumentError(`${path} leads through more than ${LINKS_MAX} symbolic links`)
}

function keepOwner(file: number, { mode, uid, gid }: Stats): void {
  fchmodSync(file, mode & 0o7777)
  try {
    fchownSync(file, uid, gid)
    // That may have taken bits of the mode away.
    fchmodSync(file, mode & 0o7777)
  } catch {
    // Another's file is taken over by whoever writes it again, as an editor does.
  }
}

/** Writes all of it, however much one call takes. */
export function writeAll(file: number, data: Uint8Array): void {
  for (let at = 0; at < data.length; ) at += writeSync(file, data, at)
}
