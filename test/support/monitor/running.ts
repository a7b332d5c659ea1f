/** `perdure monitor` as it runs: its lines as they come, and what it says beside them. */

import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { COMMAND, PLAIN } from '../command/command.ts'

/** A line of `--json`: of a look, or of an event. */
export interface Line {
  readonly time: string
  readonly target: string
  readonly up?: boolean
  readonly event?: string
  readonly gravity?: string
  readonly text?: string
  readonly [more: string]: unknown
}

interface Running {
  readonly child: ChildProcessWithoutNullStreams
  /** All lines so far. */
  readonly lines: readonly Line[]
  /** The next line, of those that were not passed over, that is so. */
  until(is: (line: Line) => boolean): Promise<Line>
  stderr(): string
}

export function startMonitor(
  folder: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Running {
  const words = [COMMAND, 'monitor', ...args]
  const child = spawn(process.execPath, words, { cwd: folder, env: { ...PLAIN, ...env } })
  const lines: Line[] = []
  const waiting: (() => void)[] = []
  let said = ''
  let next = 0
  child.stderr.on('data', (piece: Buffer) => {
    said += piece.toString('utf8')
  })
  createInterface({ input: child.stdout }).on('line', (line) => {
    lines.push(JSON.parse(line) as Line)
    for (const wake of waiting.splice(0)) wake()
  })
  const until = async (is: (line: Line) => boolean): Promise<Line> => {
    for (;;) {
      while (next < lines.length) if (is(lines[next++]!)) return lines[next - 1]!
      await new Promise<void>((resolve) => waiting.push(resolve))
    }
  }
  return { child, lines, until, stderr: () => said }
}
