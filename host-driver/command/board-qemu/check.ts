/**
 * Whether the machine keeps what it acknowledged: a record, QEMU killed, the record again.
 *
 * Invariant: what is compared was made at random for this run and read back from the card.
 */

import { randomBytes } from 'node:crypto'
import type { VirtualMachine } from '../../../boards/qemu-virt/machine.ts'
import { connect } from '../../connect.ts'
import type { RegionRequest } from '../../control/management.ts'
import type { Dpu } from '../../dpu.ts'

const REGION: RegionRequest = { name: 'board-check', slots: 1, capacity: 4096, copies: 2 }

interface CheckResult {
  /** From the start of QEMU until the record was acknowledged. */
  readonly firstRecordSeconds: number
  /** From the start of QEMU, killed before, until the record was read. */
  readonly secondReadSeconds: number
  /** Whether the record was the same, before the kill and after it. */
  readonly read: boolean
  readonly readAfterKill: boolean
}

/** Connects for one piece of work. */
export async function withDpu<T>(target: string, work: (dpu: Dpu) => Promise<T>): Promise<T> {
  const dpu = await connect(target)
  try {
    return await work(dpu)
  } finally {
    await dpu.close()
  }
}

async function readsAs(dpu: Dpu, bytes: Uint8Array): Promise<boolean> {
  const region = await dpu.openRegion(REGION.name)
  const record = await region.read(0)
  return Buffer.from(record.data).equals(bytes)
}

/** Does it with a machine that serves a formatted part. It serves again afterwards. */
export async function check(
  machine: VirtualMachine,
  say: (line: string) => void,
): Promise<CheckResult> {
  const bytes = randomBytes(REGION.capacity)
  const { firstRecordSeconds, read } = await withDpu(machine.target, async (dpu) => {
    const made = (await dpu.regions()).some(({ name }) => name === REGION.name)
    const region = made ? await dpu.openRegion(REGION.name) : await dpu.provision(REGION)
    await region.persist(0, bytes).persisted
    const firstRecordSeconds = machine.seconds
    return { firstRecordSeconds, read: await readsAs(dpu, bytes) }
  })
  say(`first record acknowledged after ${firstRecordSeconds.toFixed(1)} s; killing QEMU`)
  await machine.kill()
  await machine.start()
  const readAfterKill = await withDpu(machine.target, (dpu) => readsAs(dpu, bytes))
  return { firstRecordSeconds, secondReadSeconds: machine.seconds, read, readAfterKill }
}
