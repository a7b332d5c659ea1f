/**
 * `npm run bench [-- --json] [--seconds N]`: what a durable record costs by write-persist and by
 * the ways without it (bench-persist.ts); then persisted records per second through the whole
 * board, in Node and in QuickJS, and what each record costs in fences, board calls and messages.
 * `npm run bench -- queues` is the bench of the host's queues (bench-queues.ts), `npm run bench --
 * batch` that of batches (bench-batch.ts), `npm run bench -- guard` that of records that bring a
 * guard (support/bench/guard-cost.ts), `npm run bench -- status` that of memory that tells its
 * state (bench-status.ts), `npm run bench -- slices` that of what takes long (bench-slices.ts),
 * `npm run bench -- busy` what a record waits for beside other work (bench-busy.ts), and `npm run
 * bench -- soak` whether anything grows (bench-soak.ts).
 *
 * Method: frames are made, numbered and sealed outside the timed part. Timed is all that the board
 * does with a burst: placing the frames and checking their ICRC, the firmware, its command lists on
 * the emulated NVDIMM (in memory), the answers with their ICRC. Each figure is the median of
 * several rounds; quote the ratios, as the machine is shared.
 *
 * Floors are ratios (bench-floors.ts): records for a thousand turns of a small loop
 * (support/bench/calibration.ts) that takes turns with the records, so that a busy machine breaks
 * none.
 *
 * Exit codes: 0 every floor holds; 1 a floor is broken; 64 a wrong command line.
 */

import { hasHelped, takeWishes } from '../support/bench/bench-arguments.ts'
import { Calibration } from '../support/bench/calibration.ts'
import { benchGuard } from '../support/bench/guard-cost.ts'
import { median, text } from '../support/bench/table.ts'
import { type Bench, openBench } from '../support/cards/engine.ts'
import { dataOf, persistFrames } from '../support/cards/test-card.ts'
import { renumber } from '../support/wire/renumber.ts'
import { benchBatch } from './bench-batch.ts'
import { benchBusy } from './bench-busy.ts'
import { MODEL } from './bench-card.ts'
import { ENGINES, type Engine, exitCodeOf, floorOf, holds } from './bench-floors.ts'
import { costs, tableOf } from './bench-persist.ts'
import { benchQueues } from './bench-queues.ts'
import { benchSlices } from './bench-slices.ts'
import { benchSoak } from './bench-soak.ts'
import { benchStatus } from './bench-status.ts'

const SLOTS = 1024
const BURSTS = 64
const ROUNDS = 9

interface Row {
  engine: Engine
  recordBytes: number
  burst: number
  recordsPerSecond: number
  /** For a thousand turns of the loop that says how fast the machine is. */
  recordsPerThousandTurns: number
  microsecondsPerRecord: number
  fencesPerRecord: number
  boardCallsPerRecord: number
  requestsPerRecord: number
  answersPerRecord: number
}

function runOnce(bench: Bench, frames: readonly Uint8Array[], burst: number): number {
  const { machine, engine } = bench
  const begun = process.hrtime.bigint()
  for (let i = 0; i < frames.length; i += burst) {
    for (let j = 0; j < burst; j++) machine.place(j, frames[i + j]!)
    engine.serve(burst, i)
  }
  return Number(process.hrtime.bigint() - begun) / 1e3
}

async function measure(
  engine: Engine,
  recordBytes: number,
  burst: number,
  seconds: number,
  calibration: Calibration,
): Promise<Row> {
  const partBytes = Math.ceil((SLOTS * 2 * (128 + recordBytes)) / 4096) * 4096 + 65536
  const bench = await openBench(engine, partBytes)
  const { machine, sent, card } = bench
  card.format()
  const region = card.provision({ slots: SLOTS, capacity: recordBytes })
  const qp = card.connect()
  const count = burst * Math.max(1, Math.floor((BURSTS * 32) / burst))
  const frames: Uint8Array[] = []
  for (let i = 0; i < count; i++) {
    frames.push(...persistFrames(qp, region, i % SLOTS, dataOf(recordBytes, i)))
  }
  runOnce(bench, frames, burst)
  const before = machine.statistics
  sent.length = 0
  const rates: number[] = []
  const ratios: number[] = []
  let records = 0
  let answers = 0
  for (let round = 0; round < ROUNDS; round++) {
    let spent = 0
    let done = 0
    const turns = [calibration.look()]
    while (spent < (seconds * 1e6) / ROUNDS) {
      renumber(frames, qp, SLOTS)
      spent += runOnce(bench, frames, burst)
      done += frames.length
      answers += sent.length
      sent.length = 0
      turns.push(calibration.look())
    }
    rates.push((done / spent) * 1e6)
    ratios.push((1e3 * rates.at(-1)!) / median(turns))
    records += done
  }
  const after = machine.statistics
  bench.engine.dispose()
  const rate = median(rates)
  return {
    engine,
    recordBytes,
    burst,
    recordsPerSecond: Math.round(rate),
    recordsPerThousandTurns: median(ratios),
    microsecondsPerRecord: 1e6 / rate,
    fencesPerRecord: (after.fences - before.fences) / records,
    boardCallsPerRecord: (after.runs - before.runs) / records,
    requestsPerRecord: 1,
    answersPerRecord: answers / records,
  }
}

