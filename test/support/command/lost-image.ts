/** An image of which some records have no valid copy, as decay leaves it. */

import { readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { copiesOf } from '../judges/copies.ts'
import { runIn } from './command.ts'

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
  for (const at of lost.flatMap((record) => copiesOf(bytes, record))) bytes[at]! ^= 1
  writeFileSync(join(folder, name), bytes)
  return name
}
