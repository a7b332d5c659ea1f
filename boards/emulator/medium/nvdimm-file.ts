/**
 * An NVDIMM whose durable content is a file: the raw image of the part, byte for byte.
 *
 * Invariants:
 * - What a fence made durable has been handed to the operating system before the fence returns, so
 *   a process that is killed loses nothing fenced. (A crash of the whole machine may: the file
 *   stands for memory, it is not flushed to the disk at every fence.)
 * - The disk has the file when the use of it ends, and when one begins. Where it has not, the file
 *   may hold less than was served: an error says so, and the part has had a failed save.
 * - An existing file is never made longer or shorter, and a file that is refused is left alone.
 * - What is not content (poisoned lines, unsafe shutdowns, a failed save) stands in a small file
 *   beside it, which exists only if there is something to say.
 * - That file, and the lock, are found whatever the image is called: through symbolic links, and by
 *   each of its names in one folder. An image with a name in another folder is refused.
 */

import {
  closeSync,
  existsSync,
  fdatasyncSync,
  fstatSync,
  ftruncateSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { lockImage } from '../../image-lock.ts'
import { BOOLEAN, type Kinds, SIZE, TEXT } from '../../kinds.ts'
import { check, checkFields, NUMBER } from '../base/arguments.ts'
import { type Backing, type Condition, NVDIMM_BYTES_MAX, Nvdimm, PAGE_BYTES } from './nvdimm.ts'

/** Ends the name of the file beside the image. */
const CONDITION_SUFFIX = '.condition'

export type NvdimmFileCode =
  | 'NVDIMM_OPEN' // the file cannot be opened, made or read
  | 'NVDIMM_SIZE' // no part has that size, or not the size that was asked for
  | 'NVDIMM_CONDITION' // the file beside the image is not one of ours
  | 'NVDIMM_IN_USE' // another card has the image
  | 'NVDIMM_WRITE' // what is durable cannot be written into the file, or beside it

export class NvdimmFileError extends Error {
  override readonly name = 'NvdimmFileError'
  readonly code: NvdimmFileCode

  constructor(code: NvdimmFileCode, message: string, cause?: unknown) {
    super(message, { cause })
    this.code = code
  }
}

export interface NvdimmFileOptions {
  readonly path: string
  /** Makes the file, of that many bytes, if there is none or it is empty; else that is its size. */
  readonly bytes?: number
  /** Never writes the file: what is stored lives in memory only. */
  readonly readOnly?: boolean
  readonly adrFences?: number
  /** As of NvdimmOptions. */
  readonly volatile?: boolean
}

const FILE_KINDS: Kinds<NvdimmFileOptions> = {
  ...{ path: TEXT, bytes: NUMBER, readOnly: BOOLEAN, adrFences: SIZE, volatile: BOOLEAN },
}

/** Whether `bytes` makes the image: there is none, or an empty file, as a killed start leaves. */
export function isToBeMade(path: string): boolean {
  check('the path of an image', path, TEXT)
  if (!existsSync(path)) return true
  const found = statSync(path)
  return found.isFile() && found.size === 0
}

/** Opens or makes the image. Throws an NvdimmFileError. */
export function openNvdimm(options: NvdimmFileOptions): Nvdimm {
  checkFields('an NVDIMM in a file', options, FILE_KINDS, ['path'])
  const { path, readOnly = false, adrFences = 0, volatile = false } = options
  const isNew = !existsSync(path)
  const isMade = !readOnly && options.bytes !== undefined && isToBeMade(path)
  const made = isMade ? (isNew ? 'file' : 'content') : null
  if (isMade) checkSize(path, options.bytes!)
  const descriptor = openFile(path, readOnly ? 'r' : made === 'file' ? 'wx+' : 'r+')
  let unlock = (): void => {}
  try {
    const own = ownPath(path)
    if (!readOnly) unlock = lock(own, descriptor)
    if (isMade) naming(path, () => ftruncateSync(descriptor, options.bytes!))
    const bytes = fstatSync(descriptor).size
    checkSize(path, bytes)
    if (options.bytes !== undefined && options.bytes !== bytes) {
      const found = `${path} is a part of ${bytes} bytes, not of ${options.bytes}`
      throw new NvdimmFileError('NVDIMM_SIZE', `${found}: ask for that size, or none`)
    }
    const condition = readCondition(own)
    const backing = fileBacking({ path: own, descriptor, unlock, made }, condition)
    if (!readOnly && !isMade) backing.settle()
    const content = readContent(path, descriptor, bytes)
    const part = {
      bytes,
      content,
      adrFences,
      volatile,
      ...(condition === null ? {} : { condition }),
    }
    if (!readOnly) return new Nvdimm({ ...part, backing })
    const memoryOnly = new Nvdimm(part)
    closeSync(descriptor)
    return memoryOnly
  } catch (error) {
    unlock()
    closeSync(descriptor)
    if (made === 'file') rmSync(path, { force: true })
    throw error
  }
}

/**
 * The path by which everybody knows the image: no symbolic link, and of several names in its folder
 * the first one that has something beside it, or the first. Throws where another folder has one.
 */
function ownPath(path: string): string {
  const real = realpathSync(path)
  const { dev, ino, nlink } = statSync(real, { bigint: true })
  if (nlink === 1n) return real
  const folder = dirname(real)
  const names = readdirSync(folder).filter((name) => {
    // A symbolic link is a file of its own here.
    const found = lstatSync(join(folder, name), { bigint: true, throwIfNoEntry: false })
    return found?.ino === ino && found.dev === dev
  })
  if (BigInt(names.length) < nlink) {
    const others = `${nlink} names, of which ${nlink - BigInt(names.length)} in another folder`
    const why = 'what is kept beside it would not be found from there: leave it one name'
    throw new NvdimmFileError('NVDIMM_OPEN', `${basename(real)} has ${others}: ${why}`)
  }
  const told = names.sort().find((name) => existsSync(join(folder, name + CONDITION_SUFFIX)))
  return join(folder, told ?? names[0]!)
}

function lock(path: string, descriptor: number): () => void {
  const taken = lockImage(path, descriptor)
  if (typeof taken !== 'number') return taken
  const holder = taken === 0 ? 'another process' : `process ${taken}`
  const message = `${path} is in use by ${holder}: stop that card first`
  throw new NvdimmFileError('NVDIMM_IN_USE', message)
}

function openFile(path: string, flags: string): number {
  try {
    return openSync(path, flags)
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new NvdimmFileError('NVDIMM_OPEN', `${path} cannot be opened: ${reason}`, cause)
  }
}

function checkSize(path: string, bytes: number): void {
  if (bytes > 0 && bytes % PAGE_BYTES === 0 && bytes <= NVDIMM_BYTES_MAX) return
  const size = `${bytes} bytes; a part has a multiple of 4096, up to 1 GiB`
  const message = `${path}: ${size}: name an image that 'perdure emulate --create' has made`
  throw new NvdimmFileError('NVDIMM_SIZE', message)
}

function readContent(path: string, descriptor: number, bytes: number): Uint8Array {
  const content = new Uint8Array(bytes)
  for (let at = 0; at < bytes; ) {
    const count = readSync(descriptor, content, at, bytes - at, at)
    if (count === 0) throw new NvdimmFileError('NVDIMM_OPEN', `${path} ended while it was read`)
    at += count
  }
  return content
}

function readCondition(path: string): Condition | null {
  const beside = path + CONDITION_SUFFIX
  if (!existsSync(beside)) return null
  try {
    const read = JSON.parse(readFileSync(beside, 'utf8')) as Condition
    const { dirtyShutdowns, saveFailed, poisonedLines } = read
    if (!Number.isInteger(dirtyShutdowns) || !poisonedLines.every(Number.isInteger)) throw read
    return { dirtyShutdowns, saveFailed: saveFailed === true, poisonedLines }
  } catch (cause) {
    throw new NvdimmFileError(
      'NVDIMM_CONDITION',
      `${beside} is damaged: put it back as it was, or take it away if no line was bad`,
      cause,
    )
  }
}

/** Does it, or throws an error that names the file. */
function naming(path: string, work: () => void): void {
  try {
    work()
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new NvdimmFileError('NVDIMM_WRITE', `${path} cannot be written: ${reason}`, cause)
  }
}

interface FileBacking extends Backing {
  /** Waits until the disk has the file. Throws where it has not, and notes a failed save. */
  settle(): void
}

/** An image that is open, and locked unless it is only read. */
interface Opened {
  /** By which everybody knows it. */
  readonly path: string
  readonly descriptor: number
  readonly unlock: () => void
  /** What this call has made: the file, the content of an empty one, or nothing. */
  readonly made: 'file' | 'content' | null
}

const NOTHING: Condition = { dirtyShutdowns: 0, saveFailed: false, poisonedLines: [] }

function fileBacking(
  { path, descriptor, unlock, made }: Opened,
  found: Condition | null,
): FileBacking {
  const beside = path + CONDITION_SUFFIX
  let noted = found ?? NOTHING
  return {
    write(durable, at, length): void {
      naming(path, () => {
        for (let done = 0; done < length; ) {
          done += writeSync(descriptor, durable, at + done, length - done, at + done)
        }
      })
    },
    note(condition): void {
      noted = condition
      const { dirtyShutdowns, saveFailed, poisonedLines } = condition
      const isNothing = dirtyShutdowns === 0 && !saveFailed && poisonedLines.length === 0
      naming(beside, () => {
        if (isNothing) rmSync(beside, { force: true })
        else writeFileSync(beside, `${JSON.stringify(condition)}\n`)
      })
    },
    settle(): void {
      try {
        naming(path, () => fdatasyncSync(descriptor))
      } catch (error) {
        this.note({ ...noted, saveFailed: true })
        throw error
      }
    },
    close(takeBack = false): void {
      const isTakenBack = takeBack && made !== null
      try {
        if (!isTakenBack) this.settle()
        else {
          // While it is locked nobody else can have it.
          rmSync(beside, { force: true })
          if (made === 'file') rmSync(path, { force: true })
          else ftruncateSync(descriptor, 0)
        }
      } finally {
        unlock()
        closeSync(descriptor)
      }
    },
  }
}
