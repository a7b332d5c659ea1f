/**
 * perdured and the C program of the same duty with a link that costs nothing
 * (`boards/linux/bench/inside.c`): both get their records from memory.
 */

import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { Trouble } from '../../../../boards/tools/debian/programs.ts'
import { type Build, type Running, type Served, SLOTS, startDuty, startPerdured } from './rig.ts'

/** What one run of records took: processor time of the thread per record. */
interface InsideResult {
  readonly records: number
  readonly acked: number
  readonly refused: number
  /** 10th percentile over chunks of 2,048 records, ns. */
  readonly p10Ns: number
  readonly medianNs: number
}

/** From a station to the card, of the type for local experiments. */
const ORDER_HEADER = Buffer.from('02000000000202000000000988b5', 'hex')
const ORDER_WORDS = 6

/** One program that runs records from its own memory. */
export class Inside {
  readonly served: Served
  private readonly running: Running
  /** One for all orders: a station that moves is not heard for a while. */
  private readonly socket: Socket = createSocket('udp4')
  private psn: number
  private operation = 1

  private constructor(running: Running, served: Served) {
    this.running = running
    this.served = served
    this.psn = served.qp.psn
  }

  /** Starts a build of perdured on a part of its own below `folder`. */
  static async perdured(build: Build, folder: string, bytes: number): Promise<Inside> {
    mkdirSync(folder, { recursive: true })
    const served = await startPerdured(build, folder, bytes, ['poll = spin'])
    return new Inside(served.running, served)
  }

  /** Starts the C program, for the client of `other`. */
  static async duty(
    program: string,
    folder: string,
    other: Inside,
    bytes: number,
  ): Promise<Inside> {
    return new Inside(await startDuty(program, folder, bytes, other.served), other.served)
  }

  /** Runs so many records, numbered on from the last ones; all of them with guards, or none. */
  async run(count: number, burst: number, hasGuards = false): Promise<InsideResult> {
    const { served } = this
    const frame = hasGuards ? served.guarded : served.frame
    const order = Buffer.alloc(ORDER_HEADER.length + 4 * ORDER_WORDS)
    ORDER_HEADER.copy(order)
    const words = [count, burst, this.psn, this.operation, SLOTS, frame.length]
    words.forEach((word, i) => {
      order.writeUInt32LE(word, ORDER_HEADER.length + 4 * i)
    })
    const answered = once(this.socket, 'message') as Promise<[Buffer]>
    this.socket.send(Buffer.concat([order, frame]), this.running.port, '127.0.0.1')
    const [answer] = await Promise.race([answered, this.running.ended])
    const result = JSON.parse(answer.subarray(ORDER_HEADER.length).toString()) as InsideResult
    if (result.acked !== count) {
      throw new Trouble(
        `${result.acked} of ${count} records acknowledged, ${result.refused} refused`,
      )
    }
    this.psn = (this.psn + count) & 0xffffff
    this.operation += count
    return result
  }

  close(): Promise<void> {
    this.socket.close()
    return this.running.close()
  }
}
