/**
 * QEMU's machine protocol: one JSON object a line, over a Unix socket (QEMU: docs/interop).
 *
 * Invariant: one connection is one command, so that nothing has to be kept between two and
 * a machine that is gone is an error of that command.
 */

import { once } from 'node:events'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'

interface Message {
  readonly QMP?: unknown
  readonly event?: string
  readonly return?: unknown
  readonly error?: { readonly desc: string }
}

/**
 * Executes a command and resolves to what it returned. Rejects with QEMU's refusal, or where the
 * machine cannot be reached or ends before it has answered.
 */
export async function qmp(
  path: string,
  execute: string,
  args: Readonly<Record<string, unknown>> = {},
): Promise<unknown> {
  const socket = connect(path)
  try {
    await once(socket, 'connect')
    // From here on an error shows as the end of the lines.
    socket.on('error', () => {})
    const lines = createInterface(socket)[Symbol.asyncIterator]()
    const answer = async (): Promise<unknown> => {
      for (;;) {
        const { value, done } = await lines.next()
        if (done === true) throw new Error(`QEMU ended before it answered ${execute}`)
        const message = JSON.parse(value) as Message
        if (message.error !== undefined) throw new Error(`QEMU: ${message.error.desc}`)
        if (message.QMP !== undefined || 'return' in message) return message.return
      }
    }
    await answer()
    socket.write('{"execute":"qmp_capabilities"}\n')
    await answer()
    socket.write(`${JSON.stringify({ execute, arguments: args })}\n`)
    return await answer()
  } finally {
    socket.destroy()
  }
}
