/**
 * `perdure read TARGET REGION`: writes the records of a region, verified end to end, one behind the
 * other. Slots that nobody has written are left out; at the first lost record the command stops.
 */

import { createHash } from 'node:crypto'
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
import type { Command } from 'commander'
import { ArgumentError, PerdureError } from '../errors.ts'
import type { Region } from '../region.ts'
import { engineOption, pathMtuOf, pathMtuOption, type SlotRange, slotRange } from './arguments.ts'
import { Output } from './output.ts'
import { systemCodeOf } from './system-errors.ts'
import { openRecords, openTarget, TARGETS } from './target.ts'

interface Options {
  readonly slots?: SlotRange
  readonly out?: string
  readonly json?: boolean
  readonly engine?: 'quickjs' | 'node'
  readonly pathMtu?: string
}

const INTERRUPTS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** As many symbolic links as Linux follows. */
const LINKS_MAX = 40

/** Reads that are under way at once. */
const AHEAD = 16

export function addRead(program: Command): void {
  program
    .command('read')
    .description('write the records of a region, verified, to standard output or a file')
    .argument('<target>', TARGETS)
    .argument('<region>', 'name of the region')
    .option('--slots <a..b>', 'the slots to read; all by default', slotRange)
    .option('--out <file>', 'write the data to this file')
    .addOption(engineOption())
    .addOption(pathMtuOption())
    .option('--json', 'one JSON object for each record; with --out without the data')
    .action(readRecords)
}

async function readRecords(target: string, name: string, options: Options): Promise<void> {
  const output = new Output(options.json === true)
  const { engine, out } = options
  const connect = pathMtuOf(options)
  const opened = await openTarget(target, { writes: false, connect, ...(engine && { engine }) })
  try {
    const region = await openRecords(opened.dpu, name)
    const { first, last } = options.slots ?? { first: 0, last: region.slots - 1 }
    if (last >= region.slots) throw new ArgumentError(`'${name}' ends at slot ${region.slots - 1}`)
    if (out === undefined) await copyRecords(region, first, last, null, output)
    else {
      const copy = intoFile(out, (file) => copyRecords(region, first, last, file, output))
      await copy.catch((error: unknown) => Promise.reject(naming(out, error)))
    }
  } finally {
    await opened.close()
  }
}

/**
 * Fills a file: it has its name when it is whole, and a file of that name is left alone until then;
 * it keeps its mode and owner. What is no plain file (a device, a pipe) is written as it is.
 */
async function intoFile(path: string, fill: (file: number) => Promise<void>): Promise<void> {
  const found = statSync(path, { throwIfNoEntry: false })
  if (found !== undefined && !found.isFile()) {
    const file = openSync(path, 'w')
    await fill(file).finally(() => closeSync(file))
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

/** The error, which names the file that the user has named, and not the one aside. */
function naming(path: string, cause: unknown): unknown {
  if (cause instanceof PerdureError || systemCodeOf(cause) === null) return cause
  return new Error(`${path} cannot be written: ${(cause as Error).message}`, { cause })
}

/**
 * Does what has a file aside: whoever is interrupted leaves nothing half, and ends as he would have
 * ended. The signals are listened for before the file is there, and until it is not.
 */
async function interruptible(aside: string, work: () => Promise<void>): Promise<void> {
  const interrupted = (signal: NodeJS.Signals): void => {
    rmSync(aside, { force: true })
    process.kill(process.pid, signal)
  }
  for (const signal of INTERRUPTS) process.once(signal, interrupted)
  try {
    await work()
  } finally {
    for (const signal of INTERRUPTS) process.off(signal, interrupted)
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
    // Another's file is taken over by whoever writes it anew, as an editor does.
  }
}

async function copyRecords(
  region: Region,
  first: number,
  last: number,
  file: number | null,
  output: Output,
): Promise<void> {
  const hash = createHash('sha256')
  let records = 0
  let bytes = 0
  for (let slot = first; slot <= last; slot += AHEAD) {
    const count = Math.min(AHEAD, last - slot + 1)
    const reads = Array.from({ length: count }, (_, i) => region.read(slot + i))
    for (const read of reads) read.catch(() => {})
    for (const [i, read] of reads.entries()) {
      const { data, written, ...about } = await read
      if (!written) continue
      records++
      bytes += data.length
      hash.update(data)
      if (file !== null) writeAll(file, data)
      else if (!output.json) await writeOut(data)
      const shown = { slot: slot + i, length: data.length, ...about }
      if (output.json) output.printJson(file === null ? { ...shown, data } : shown)
    }
    output.progress('read', slot + count - first, last - first + 1)
  }
  output.say(`${records} records, ${bytes} bytes, SHA-256 ${hash.digest('hex')}`)
}

/** Waits until standard output has taken the bytes, however slow its reader is. */
function writeOut(data: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(data, (error) => (error ? reject(error) : resolve()))
  })
}

function writeAll(file: number, data: Uint8Array): void {
  for (let at = 0; at < data.length; ) at += writeSync(file, data, at)
}
