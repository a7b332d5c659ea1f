/**
 * A pair region and a stock Linux client: it writes the copies by itself, each by a WRITE and a
 * FLUSH, with a check code and a guard of its own making (S1-M1, S1-M2, D-8), and readers find each
 * record as it was or as it is to be, whole, whatever is cut, and wherever.
 *
 * Invariants:
 * - The host driver reads over a way of its own, so a wire that is cut hides nothing from it.
 * - What is expected of a cut is what the frames that passed say: in front of the FLUSH of copy A
 *   the record may be old or new, behind it it is new.
 */

import { execFile } from 'node:child_process'
import { setTimeout } from 'node:timers/promises'
import { guardOf } from '../../boards/software/guard.ts'
import { Trouble } from '../../boards/tools/debian/programs.ts'
import { connect, PerdureError, type Region } from '../../host-driver/index.ts'
import { PATIENT } from '../support/run/patience.ts'
import type { DpuProcess } from './dpu-process.ts'
import { patternOf } from './expectations.ts'
import type { Relay } from './relay.ts'
import { CLIENT_SECONDS, type Found, failuresOf, type Session, stepsOf } from './session.ts'

/** Several packets of 1024 bytes, the last one not whole: guest/copies.c, STREAM_BYTES. */
const BYTES = 2500
const PACKETS = 3

/** Frames of a chain: WRITE A, FLUSH A, WRITE B, FLUSH B. */
const COPIES = 2
const COPY_FRAMES = PACKETS + 1
const CHAIN_FRAMES = COPIES * COPY_FRAMES

export const PAIRS = { name: 'pairs', port: 7230, region: 'pairs:64:3000@pair' } as const

/** The first record of those that each case has to itself. A stream has the first ones. */
const STREAM_SLOTS = 4
const CUT_SLOTS = 16
const GUARD_SLOTS = 32

/** A stream that ends by a cut, behind so many FLUSHes. */
const ENDLESS = 100_000
const FLUSHED_BEFORE_CUT = 60

/** A stream that frames are lost of. */
const LOSSY = { rounds: 8, oneIn: 20 } as const

interface PairStage {
  readonly session: Session
  readonly dpu: DpuProcess
  readonly relay: Relay
  /** Where the host driver finds the card, and where the guest does. */
  readonly address: string
  readonly ipv4: string
  /** The command `perdure`. */
  readonly command: string
}

/** The card offers the region on the port, until the power goes; what the guest has to know. */
async function offered<T>(
  { address, ipv4 }: PairStage,
  use: (region: Region, words: string) => Promise<T>,
): Promise<T> {
  const dpu = await connect(address, PATIENT)
  try {
    const { name, port } = PAIRS
    await dpu.publish({ name, port, form: 'capability', stock: true })
    const region = await dpu.openRegion(name)
    const { rkey, id, key, copies, capacity } = region.info
    const hex = Buffer.from(key).toString('hex')
    return await use(region, `${ipv4} ${port} ${rkey}:${id}:${hex}:${copies}:${capacity}`)
  } finally {
    await dpu.close()
  }
}

/** What is wrong with a record: by both ways to read it, its sequence must be one of these. */
async function wrongWith(
  region: Region,
  slot: number,
  sequences: readonly bigint[],
  settled: boolean,
): Promise<string[]> {
  const what = `record ${slot}`
  try {
    const one = await region.read(slot)
    const all = await region.readCopies(slot)
    const words = [one, all.record].flatMap(({ data, sequence, guard }) => [
      ...(sequences.includes(sequence) ? [] : [`${what}: sequence ${sequence}, not ${sequences}`]),
      ...(Buffer.compare(data, patternOf(Number(sequence), data.length)) === 0
        ? []
        : [`${what}: other data than its sequence says`]),
      ...(guard === guardOf(data) ? [] : [`${what}: guard ${guard}, not ${guardOf(data)}`]),
    ])
    return [...words, ...(settled && !all.settled ? [`${what}: its copies differ`] : [])]
  } catch (error) {
    return [`${what}: ${(error as Error).message}`]
  }
}

// ---- guards ------------------------------------------------------------------------------------

/** Records with the guard of their data, by their bytes; and without one. */
const GUARDED = [1, 64, 999, 3000] as const
const UNGUARDED = ['0', '100n'] as const

/** What is wrong with others: the guard, or a byte that has changed since the CRC was computed. */
const DAMAGED = ['g', 'd'] as const

