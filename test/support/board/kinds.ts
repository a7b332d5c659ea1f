/** The boards that there are, and those that a run shall have (PERDURE_BOARDS). */

import type { BoardKind } from './board.ts'
import { EMULATOR } from './emulator.ts'
import { LINUX, LINUX_SANITIZE } from './linux.ts'
import { QEMU_VIRT } from './qemu-virt.ts'

export const KINDS: readonly BoardKind[] = [EMULATOR, LINUX, LINUX_SANITIZE, QEMU_VIRT]

/** The kind of that name. Throws where there is none. */
export function kindOf(name: string): BoardKind {
  const kind = KINDS.find((one) => one.name === name)
  const names = KINDS.map((one) => one.name).join(', ')
  if (kind === undefined) throw new Error(`no board is called '${name}': ${names}`)
  return kind
}

/** The boards of PERDURE_BOARDS, separated by commas; all of them where it is not set. */
export function wantedKinds(): readonly BoardKind[] {
  const wanted = process.env.PERDURE_BOARDS ?? ''
  if (wanted === '') return KINDS
  return wanted.split(',').map((name) => kindOf(name.trim()))
}
