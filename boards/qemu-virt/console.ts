/**
 * A line to the card's serial console: commands out, one JSON object a line back.
 *
 * Invariant: one question is under way at a time, and its answer is the next object that
 * the console says. While what the card runs does not answer, as between a reset and its start, it
 * is asked again.
 */

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'

/** Longest wait for an answer, ms, unless it is said. */
const ANSWER_MS = 20_000

/** What perdure-boot says where what it runs does not, and how long that is left alone, ms. */
const SILENCE = 'what runs does not answer'
const AGAIN_MS = 500

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
      for (;;) {
        const answer = await this.once(command)
        if (answer.error !== SILENCE) return answer
        await delay(AGAIN_MS)
      }
    } finally {
      clearTimeout(late)
    }
  }

  private async once(command: string): Promise<{ readonly error?: unknown }> {
    this.socket.write(`${command}\n`)
    for (;;) {
      const { value, done } = await this.lines.next()
      if (done === true) throw new Error(`the console did not answer '${command}'`)
      if (value.startsWith('{')) return JSON.parse(value) as { readonly error?: unknown }
    }
  }

  close(): void {
    this.socket.destroy()
  }
}
