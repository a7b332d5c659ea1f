/**
 * The service of a card's package in a machine with a small Debian (`debian-root.ts`): what its
 * shell finds, and the record that has to outlive whatever is done to it.
 */

import { setTimeout as delay } from 'node:timers/promises'
import { expect } from 'vitest'
import type { VirtualMachine } from '../../../boards/qemu-virt/machine.ts'
import { connect } from '../../../host-driver/index.ts'
import { PATIENCE_MS, PATIENT } from '../run/patience.ts'

/** Process ids, to a shell: of the service, and of what that has started. */
const MAIN = '$(systemctl show -P MainPID perdured)'
const CHILD = `$(echo $(cat /proc/${MAIN}/task/${MAIN}/children))`

const RECORD = Buffer.from('from the package')
/** CAP_KILL, CAP_SETGID, CAP_SETUID, CAP_NET_ADMIN and CAP_NET_RAW. */
const OF_SUPERVISOR = '00000000000030e0'
const NONE = '0000000000000000'

export class DebianMachine {
  readonly machine: VirtualMachine

  constructor(machine: VirtualMachine) {
    this.machine = machine
  }

  /** Runs a line; its exit code. */
  async shell(line: string): Promise<number> {
    return ((await this.machine.command(line)) as { exit: number }).exit
  }

  async holds(line: string): Promise<void> {
    expect(await this.shell(line), line).toBe(0)
  }

  async until(line: string): Promise<void> {
    const endMs = performance.now() + PATIENCE_MS
    while ((await this.shell(line)) !== 0) {
      if (performance.now() > endMs) throw new Error(`it never came to: ${line}`)
      await delay(200)
    }
  }

  /** Waits until that stage has been said. */
  async untilStage(name: string): Promise<void> {
    const endMs = performance.now() + PATIENCE_MS
    while (!this.machine.stages.some((stage) => stage.name === name)) {
      if (performance.now() > endMs) throw new Error(`the machine never said ${name}`)
      await delay(200)
    }
  }

  async untilStarts(count: number): Promise<void> {
    const again = `test "$(systemctl show -P NRestarts perdured)" = ${count}`
    await this.until(`${again} && systemctl is-active -q perdured`)
  }

  /** Lays down the record that has to outlive all that follows. */
  async keepRecord(): Promise<void> {
    await using dpu = await connect(this.machine.target, PATIENT)
    await dpu.format()
    const region = await dpu.provision({ name: 'r', slots: 1, capacity: 64 })
    await region.persist(0, RECORD).persisted
  }

  /** The record is there, read from a firmware that has been started so often. */
  async hasRecord(incarnation: number): Promise<void> {
    await using dpu = await connect(this.machine.target, PATIENT)
    expect(Buffer.from((await (await dpu.openRegion('r')).read(0)).data)).toEqual(RECORD)
    expect((await dpu.status()).incarnation).toBe(incarnation)
  }

  /** The main process is the supervisor, and perdured its child: nobody, who may do nothing. */
  async hasSupervisor(): Promise<void> {
    await this.holds(`test "$(cat /proc/${MAIN}/comm)" = perdure-boot`)
    await this.holds(`grep -q '^CapEff:.${OF_SUPERVISOR}' /proc/${MAIN}/status`)
    await this.holds(`test "$(cat /proc/${CHILD}/comm)" = perdured`)
    await this.holds(`grep -q '^Uid:.65534.65534.65534.65534' /proc/${CHILD}/status`)
    for (const set of ['CapEff', 'CapPrm', 'CapInh']) {
      await this.holds(`grep -q '^${set}:.${NONE}' /proc/${CHILD}/status`)
    }
    await this.holds(`grep -q '^NoNewPrivs:.1' /proc/${CHILD}/status`)
  }

  /** Kills perdured alone. */
  async killChild(): Promise<void> {
    await this.holds(`kill -KILL ${CHILD}`)
  }
}
