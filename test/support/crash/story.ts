/** An image, and what a start made of it, line by line, for whoever plays one again. */

import type { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { DECIDED } from '../judges/case-table.ts'
import { copyAt, LANES, LANES_AT, LINE_BYTES, readLane } from '../judges/oracle.ts'
import type { Actor } from './actor.ts'
import type { Started } from './booth.ts'
import { nameOfState } from './classes.ts'

function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes)
    .toString('hex')
    .replace(/(.{16})(?=.)/g, '$1 ')
}

/** What is on the medium: each lane that is not clear, each copy, line by line. */
export function tellImage({ durable }: Nvdimm, actor: Actor): string[] {
  const told: string[] = []
  for (let lane = 0; lane < LANES; lane++) {
    const at = LANES_AT + lane * LINE_BYTES
    const line = durable.slice(at, at + LINE_BYTES)
    const said = readLane(line)
    if (said.state === 'clear') continue
    told.push(`  lane ${lane} is ${said.state}`, `    ${hexOf(line)}`)
  }
  for (const record of actor.records.values()) {
    if (record.started === 0) continue
    const { region, acknowledged, started } = record
    told.push(`  record ${record.record}: v${started} begun, v${acknowledged} acknowledged`)
    for (let copy = 0; copy < region.copies; copy++) {
      const state = nameOfState(record.versionIn(durable, copy), record)
      const at = copyAt(region, copy, record.record)
      told.push(`    copy ${'ABCD'[copy]} is ${state}`)
      for (let line = at; line < at + region.stride; line += LINE_BYTES) {
        told.push(`      ${hexOf(durable.slice(line, line + LINE_BYTES))}`)
      }
    }
  }
  return told
}

/** What the recovery reports, and what is there behind it. */
export function tellStart({ durable }: Nvdimm, actor: Actor, started: Started): string[] {
  const told = [`  it starts: state ${started.state}, fault ${started.fault}`]
  for (const { record, lane, row } of started.report) {
    told.push(
      `    record ${record}, by lane ${lane}: ${DECIDED[row]!.name}, ${DECIDED[row]!.action}`,
    )
  }
  for (const record of actor.records.values()) {
    if (record.started === 0) continue
    const states = record.statesIn(durable).map((state) => nameOfState(state, record))
    told.push(`    record ${record.record} is ${states.join('/')}`)
  }
  return told
}
