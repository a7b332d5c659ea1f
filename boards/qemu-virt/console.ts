/**
 * A line to the card's serial console: commands out, one JSON object a line back.
 *
 * What always holds: one question is under way at a time, and its answer is the next object that
 * the console says.
 */

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { createInterface } from 'node:readline'

/** Longest wait for an answer, ms, unless it is said. */
const ANSWER_MS = 20_000

export class SerialConsole {
  private readonly socket: Socket
  private readonly lines: AsyncIterator<string>
  private readonly answerMs: number
  private last: Promise<unknown> = Promise.resolve()

  private constructor(socket: Socket, answerMs: number) {
    this.socket = socket
    this.answerMs = answerMs
    socket.on('error', () => {})
    this.lines = createInterface(socket)[Symbol.asyncIterator]()
  }

  /** Opens the Unix socket that QEMU has the serial line on. It takes one client at a time. */
  static async open(path: string, answerMs: number = ANSWER_MS): Promise<SerialConsole> {
    const socket = connect(path)
    await once(socket, 'connect')
    return new SerialConsole(socket, answerMs)
  }

  /** Says a command; resolves to its answer. Rejects where none comes in time. */
  ask(command: string): Promise<unknown> {
    const asked = this.last.catch(() => {}).then(() => this.exchange(command))
    this.last = asked
    return asked
  }

  private async exchange(command: string): Promise<unknown> {
    const late = setTimeout(() => this.socket.destroy(), this.answerMs)
    try {
      this.socket.write(`${command}\n`)
      for (;;) {
        const { value, done } = await this.lines.next()
        if (done === true) throw new Error(`the console did not answer '${command}'`)
        if (value.startsWith('{')) return JSON.parse(value) as unknown
      }
    } finally {
      clearTimeout(late)
    }
  }

  close(): void {
    this.socket.destroy()
  }
}