/** The client's CRC-32C is that of the driver; and where data or guard are others it is noticed. */
async function guards(stage: PairStage): Promise<Found> {
  const { session } = stage
  const sizes = [...GUARDED, ...UNGUARDED, ...DAMAGED.map((how) => `500${how}`)]
  const records = sizes.map((words, i) => `${GUARD_SLOTS + i}:1:${words}`)
  return await offered(stage, async (region, words) => {
    const found = stepsOf(await session.client(`verbs-client copies ${words} ${records.join(' ')}`))
    const failures = [...found.failures]
    let slot = GUARD_SLOTS
    for (const _ of GUARDED) failures.push(...(await wrongWith(region, slot++, [1n], true)))
    for (const _ of UNGUARDED) {
      const { guard } = await region.read(slot)
      if (guard !== undefined) failures.push(`record ${slot} has a guard: ${guard}`)
      slot++
    }
    for (const _ of DAMAGED) {
      failures.push(...(await unnoticed(stage, region, slot)))
      const again = await session.client(`verbs-client copies ${words} ${slot}:2:500`)
      failures.push(...stepsOf(again).failures, ...(await wrongWith(region, slot, [2n], true)))
      slot++
    }
    return { steps: found.steps + GUARDED.length + UNGUARDED.length + 4 * DAMAGED.length, failures }
  })
}

/** Does a reader take the record, though its guard is not that of its data? */
async function unnoticed(
  { address, command }: PairStage,
  region: Region,
  slot: number,
): Promise<string[]> {
  const failures: string[] = []
  const codeOf = async (work: Promise<unknown>): Promise<string> =>
    await work.then(
      () => 'read',
      (error: unknown) => (error instanceof PerdureError ? error.code : String(error)),
    )
  const code = await codeOf(region.read(slot))
  if (code !== 'PERDURE_RECORD_CORRUPT') failures.push(`record ${slot}, damaged: ${code}`)
  const all = await codeOf(region.readCopies(slot))
  if (all !== 'PERDURE_RECORD_LOST') failures.push(`record ${slot}, each copy damaged: ${all}`)
  const args = [command, 'read', address, PAIRS.name, '--slots', `${slot}`]
  const status = await new Promise<{ code: unknown; said: string }>((resolve) => {
    execFile(process.execPath, args, (error, _, said) => resolve({ code: error?.code, said }))
  })
  if (status.code !== 1 || !status.said.includes('guard')) {
    failures.push(`perdure read of record ${slot}: ${status.code}, ${status.said}`)
  }
  return failures
}

// ---- cuts --------------------------------------------------------------------------------------

/** The wire is cut behind each frame of a chain; then the power, with all of that lying there. */
async function cutWires(stage: PairStage): Promise<Found> {
  const { session, dpu } = stage
  const failures: string[] = []
  const all = Array.from({ length: CHAIN_FRAMES + 1 }, (_, frames) => frames)
  // Last the one where nothing but the FLUSH of copy A makes it durable: a WRITE behind it, of
  // whomever, would have the card look at the record, and fence.
  const cuts = [...all.filter((frames) => frames !== COPY_FRAMES), COPY_FRAMES]
  await offered(stage, async (region, words) => {
    const olds = cuts.map((frames) => `${CUT_SLOTS + frames}:1:${BYTES}`).join(' ')
    failures.push(...stepsOf(await session.client(`verbs-client copies ${words} ${olds}`)).failures)
    for (const frames of cuts) failures.push(...(await cutBehind(stage, region, words, frames)))
  })
  await dpu.cutPower()
  await offered(stage, async (region) => {
    for (const frames of cuts) {
      const found = await wrongWith(region, CUT_SLOTS + frames, allowedOf(frames), true)
      failures.push(...found.map((one) => `${frames} frames, then no power: ${one}`))
    }
  })
  return { steps: 2 * cuts.length, failures }
}

/** Sequences that the record may have when so many frames of the second chain have passed. */
function allowedOf(frames: number): bigint[] {
  if (frames < PACKETS) return [1n]
  return frames < COPY_FRAMES ? [1n, 2n] : [2n]
}

/** Rejects when the guest should have sent what it is to send. */
async function tooLate(): Promise<never> {
  await setTimeout(CLIENT_SECONDS * 1000, null, { ref: false })
  throw new Trouble('no request was kept back')
}

/** A client's connection ends behind so many frames; then the client does, without a goodbye. */
async function cutBehind(
  { session, relay }: PairStage,
  region: Region,
  words: string,
  frames: number,
): Promise<string[]> {
  const slot = CUT_SLOTS + frames
  const isCut = relay.cutBehind(frames)
  const log = `/copies-${frames}`
  const client = `verbs-client copies ${words} ${slot}:2:${BYTES}`
  await session.client(`(${client} >${log} 2>&1 &)`)
  if (frames < CHAIN_FRAMES) await Promise.race([isCut, tooLate()])
  // What has passed whole has been answered: answers are not cut.
  const flushed = Math.floor(frames / COPY_FRAMES)
  const wait = `until [ "$(grep -c flushed ${log})" -ge ${flushed} ]; do sleep 0.1; done`
  const result = await session.client(`${wait}; killall -9 verbs-client 2>/dev/null; cat ${log}`)
  relay.mend()
  const told = result.lines.filter((line) => line.startsWith('flushed ')).length
  const wrong = await wrongWith(region, slot, allowedOf(frames), false)
  return [
    ...wrong.map((one) => `${frames} frames: ${one}`),
    ...failuresOf(result),
    ...(told === flushed ? [] : [`${frames} frames: ${told} copies flushed, not ${flushed}`]),
  ]
}

