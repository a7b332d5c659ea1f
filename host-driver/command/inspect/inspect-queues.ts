/**
 * `perdure inspect --queues TARGET`: what a card does for the queues of its own host (source 3):
 * its counters, its cache of contexts, and the queues in use.
 *
 * Exit codes are those of every command; a card without a host is fine, and says so.
 */

import type { QueueInfo, QueuesStatus } from '../../control/queues.ts'
import { OK } from '../base/exit-codes.ts'
import { Output } from '../base/output.ts'
import { type Cell, facts, table, timeText } from '../base/table.ts'
import { withTarget } from '../base/target.ts'

interface QueuesOptions {
  readonly json?: boolean
  readonly engine?: 'quickjs' | 'node'
  /** Queues that are listed at most. */
  readonly most: number
}

export async function inspectQueues(target: string, options: QueuesOptions): Promise<number> {
  const { json = false, engine, most } = options
  const output = new Output(json)
  const looking = { writes: false, anyState: true, engine }
  return await withTarget(target, looking, async ({ dpu }) => {
    const status = await dpu.queues()
    const inUse = await dpu.queuesInUse(most)
    if (json) {
      output.printJson({ target, ...status, inUse })
      return OK
    }
    for (const line of facts(statusFacts(status))) output.print(line)
    output.print('')
    for (const line of facts(counterFacts(status))) output.print(line)
    if (inUse.length === 0) return OK
    output.print('')
    for (const line of queueLines(inUse)) output.print(line)
    const more = status.used - inUse.length
    if (more > 0) output.print(`… and ${more} more; --most lists them`)
    return OK
  })
}

function statusFacts(status: QueuesStatus): [string, Cell][] {
  const { epoch, queues, used, cached, capacity } = status
  return [
    ['host', epoch === 0 ? 'none' : `there, epoch ${epoch}`],
    ['queues', `${used} in use of ${queues}`],
    ['context cache', `${cached} cached of ${capacity}, evicts ${policyText(status)}`],
    ['newer pointer', status.pointerOrder === 'time' ? 'the later' : 'the one further ahead'],
  ]
}

function policyText({ policy, n, ageUs }: QueuesStatus): string {
  if (policy === 'n-oldest') return `the ${n} oldest`
  if (policy === 'age') return `those older than ${timeText(ageUs)}`
  if (policy === 'random') return `${n} at random`
  return policy === 'least-used' ? 'the one used longest ago' : 'the oldest'
}

function counterFacts({ counters }: QueuesStatus): [string, Cell][] {
  const { hits, misses } = counters
  const lookUps = Number(hits + misses)
  const rate: [string, Cell][] =
    lookUps === 0 ? [] : [['hit rate', `${((100 * Number(hits)) / lookUps).toFixed(1)} %`]]
  const named = Object.entries(counters).map(([name, count]): [string, Cell] => {
    return [name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`), count]
  })
  return [...named, ...rate]
}

function queueLines(queues: readonly QueueInfo[]): string[] {
  const rows = queues.map((one): Cell[] => [
    one.queue,
    one.kind,
    one.type,
    one.locked ? `${one.state}, locked` : one.state,
    one.depth,
    one.readPointer,
    one.writePointer,
    one.free,
    one.completionQueue ?? '-',
    one.cached ? 'cached' : '-',
    one.fault ?? '-',
  ])
  return table(HEAD, rows)
}

const HEAD = [
  ...['queue', 'kind', 'type', 'state', 'depth', 'read', 'write', 'free', 'CQ', 'context', 'fault'],
]
