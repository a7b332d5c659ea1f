/**
 * Builds the bench's programs: perdured, perdured with clocks between its parts, and the plain C
 * programs that it is measured with.
 *
 * Invariant: the C program of the same duty is made of the runtime's own objects for
 * packets, memory and ICRC, with the same compiler and flags.
 */

import { join } from 'node:path'
import {
  compileRuntime,
  DIST,
  flavourFolder,
  type RuntimeOptions,
  runtimeParts,
} from '../compile.ts'
import { type Signed, signBundle } from '../sign.ts'

export interface BenchPrograms {
  readonly perdured: string
  /** Writes the time of each stage to the file that PERDURE_STAGES names, when it ends. */
  readonly timed: string
  readonly duty: string
  readonly echo: string
  readonly load: string
  /** Sends a frame as often as it goes. */
  readonly flood: string
  /** Both with a link that costs nothing (`inside.c`). */
  readonly inside: { readonly perdured: string; readonly duty: string }
  readonly signed: Signed
}

const SOURCES = join(DIST, '../boards/linux/bench')

/** The function that unconfined.c takes the place of. */
const CONFINE = 'syscalls_confine'

/** Functions that stages.c puts a clock around. */
const STAGES: readonly string[] = [
  ...['recvmmsg', 'sendmmsg', 'icrc_flags', 'icrc_fill', 'engine_serve', 'engine_idle'],
  ...['machine_run', 'crypto_shorthash_siphashx24', 'memory_clean', 'memory_fence'],
  ...['tags_judge', 'tags_fill'],
]

/** Functions that inside.c stands before. */
const INSIDE: readonly string[] = ['link_open', 'poll', 'ppoll']

/** What only perdured itself is made of. */
const SERVICE: readonly string[] = [
  ...[
    'main',
    'service/service',
    'service/console',
    'service/commands',
    'service/config',
    'card/engine',
    'service/notify',
    'confine/privilege',
    'confine/syscalls',
  ],
]

/** Builds them all; the bundle is signed. Throws a Trouble. */
export function compileBench(options: RuntimeOptions): BenchPrograms {
  const perdured = compileRuntime(options)
  const parts = runtimeParts(options)
  const folder = join(flavourFolder(options), 'bench')
  const common = [...parts.own].filter(([name]) => !SERVICE.includes(name)).map(([, path]) => path)
  const ofSource = (name: string): string => parts.compile(join(SOURCES, `${name}.c`))
  const link = (
    name: string,
    objects: readonly string[],
    wrapped: readonly string[] = [],
  ): string => {
    const program = join(folder, name)
    parts.link(
      program,
      objects,
      wrapped.map((symbol) => `-Wl,--wrap=${symbol}`),
    )
    return program
  }
  const all = [ofSource('unconfined'), ...parts.engine, ...parts.own.values()]
  return {
    perdured,
    timed: link('stages', [ofSource('stages'), ...all], [CONFINE, ...STAGES]),
    duty: link('duty', [ofSource('duty'), ...common]),
    echo: link('echo', [ofSource('echo')]),
    load: link('load', [ofSource('load'), ...common]),
    flood: link('flood', [ofSource('flood')]),
    inside: {
      perdured: link('perdured-inside', [ofSource('inside'), ...all], [CONFINE, ...INSIDE]),
      duty: link('duty-inside', [ofSource('inside'), ofSource('duty'), ...common], INSIDE),
    },
    signed: signBundle(),
  }
}
