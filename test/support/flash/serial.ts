/** A serial line to a Unix socket: a pseudo-terminal, which Node cannot make by itself. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { compile } from '../native/harness.ts'

export interface SerialLine {
  /** Where it is opened. */
  readonly path: string
  end(): Promise<void>
}

export async function serialLine(socket: string): Promise<SerialLine> {
  const pty = spawn(compile('pty-harness', []), { stdio: ['pipe', 'pipe', 'inherit'] })
  const [first] = (await once(pty.stdout, 'data')) as [Buffer]
  const card = connect(socket)
  card.on('error', () => {})
  pty.stdin.on('error', () => {})
  card.pipe(pty.stdin)
  pty.stdout.pipe(card)
  const end = async (): Promise<void> => {
    const gone = once(pty, 'exit')
    pty.kill()
    await gone
    card.destroy()
  }
  return { path: first.toString('utf8').trim(), end }
}
