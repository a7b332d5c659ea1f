/**
 * Writers that keep a board busy until it is killed: so many records under way at a time, of every
 * region, drawn from a seed.
 *
 * Invariant: a record is begun in the ledger before anything of it is sent, and noted as
 * acknowledged in the very turn in which its promise resolves. A write that was refused is no
 * accident of a kill: it fails the run.
 */

import {
  connect,
  type Dpu,
  OutcomeUnknown,
  type Region,
  type Wire,
} from '../../host-driver/index.ts'
import { PATIENT } from '../support/run/patience.ts'
import { bytesOf, type Entry, type Ledger, levelOf, TARGETS } from './ledger.ts'

/** Records under way per client, and clients. */
const IN_FLIGHT = 24
const CLIENTS = 2

/** A client of the board, with the regions of the ledger open. */
interface Client {
  readonly dpu: Dpu
  readonly regions: readonly Region[]
}

/** Connects; makes part and regions where there are none. */
export async function openClient(target: string | Wire, signal: AbortSignal): Promise<Client> {
  const dpu = await connect(target, {
    ...{ signal, inFlight: IN_FLIGHT, reconnect: false },
    ...PATIENT,
    // That a file does not outlive the power says nothing here, and is said at each life.
    warn: () => {},
  })
  if ((await dpu.status()).state === 'blank') await dpu.format()
  const regions: Region[] = []
  for (const { name, slots, capacity, copies } of TARGETS) {
    regions.push(await dpu.provision({ name, slots, capacity, copies }))
  }
  return { dpu, regions }
}

export class Load {
  /** Answers that said durable. */
  acknowledged = 0
  /** Resolves with the first of them, or where a writer has given up. */
  readonly answered: Promise<void>
  private tellAnswered: () => void = () => {}
  private readonly writers: Promise<void>[] = []
  private readonly abort = new AbortController()
  private readonly ledger: Ledger
  private readonly random: () => number
  private isStopping = false
  private failure: unknown = null

  constructor(ledger: Ledger, random: () => number) {
    this.ledger = ledger
    this.random = random
    this.answered = new Promise((resolve) => {
      this.tellAnswered = resolve
    })
  }

  /** Connects and begins to write. Resolves once the first record is under way. */
  async start(target: string | Wire, clients: number = CLIENTS): Promise<void> {
    for (let i = 0; i < clients; i++) {
      const client = await openClient(target, this.abort.signal)
      for (let k = 0; k < IN_FLIGHT; k++) this.writers.push(this.writer(client))
    }
  }

  /** Nothing new is begun. */
  stop(): void {
    this.isStopping = true
  }

  /** The board is gone: gives up what waits. Rejects where a write failed before that. */
  async end(): Promise<void> {
    this.stop()
    this.abort.abort()
    await Promise.all(this.writers)
    if (this.failure !== null) throw this.failure
  }

  /** Stops, and resolves when the last answer is there. Rejects where a write failed. */
  async drain(): Promise<void> {
    this.stop()
    await Promise.all(this.writers)
    await this.end()
  }

  private async writer(client: Client): Promise<void> {
    while (!this.isStopping) {
      const entry = this.draw()
      entry.busy = true
      try {
        await this.write(client, entry)
      } catch (error) {
        // What was under way when the board was killed has an unknown end, and may have.
        if (!this.isStopping && !(error instanceof OutcomeUnknown)) this.failure ??= error
        this.tellAnswered()
        return
      } finally {
        entry.busy = false
      }
    }
  }

  private draw(): Entry {
    const { entries } = this.ledger
    for (let at = this.random() % entries.length; ; at = (at + 1) % entries.length) {
      const entry = entries[at]!
      // Long records are rarer: else the others wait for them all the time.
      if (!entry.busy && (entry.target.capacity < 65536 || this.random() % 2 === 0)) return entry
    }
  }

  private async write({ regions }: Client, entry: Entry): Promise<void> {
    const version = entry.begun + 1
    entry.begun = version
    const durability = levelOf(entry, version)
    const bytes = bytesOf(entry, version)
    await regions[entry.region]!.persist(entry.slot, bytes, { durability }).persisted
    if (version > entry.atLeast) entry.atLeast = version
    this.acknowledged += 1
    this.tellAnswered()
  }
}
