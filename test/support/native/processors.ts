/**
 * Processors on which the codes of the native runtime are computed: this one, and others that are
 * emulated, among them some without an instruction for it.
 */

import { isThere } from '../../../boards/tools/debian/programs.ts'
import { compile, compileStatic, LINK_PARTS } from './harness.ts'

/** A processor to compute on: how it is compiled for, and what emulates it, if it is another. */
interface Processor {
  readonly name: string
  readonly compiler: string
  readonly emulator: readonly string[]
  /** What the runtime must choose there, for ICRC and for CRC-32C. */
  readonly engine: RegExp
  readonly guardEngine: RegExp
}

const CROSS = 'aarch64-linux-gnu-gcc'

export const PROCESSORS: readonly Processor[] = [
  {
    name: 'this one',
    compiler: 'gcc',
    emulator: [],
    engine: /^(pclmulqdq|arm64 .*|table)$/,
    guardEngine: /^(sse4.2|arm64 crc32c|table)$/,
  },
  ...[
    {
      cpu: 'qemu64,pclmulqdq=off',
      qemu: 'x86_64',
      compiler: 'gcc',
      engine: /^table$/,
      guardEngine: /^table$/,
    },
    {
      cpu: 'Nehalem',
      qemu: 'x86_64',
      compiler: 'gcc',
      engine: /^(table|pclmulqdq)$/,
      guardEngine: /^sse4.2$/,
    },
    {
      cpu: 'cortex-a53',
      qemu: 'aarch64',
      compiler: CROSS,
      engine: /^arm64 (pmull|crc32)$/,
      guardEngine: /^arm64 crc32c$/,
    },
    {
      cpu: 'max',
      qemu: 'aarch64',
      compiler: CROSS,
      engine: /^arm64 pmull$/,
      guardEngine: /^arm64 crc32c$/,
    },
  ].map(({ cpu, qemu, compiler, engine, guardEngine }) => {
    const emulator = [`qemu-${qemu}-static`, '-cpu', cpu]
    return { name: `${qemu} ${cpu}`, compiler, emulator, engine, guardEngine }
  }),
]

/** Why nothing can be computed there, or null. */
export function missing({ compiler, emulator }: Processor): string | null {
  if (!isThere(compiler)) return `${compiler} is missing (Debian: gcc, gcc-aarch64-linux-gnu)`
  if (emulator.length === 0) return null
  if (compiler === 'gcc' && process.arch !== 'x64') return 'it is compiled for where gcc is native'
  return isThere(emulator[0]!) ? null : `${emulator[0]} is missing (Debian: qemu-user-static)`
}

/** The program that computes there: with the sanitizers for this processor, static for others. */
export function codeProgram({ compiler, emulator }: Processor): string {
  if (emulator.length === 0) return compile('link-harness', LINK_PARTS)
  return compileStatic(compiler, 'link-harness', LINK_PARTS)
}
