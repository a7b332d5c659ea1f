/** Where the copies of records lie in a part, as who damages them finds them. */

const LINE = 64
/** Of the header of a slot, which begins in the second quarter of its first line. */
const MAGIC = 0x5044534c
const MAGIC_AT = 16
const RECORD_AT = 24

/** Where each copy of that record begins, in a part with one region: the first one first. */
export function copiesOf(bytes: Uint8Array, record: number): number[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const found: number[] = []
  for (let at = 0; at + LINE <= bytes.length; at += LINE) {
    const isSlot = view.getUint32(at + MAGIC_AT, true) === MAGIC
    if (isSlot && view.getUint32(at + RECORD_AT, true) === record) found.push(at)
  }
  return found
}
