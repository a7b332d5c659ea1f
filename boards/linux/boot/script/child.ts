/**
 * One life of `perdured`: what it is started from, and what it says of itself (sd_notify).
 *
 * Invariant: what runs is what was looked at. Bundle, signature and runtime of an image go
 * into files of memory that nobody can change any more, and are run from there.
 */

import type { KeyObject } from 'node:crypto'
import { hexOf } from '../../../flash/bytes.ts'
import { type Opened, openImage } from '../../../flash/check-image.ts'
import { checkSignature } from '../../../flash/mcuboot.ts'
import { type PartKind, readPart } from '../../../flash/payload.ts'
import type { Host } from './host.ts'
import type { Settings } from './settings.ts'

/** The first descriptor that a program inherits. */
const FIRST = 3
const PUBLIC_KEY_BYTES = 32
const PATH = 'PATH=/usr/sbin:/usr/bin:/sbin:/bin'

/** What it said when it was ready. */
export interface Report {
  /** Of the part, as STATUS has it; '' of a firmware that does not say. */
  readonly state: string
  /** Why the part is not served; ''. */
  readonly fault: string
  /** Format of the part; 0: it has none. */
  readonly format: number
  /** Records that are lost; -1 of a firmware that does not say. */
  readonly lost: number
  /** Whether what it acknowledges as durable is. */
  readonly armed: boolean
}

interface ChildOptions {
  readonly settings: Settings
  /** What it runs; null: what came with the package. */
  readonly image: Uint8Array | null
  /** Whether that goes back unless it is confirmed. */
  readonly onTrial: boolean
  readonly trusted: readonly KeyObject[]
  /** Who has that lives: the next supervisor waits for it. */
  readonly lock: number
  /** Where it says how it is. */
  readonly notifyPath: string
}

interface Words {
  readonly args: readonly string[]
  readonly env: readonly string[]
  readonly lock: number
}

export class Child {
  readonly pid: number
  readonly startedMs: number
  /** Of the image that it runs; null: what came with the package. */
  readonly image: Opened | null
  /** What it said when it was ready; null before. */
  report: Report | null = null
  /** When it last gave a sign of life, ms. */
  signMs: number
  private readonly host: Host

  /** Starts it. Throws what the system says. */
  constructor(host: Host, options: ChildOptions) {
    const { settings, image, onTrial, trusted, lock, notifyPath } = options
    this.host = host
    this.image = image === null ? null : openImage(image)
    this.startedMs = host.nowMs()
    this.signMs = this.startedMs
    const env = [
      ...[PATH, `NOTIFY_SOCKET=${notifyPath}`],
      `WATCHDOG_USEC=${settings.silence * 1_000_000}`,
      ...(onTrial ? ['PERDURE_ON_TRIAL=1'] : []),
    ]
    const args = ['perdured', '--config', settings.configuration]
    this.pid =
      this.image === null
        ? host.spawn({ program: settings.runtime, args, env, inherits: [lock] })
        : this.spawnImage(this.image, settings.runtime, {
            args: [...args, '--trust', hexOf(signer(this.image, trusted))],
            env,
            lock,
          })
  }

  private spawnImage(opened: Opened, installed: string, { args, env, lock }: Words): number {
    const { host } = this
    const made: number[] = []
    const memory = (kind: PartKind, executable = false): number | null => {
      const bytes = readPart(opened.payload, kind)
      if (bytes === null) return null
      const descriptor = host.memoryFile(`perdure-${kind}`, bytes, executable)
      made.push(descriptor)
      return descriptor
    }
    try {
      const inherits = (['bundle', 'signature'] as const).map((kind) => {
        const descriptor = memory(kind)
        if (descriptor !== null) return descriptor
        throw new Error(`the image has no ${kind}`)
      })
      const runtime = memory('runtime', true)
      const program = runtime === null ? installed : `/proc/self/fd/${runtime}`
      const [bundle, signature] = inherits.map((_, i) => `/proc/self/fd/${FIRST + i}`)
      const words = [...args, '--firmware', bundle!, '--signature', signature!]
      return host.spawn({ program, args: words, env, inherits: [...inherits, lock] })
    } finally {
      for (const descriptor of made) host.close(descriptor)
    }
  }

  /** It is on trial no more: it tells its clients (src/service/service.h). */
  confirm(): void {
    this.host.kill(this.pid, 'URG')
  }

  /** Takes what it says; whether it has become ready by that. */
  hear(text: string): boolean {
    this.signMs = this.host.nowMs()
    const said = new Map(text.split('\n').map((line) => splitAt(line, line.indexOf('='))))
    if (said.get('READY') !== '1' || this.report !== null) return false
    const number = (name: string, otherwise: number): number => {
      const value = Number(said.get(name) ?? otherwise)
      return Number.isSafeInteger(value) ? value : otherwise
    }
    this.report = {
      ...{ state: said.get('PERDURE_STATE') ?? '', fault: said.get('PERDURE_FAULT') ?? '' },
      armed: said.get('PERDURE_ARMED') === '1',
      ...{ format: number('PERDURE_FORMAT', 0), lost: number('PERDURE_LOST', -1) },
    }
    return true
  }
}

/** The 32 bytes of the key that has signed it; it is known to be one of these. */
function signer({ image }: Opened, trusted: readonly KeyObject[]): Uint8Array {
  const key = checkSignature(image, trusted)
  return new Uint8Array(key.export({ type: 'spki', format: 'der' })).subarray(-PUBLIC_KEY_BYTES)
}

function splitAt(line: string, at: number): [string, string] {
  return at < 0 ? [line, ''] : [line.slice(0, at), line.slice(at + 1)]
}