/** The power goes in the midst of a stream of chains: each record is as flushed, or newer. */
async function cutStream(stage: PairStage): Promise<Found> {
  const { session, dpu } = stage
  let flushed = 0
  let cut: Promise<unknown> | null = null
  const lines = await offered(stage, async (_, words) => {
    const command = `verbs-client copies-stream ${words} ${ENDLESS}`
    const result = await session.client(command, CLIENT_SECONDS, (line) => {
      if (line.startsWith('flushed ') && ++flushed === FLUSHED_BEFORE_CUT) cut = dpu.cutPower()
    })
    return result.lines
  })
  if (cut === null) return { steps: flushed, failures: ['the power was never cut'] }
  await cut
  const failures = await streamed(stage, lines)
  return { steps: flushed + STREAM_SLOTS, failures, note: `${flushed} copies flushed` }
}

/** Whether each record of a stream is one that its client has flushed, or was writing then. */
async function streamed(stage: PairStage, lines: readonly string[]): Promise<string[]> {
  const posted = Number(/^posted (\d+)/m.exec(lines.join('\n'))?.[1] ?? Number.NaN)
  if (!(posted > 0)) return ['the stream never said how much it has posted']
  return await offered(stage, async (region, words) => {
    const failures: string[] = []
    for (let slot = 0; slot < STREAM_SLOTS; slot++) {
      const durable = lastFlushed(lines, slot)
      const newest = Math.ceil((posted - slot) / STREAM_SLOTS)
      const allowed = Array.from({ length: newest - durable + 1 }, (_, i) => BigInt(durable + i))
      failures.push(...(await wrongWith(region, slot, allowed, true)))
    }
    const look = await stage.session.client(`verbs-client look ${words} ${STREAM_SLOTS}`)
    return [...failures, ...(await unlike(region, look.lines))]
  })
}

/** The last sequence of which the first copy was flushed. */
function lastFlushed(lines: readonly string[], slot: number): number {
  const said = lines.filter((line) => line.startsWith(`flushed ${slot} `) && line.endsWith(' 0'))
  return Number(said.at(-1)?.split(' ')[2] ?? 0)
}

/** Where the client in the guest has read another record, or guard, than the driver. */
async function unlike(region: Region, lines: readonly string[]): Promise<string[]> {
  const failures: string[] = []
  for (let slot = 0; slot < STREAM_SLOTS; slot++) {
    const { sequence, guard = 0 } = await region.read(slot)
    for (let copy = 0; copy < COPIES; copy++) {
      const line = `copy ${slot} ${copy} ${sequence} ${guard.toString(16).padStart(8, '0')}`
      if (!lines.includes(line)) failures.push(`Linux does not read '${line}'`)
    }
  }
  return failures
}

/** Frames are lost, and Linux repeats a FLUSH without its address: every chain ends right. */
async function losses(stage: PairStage): Promise<Found> {
  const { session, relay } = stage
  const { rounds, oneIn } = LOSSY
  relay.lose(['requests', 'answers'], oneIn)
  const result = await offered(stage, (_, words) =>
    session.client(`verbs-client copies-stream ${words} ${rounds}`, 2 * CLIENT_SECONDS),
  )
  const lost = relay.lost('requests') + relay.lost('answers')
  relay.lose([], 0)
  const failures = [
    ...failuresOf(result),
    ...(result.lines.includes(`posted ${rounds} ended ${rounds}`) ? [] : ['it did not end']),
    ...(lost > 0 ? [] : ['nothing was lost']),
    ...(await streamed(stage, result.lines)),
  ]
  return { steps: rounds + STREAM_SLOTS, failures, note: `${lost} frames lost` }
}

/** All that is tried with a pair region. */
export async function tryPairs(stage: PairStage): Promise<void> {
  const { session } = stage
  await session.one('pair region: the guard is computed by the client', () => guards(stage))
  await session.one('pair region: frames of its chains are lost', () => losses(stage))
  await session.one(
    'pair region: the wire is cut behind each frame of a chain, then the power',
    () => cutWires(stage),
  )
  await session.one('pair region: the power is cut while a client writes copies', () =>
    cutStream(stage),
  )
}