interface Flatness {
  packets: number
  memoryBefore: number
  memoryAfter: number
  change: number
}

/** A million packets through QuickJS: what the guest's heap holds before and after. */
async function flatness(packets: number): Promise<Flatness> {
  const bench = await openBench('quickjs', 1 << 20)
  bench.card.format()
  const region = bench.card.provision({ slots: SLOTS, capacity: 64 })
  const qp = bench.card.connect()
  const frames: Uint8Array[] = []
  for (let i = 0; i < 2048; i++) frames.push(...persistFrames(qp, region, i % SLOTS, dataOf(64, i)))
  runOnce(bench, frames, 32)
  const memoryBefore = bench.engine.memoryUsed()
  let done = 0
  while (done < packets) {
    renumber(frames, qp, SLOTS)
    runOnce(bench, frames, 32)
    bench.sent.length = 0
    done += frames.length
  }
  const memoryAfter = bench.engine.memoryUsed()
  bench.engine.dispose()
  return { packets: done, memoryBefore, memoryAfter, change: memoryAfter / memoryBefore - 1 }
}

function flatnessLine({ packets, memoryBefore, memoryAfter, change }: Flatness): string {
  const percent = (100 * change).toFixed(3)
  return (
    `guest memory over ${packets.toLocaleString('en-US')} packets: ` +
    `${memoryBefore} -> ${memoryAfter} bytes (${percent} %)`
  )
}

function speedTable(rows: readonly Row[]): string[][] {
  const head = ['engine', 'bytes', 'burst', 'records/s', 'µs/rec', 'fences', 'calls', 'req', 'ack']
  const floors = ['/ 1000 turns', 'floor', '']
  const cells = rows.map((row) => [
    row.engine,
    String(row.recordBytes),
    String(row.burst),
    row.recordsPerSecond.toLocaleString('en-US'),
    row.microsecondsPerRecord.toFixed(2),
    row.fencesPerRecord.toFixed(3),
    row.boardCallsPerRecord.toFixed(3),
    row.requestsPerRecord.toFixed(0),
    row.answersPerRecord.toFixed(3),
    row.recordsPerThousandTurns.toFixed(2),
    ...(floorOf(row) === 0
      ? ['', '']
      : [`≥ ${floorOf(row).toFixed(2)}`, holds(row) ? 'holds' : 'BROKEN']),
  ])
  return [[...head, ...floors], ...cells]
}

async function main(args: readonly string[]): Promise<number> {
  const wishes = takeWishes(args, { seconds: { standard: 1 } })
  if (wishes === null) return 64
  const { seconds, json } = wishes
  if (process.stderr.isTTY) process.stderr.write('the ways to a durable record …')
  const persist = await costs()
  const rows: Row[] = []
  for (const engine of ENGINES) {
    const calibration = await Calibration.in(engine)
    for (const recordBytes of [64, 1024, 4096]) {
      for (const burst of [1, 32]) {
        if (process.stderr.isTTY) {
          process.stderr.write(`\r\x1b[K${engine}, ${recordBytes} bytes, burst ${burst} …`)
        }
        rows.push(await measure(engine, recordBytes, burst, seconds, calibration))
      }
    }
  }
  if (process.stderr.isTTY) process.stderr.write('\r\x1b[Ka million packets …')
  const memory = await flatness(1_000_000)
  if (process.stderr.isTTY) process.stderr.write('\r\x1b[K')
  const parts = [text(tableOf(persist)), text(speedTable(rows)), flatnessLine(memory)]
  const out = json
    ? JSON.stringify({ level: '2of2', model: MODEL, persist, rows, memory }, null, 2)
    : parts.join('\n\n')
  process.stdout.write(`${out}\n`)
  return exitCodeOf(rows)
}

const HELP = `Usage: npm run bench -- [what] [options]

says what durable records cost, and which floors hold

What:
  (nothing)  a durable record by every way, then records per second through the
             whole board            --json, --seconds N of each case
  queues     the host's queues      --json, --seconds N, --svg FILE
  batch      batches                --json, --seconds N of each case
  guard      records with a guard, and without
                                    --json, --seconds N of each case
  status     memory that tells its state
                                    --json, --seed N, --svg FILE
  slices     what takes long, in slices
                                    --json
  busy       what a record waits for beside other work
                                    --json, --records N
  soak       whether anything grows --json, --connections N, --records N,
                                    --hours N

Exit codes: 0 every floor holds, 1 a floor is broken, 64 a wrong command line
`

const [, , subcommand, ...rest] = process.argv
if (hasHelped(process.argv.slice(2), HELP)) process.exitCode = 0
else if (subcommand === 'queues') await benchQueues(rest)
else if (subcommand === 'batch') await benchBatch(rest)
else if (subcommand === 'guard') await benchGuard(rest)
else if (subcommand === 'status') await benchStatus(rest)
else if (subcommand === 'slices') await benchSlices(rest)
else if (subcommand === 'busy') await benchBusy(rest)
else if (subcommand === 'soak') await benchSoak(rest)
else process.exitCode = await main(process.argv.slice(2))
