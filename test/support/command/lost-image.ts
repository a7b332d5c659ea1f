/** An image of which some records have no valid copy, as decay leaves it. */

import { readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { runIn } from './command.ts'

/** Of a slot's header, and where its record stands in it. */
const MAGIC = 0x5044534c
const MAGIC_AT = 16
const RECORD_AT = 24
const LINE = 64

/** A part of 1 MiB that holds nothing. */
export function blankImage(folder: string, name: string): string {
  writeFileSync(join(folder, name), '')
  truncateSync(join(folder, name), 1 << 20)
  return name
}

/** A part with a region 'orders' of four records, of which these are lost. */
export async function imageWithLost(
  folder: string,
  name: string,
  ...lost: readonly number[]
): Promise<string> {
  blankImage(folder, name)
  const data = 'lost-image.data'
  writeFileSync(join(folder, data), Buffer.alloc(256, 'x'))
  for (const args of [
    ['format', name],
    ['region', 'create', name, 'orders', '--slots', '4', '--capacity', '64'],
    ['persist', name, 'orders', data, '--raw'],
  ]) {
    const { code, stderr } = await runIn(folder, [...args, '--engine', 'node'])
    if (code !== 0) throw new Error(`perdure ${args.join(' ')}: ${stderr}`)
  }
  const bytes = readFileSync(join(folder, name))
  for (let at = 0; at < bytes.length; at += LINE) {
    const isSlot = bytes.readUInt32LE(at + MAGIC_AT) === MAGIC
    if (isSlot && lost.includes(bytes.readUInt32LE(at + RECORD_AT))) bytes[at]! ^= 1
  }
  writeFileSync(join(folder, name), bytes)
  return name
}
