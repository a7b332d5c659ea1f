/**
 * Debian's soft-RoCE module with the one byte mended that spoils the ICRC of its FLUSH requests.
 *
 * `rxe_opcode` (Linux, drivers/infiniband/sw/rxe/rxe_opcode.c) says for each opcode where each
 * header lies, and the payload behind them. For RC FLUSH it leaves the payload out, which is then
 * taken to begin with the BTH, and that goes into the ICRC twice.
 *
 * Invariant: nothing else of the module is changed, and only where the table is as it is
 * known; the signature, which would be wrong, goes.
 */

import { Trouble } from '../../boards/tools/debian/programs.ts'

/** struct rxe_opcode_info: a pointer, a mask, a length, and an offset for each of these. */
const OPCODES = 256
const LENGTH_AT = 12
const OFFSETS_AT = 16
const HEADERS = 13
const PAYLOAD = 12
const INFO_BYTES = 72

const RC_FLUSH = 0x1c
/** BTH, FETH and RETH. */
const FLUSH_BYTES = 12 + 4 + 16

const SIGNATURE = Buffer.from('~Module signature appended~\n')
/** struct module_signature, whose last word is the length of the signature, big-endian. */
const SIGNATURE_INFO_BYTES = 12

/** ELF64: where its table of sections is, and what an entry of a table looks like. */
const SECTIONS_AT = 0x28
const SECTION_COUNT_AT = 0x3c
const SECTION = { bytes: 64, type: 4, offset: 24, size: 32, link: 40 } as const
const SYMBOLS = 2
const SYMBOL = { bytes: 24, section: 6, value: 8, size: 16 } as const

function unsigned(module: Buffer): Buffer {
  const at = module.length - SIGNATURE.length
  if (!module.subarray(at).equals(SIGNATURE)) return module
  const bytes = module.readUInt32BE(at - 4)
  return module.subarray(0, at - SIGNATURE_INFO_BYTES - bytes)
}

function number(module: Buffer, at: number): number {
  return Number(module.readBigUInt64LE(at))
}

/** Where a symbol's bytes are in the file, and how many. */
function symbol(module: Buffer, name: string): { at: number; bytes: number } {
  const sections = number(module, SECTIONS_AT)
  const sectionAt = (index: number): number => sections + index * SECTION.bytes
  const fileOffset = (index: number): number => number(module, sectionAt(index) + SECTION.offset)
  for (let i = 0; i < module.readUInt16LE(SECTION_COUNT_AT); i++) {
    const at = sectionAt(i)
    if (module.readUInt32LE(at + SECTION.type) !== SYMBOLS) continue
    const names = fileOffset(module.readUInt32LE(at + SECTION.link))
    const end = fileOffset(i) + number(module, at + SECTION.size)
    for (let one = fileOffset(i); one < end; one += SYMBOL.bytes) {
      const nameAt = names + module.readUInt32LE(one)
      if (module.toString('latin1', nameAt, nameAt + name.length + 1) !== `${name}\0`) continue
      const section = fileOffset(module.readUInt16LE(one + SYMBOL.section))
      const value = section + number(module, one + SYMBOL.value)
      return { at: value, bytes: number(module, one + SYMBOL.size) }
    }
  }
  throw new Trouble(`the module has no symbol ${name}`)
}

/** The module, mended. Throws a Trouble where it is not the one that is known. */
export function mendedModule(module: Buffer): Buffer {
  const mended = Buffer.from(unsigned(module))
  const { at, bytes } = symbol(mended, 'rxe_opcode')
  const flush = at + RC_FLUSH * INFO_BYTES
  const payload = flush + OFFSETS_AT + PAYLOAD * 4
  const fits = bytes === OPCODES * INFO_BYTES && OFFSETS_AT + HEADERS * 4 <= INFO_BYTES
  if (!fits || mended.readUInt32LE(flush + LENGTH_AT) !== FLUSH_BYTES) {
    throw new Trouble('the table rxe_opcode of rdma_rxe is not as it is known')
  }
  const offset = mended.readUInt32LE(payload)
  if (offset !== 0 && offset !== FLUSH_BYTES) {
    throw new Trouble(`rdma_rxe says that the payload of a FLUSH begins at ${offset}`)
  }
  mended.writeUInt32LE(FLUSH_BYTES, payload)
  return mended
}
