/**
 * The errors of the operating system, in words: what was concerned (a file, an address), what is
 * wrong with it, and what to do next. The exit code of each is in exit-codes.ts.
 *
 * Invariant: the code of the system (ENOENT, EADDRINUSE) stays in the text, in brackets. An
 * error that quotes another as its cause keeps its own words, and only the quotation is told again.
 */

import { accessSync, constants, statSync } from 'node:fs'

interface Told {
  /** What is wrong: goes on behind the name of what was concerned. */
  readonly words: string
  /** What to do next: one sentence or two. */
  readonly advice: string
}

/** By code, or by code and call where that says more. */
const TOLD: Readonly<Record<string, Told>> = {
  ENOENT: { words: 'it is not there', advice: 'Check its name and its folder.' },
  'ENOENT mkdir': { words: 'no folder can be made there', advice: 'Name another folder.' },
  ENOTDIR: {
    words: 'its path goes through what is no folder',
    advice: 'Check the path.',
  },
  EISDIR: { words: 'it is a folder', advice: 'Name a file.' },
  EEXIST: { words: 'it is there already', advice: 'Name another one.' },
  'EEXIST mkdir': { words: 'it is no folder', advice: 'Name a folder.' },
  EACCES: {
    words: 'there is no permission',
    advice: "See who may ('ls -l'), or name another one.",
  },
  'EACCES bind': {
    words: 'there is no permission',
    advice: 'Say a port from 1024 on, or 0 for any that is free.',
  },
  EPERM: {
    words: 'that is not permitted',
    advice: "See who may ('ls -l', 'lsattr'), or name another one.",
  },
  EADDRINUSE: {
    words: 'it is in use already',
    advice: 'Stop what has it, or say another port: 0 takes any that is free.',
  },
  'EADDRINUSE listen': {
    words: 'it is in use already, or is no socket',
    advice: 'Stop what listens there, or name another path.',
  },
  EADDRNOTAVAIL: {
    words: 'this machine has no such address',
    advice: "Say one of its own ('ip address' lists them), or 127.0.0.1.",
  },
  ENOTFOUND: {
    words: 'no name server knows that name',
    advice: 'Check it, or say an address.',
  },
  EAI_AGAIN: {
    words: 'the service of names does not answer',
    advice: 'Say an address, or try again.',
  },
  ECONNREFUSED: {
    words: 'nothing listens there',
    advice: 'Start who shall, or name another path.',
  },
  ENOSPC: {
    words: 'no room is left on its disk',
    advice: "Make some ('df' shows it), or name a file on another disk.",
  },
  EDQUOT: {
    words: 'this user may have no more of its disk',
    advice: 'Delete something, or name a file on another disk.',
  },
  EFBIG: {
    words: 'the file is too large here',
    advice: "Raise the limit ('ulimit -f'), or name a file on another disk.",
  },
  EROFS: {
    words: 'its disk is for reading only',
    advice: 'Name a file on another disk.',
  },
  EIO: { words: 'the device failed', advice: "See what 'dmesg' says of it." },
  EMFILE: {
    words: 'too many files are open',
    advice: "Raise the limit ('ulimit -n').",
  },
  ENFILE: {
    words: 'too many files are open on this machine',
    advice: 'Close some, then try again.',
  },
  ENOMEM: { words: 'no memory is left', advice: 'Free some, then try again.' },
  ENAMETOOLONG: { words: 'the name is too long', advice: 'Name a shorter one.' },
  ELOOP: {
    words: 'its symbolic links go in a circle',
    advice: 'Name the file itself.',
  },
}

/** What Node adds to an error of the system. */
interface SystemError extends Error {
  readonly code: string
  readonly syscall?: string
  readonly path?: string
  readonly hostname?: string
  readonly address?: string
  readonly port?: number
}

/** A file that was named is not there, or is a folder. */
class FileError extends Error {
  readonly code: 'ENOENT' | 'EISDIR'

  constructor(code: FileError['code'], path: string, advice: string = TOLD[code]!.advice) {
    super(`${path}: ${TOLD[code]!.words} (${code}). ${advice}`)
    this.code = code
  }
}

/**
 * Throws unless a file, or a device, is at that path and may be read: FileError, with that advice
 * where nothing is there, or the error of the system.
 */
export function checkFile(path: string, advice?: string): void {
  const found = statSync(path, { throwIfNoEntry: false })
  if (found === undefined) throw new FileError('ENOENT', path, advice)
  if (found.isDirectory()) throw new FileError('EISDIR', path)
  accessSync(path, constants.R_OK)
}

/** What to show of an error: its own words, and what the system said in ours. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const system = systemErrorOf(error)
  const told = system === null ? undefined : toldOf(system)
  if (system === null || told === undefined) return error.message
  const what = `${told.words} (${system.code})`
  if (error !== system) {
    const { message } = error
    return message.includes(system.message)
      ? `${message.replace(system.message, () => what)}. ${told.advice}`
      : message
  }
  const subject = subjectOf(system)
  return `${subject === null ? '' : `${subject}: `}${what}. ${told.advice}`
}

/** The system's code of an error or of its cause: 'ENOENT'; null for all others. */
export function systemCodeOf(error: unknown): string | null {
  if (error instanceof FileError) return error.code
  return error instanceof Error ? (systemErrorOf(error)?.code ?? null) : null
}

/** The error of the system that it is, or that is its cause; a FileError is told already. */
function systemErrorOf(error: Error): SystemError | null {
  for (const one of [error, error.cause]) {
    if (!(one instanceof Error) || one instanceof FileError || !('code' in one)) continue
    if (typeof one.code === 'string' && /^E(?!RR_)[A-Z_]+$/.test(one.code))
      return one as SystemError
  }
  return null
}

function toldOf({ code, syscall }: SystemError): Told | undefined {
  return TOLD[`${code} ${syscall}`] ?? TOLD[code]
}

/** The file, the address or the name that it is about; null where the system did not say. */
function subjectOf({ path, address, hostname, port }: SystemError): string | null {
  const subject = path ?? address ?? hostname ?? null
  if (subject === null || port === undefined || port <= 0) return subject
  return `${subject.includes(':') ? `[${subject}]` : subject}:${port}`
}
