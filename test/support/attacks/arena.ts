/**
 * Where attacks are played: a board that serves a region 'notes' of records, and whoever comes to
 * it. Every board plays the same that starts at once: the emulator, and the native runtime where it
 * is built.
 */

import { afterAll, afterEach, beforeAll, describe, test } from 'vitest'
import type { ConnectOptions } from '../../../host-driver/index.ts'
import type { BoardOptions } from '../board/board.ts'
import { wantedKinds } from '../board/kinds.ts'
import { Rig } from '../board/rig.ts'
import { dataOf, type TestPeer, type TestRegion } from '../wire/conversation.ts'
import { type Address, machine } from './address.ts'
import { Station } from './station.ts'

/** The region of every arena. */
export const NOTES = { name: 'notes', slots: 64, capacity: 4096, copies: 2 } as const

/** The number of the next machine: whoever comes to an arena has never been there. */
let machines = 16

/** A machine that has spoken to no board. */
export function someone(): Address {
  machines += 1
  return machine(machines)
}

/** A client that is served, and what it was told. */
export interface Client {
  readonly station: Station
  readonly qp: TestPeer
  readonly notes: TestRegion
}

export class Arena {
  readonly rig: Rig
  private readonly stations: Station[] = []

  constructor(rig: Rig) {
    this.rig = rig
  }

  get target(): string {
    return this.rig.board.target
  }

  /** A machine with a socket of its own, until the end of the test. */
  async station(address: Address = someone()): Promise<Station> {
    const station = await Station.open(this.target, address)
    this.stations.push(station)
    return station
  }

  /** A client of 'notes'. */
  async client(address: Address = someone(), mtu = 1024): Promise<Client> {
    const station = await this.station(address)
    const qp = await station.connect({ mtu })
    return { station, qp, notes: await station.region(NOTES.name) }
  }

  /** What a client that has nothing to do with the others reads from that slot. */
  async content(slot: number, length: number): Promise<Uint8Array | null> {
    const { station, qp, notes } = await this.client()
    const content = await station.read(qp, notes, slot, length)
    await station.disconnect(qp)
    return content
  }

  close(): void {
    for (const station of this.stations.splice(0)) station.close()
  }
}

/** Plays `body` on every board. `who` lays out the part, where the board has peers. */
export function onEveryBoard(
  body: (arena: () => Arena) => void,
  options: Partial<BoardOptions> = {},
  who: ConnectOptions = {},
): void {
  for (const kind of wantedKinds().filter(({ isQuick }) => isQuick)) {
    const why = kind.missing()
    if (why !== null) {
      test.skip(`the board ${kind.name} is skipped: ${why}`)
      continue
    }
    describe(kind.name, () => {
      let arena: Arena
      beforeAll(async () => {
        arena = new Arena(await new Rig(kind, options, who).start())
        await arena.rig.use((dpu) => dpu.provision(NOTES))
      })
      afterEach(() => arena.close())
      afterAll(() => arena.rig.close())
      body(() => arena)
    })
  }
}

/** The record of that number: no other has these bytes. */
export function record(number: number, length = 64): Uint8Array {
  return dataOf(length, number)
}
