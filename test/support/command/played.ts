/** What a trace ends with, when it is played. */

import { LINE_BYTES } from '../../../firmware/board/limits.ts'
import type { TraceFile } from '../../../host-driver/command/timeline/read-trace.ts'
import { Replay } from '../../../host-driver/command/timeline/replay.ts'

/** The lines that the trace says something of. Of others it does not know what they held. */
export function mentionedLines({ events }: TraceFile): Set<number> {
  const lines = new Set<number>()
  for (const event of events) {
    if (event.e !== 'base' && event.e !== 'store') continue
    const bytes = 'bytes' in event ? event.bytes : Buffer.from(event.data, 'base64').length
    const last = Math.floor((event.at + bytes - 1) / LINE_BYTES)
    for (let line = Math.floor(event.at / LINE_BYTES); line <= last; line++) lines.add(line)
  }
  return lines
}

/** Those of the lines in which `part` is not what is durable at the end of the trace. */
export function differingLines(
  { head, events }: TraceFile,
  part: Uint8Array,
  lines: Iterable<number>,
): number[] {
  const replay = new Replay({ head, events })
  for (const event of events) replay.play(event)
  const { durable } = replay.part
  return [...lines].filter((line) => {
    const [from, to] = [line * LINE_BYTES, (line + 1) * LINE_BYTES]
    return Buffer.compare(durable.subarray(from, to), part.subarray(from, to)) !== 0
  })
}
