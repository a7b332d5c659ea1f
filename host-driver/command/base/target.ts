/**
 * What a command works on: a DPU at the end of a tunnel, the card of this machine or one behind it,
 * or an NVDIMM image that is booted in this process on an emulated card.
 *
 * Invariant: an image opened to look at is copied on write and never changed; a part that
 * cannot serve is an error of its own fault, unless the command wants to look at it.
 */

import { isIP, isIPv6 } from 'node:net'
import { ArgumentError, PerdureError, RefusedError } from '../../base/errors.ts'
import { printable } from '../../base/printable.ts'
import type { Wire } from '../../base/wire.ts'
import { isPcieTarget } from '../../card/target.ts'
import { connect } from '../../connect.ts'
import type { Dpu } from '../../dpu.ts'
import type { LocalDpu } from '../../local.ts'
import type { Region } from '../../records/region.ts'
import type { ConnectOptions } from '../../way/options.ts'
import { PcapWriter } from '../../way/pcap.ts'
import { serves } from './part-text.ts'
import { checkFile } from './system-errors.ts'

interface OpenTarget {
  readonly dpu: Dpu
  /** The card in this process, or null for one that runs elsewhere. */
  readonly local: LocalDpu | null
}

interface TargetOptions {
  /** Whether the command writes: an image is then opened for writing. */
  readonly writes: boolean
  /** Whether a part that does not serve is taken as well. */
  readonly anyState?: boolean
  readonly engine?: 'quickjs' | 'node' | undefined
  /** Path of the capture to write. */
  readonly capture?: string | undefined
  readonly connect?: ConnectOptions
}

/** What a command may be pointed at, for its help. */
export const TARGETS =
  'perdure://[key@]host[:port], pcie:FILE[/address], or an NVDIMM image (which is not changed)'

/** Likewise, of a command that changes what is there. */
export const WRITTEN_TARGETS = 'perdure://[key@]host[:port], pcie:FILE, or an NVDIMM image'

export function isAddress(target: string): boolean {
  return target.startsWith('perdure:') || isPcieTarget(target)
}

/**
 * Does that with a target, which is open for so long. Where that fails, the commands that the error
 * advises are of this target.
 */
export async function withTarget<T>(
  target: string,
  options: TargetOptions,
  work: (opened: OpenTarget) => Promise<T>,
): Promise<T> {
  try {
    return await withOpen(target, options, work)
  } catch (error) {
    aim(error, target)
    throw error
  }
}

/** Has the commands that an error advises name that target. */
export function aim(error: unknown, target: string): void {
  if (!(error instanceof PerdureError)) return
  const aimed = (text: string): string => {
    return text.replace(/('perdure [^']*)\bTARGET\b/g, (_, before: string) => before + shown)
  }
  const shown = printable(target)
  error.message = aimed(error.message)
  if (error instanceof RefusedError) Object.assign(error, { advice: aimed(error.advice) })
}

async function withOpen<T>(
  target: string,
  options: TargetOptions,
  work: (opened: OpenTarget) => Promise<T>,
): Promise<T> {
  const local = isAddress(target) ? null : await openImage(target, options)
  let capture: PcapWriter | undefined
  try {
    if (options.capture !== undefined) capture = new PcapWriter(options.capture)
    const dpu = await connectTo(local?.wire ?? target, options, capture)
    try {
      if (options.anyState !== true) await checkServing(dpu, target)
      return await work({ dpu, local })
    } finally {
      await dpu.close()
    }
  } finally {
    try {
      capture?.close()
    } finally {
      local?.close()
    }
  }
}

async function connectTo(
  target: string | Wire,
  options: TargetOptions,
  capture: PcapWriter | undefined,
): Promise<Dpu> {
  // What the memory outlives `inspect` says, and who writes; the rest comes later.
  let isOpen = false
  const warn = (text: string): void => {
    if (isOpen) process.stderr.write(`perdure: ${printable(text)}\n`)
  }
  const dpu = await connect(target, { warn, ...options.connect, ...(capture && { capture }) })
  isOpen = true
  return dpu
}

/** Opens a region of records. Throws PERDURE_ARGUMENT where it holds something else. */
export async function openRecords(dpu: Dpu, name: string): Promise<Region> {
  const region = await dpu.openRegion(name)
  const { kind } = region.info
  if (kind === 'records') return region
  const what = `region '${name}' is of the kind '${kind}', and has no records`
  const how = "name one of the kind 'records' ('perdure region list TARGET' lists them)"
  throw new ArgumentError(`${what}: ${how}; what this one holds, Dpu.openBytes reads and writes`)
}

/** 'host:port', whatever is in front of it: it was meant for a card. */
const HOST_AND_PORT = /^(?:\w+:\/\/)?((?:\[[\da-f:.]+\]|[^/:]+):\d+(?:\/[\d.]+)?)$/i

/** What to do where no image of that name is there. */
function hintFor(target: string): string {
  const address = isIPv6(target) ? `[${target}]` : target
  const card = isIP(target) === 0 ? HOST_AND_PORT.exec(target)?.[1] : address
  if (card !== undefined) return `For a card say perdure://${card}.`
  const how = `'perdure emulate ${target} --create' makes it, perdure://HOST is a card`
  return `Check its name and its folder; ${how}.`
}

async function openImage(path: string, options: TargetOptions): Promise<LocalDpu> {
  checkFile(path, hintFor(path))
  // Loaded here: who works over a tunnel needs neither emulator nor QuickJS.
  const { openLocal } = await import('../../local.ts')
  const { writes, engine } = options
  return await openLocal({ path, copyOnWrite: !writes, ...(engine && { engine }) })
}

/** What to tell of a part that cannot serve. */
export function notServing(target: string, fault: string | null): RefusedError {
  const error = new RefusedError(fault ?? 'NOT_SERVING', 0, `${target}: this part cannot serve`)
  aim(error, target)
  return error
}

async function checkServing(dpu: Dpu, target: string): Promise<void> {
  const part = await dpu.status()
  if (!serves(part)) throw notServing(target, part.fault)
}
