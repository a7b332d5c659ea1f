/** Inputs that nobody should send: packets, dialogues, work of a host, media, control messages. */

import { FAULTS } from '../../../firmware/board/fault.ts'
import type { Shard, Size, Stage, Tally } from '../stage.ts'
import { playCorpus } from './corpus.ts'
import { Ledger, opcodeCell, refusalCell } from './ledger.ts'
import { episodeSeed, fuzzInto, TARGETS, type Target } from './play.ts'
import { fuzzGuest } from './quickjs.ts'
import { replayed } from './story.ts'
import { PAST_AN_END } from './traffic.ts'

interface Plan {
  /** Shards of that target, and inputs of each. */
  readonly shards: number
  readonly inputs: number
  /** CPU seconds of a shard. */
  readonly seconds: number
}

/** What a shard plays: a target in Node, both engines, or the corpus. */
type Play = Target | 'quickjs' | 'corpus'

const PLAYS: readonly Play[] = [...TARGETS, 'quickjs', 'corpus']

const CORPUS: Plan = { shards: 1, inputs: 1, seconds: 1 }

const PLANS: Readonly<Record<Size, Readonly<Record<Play, Plan>>>> = {
  cut: {
    packets: { shards: 1, inputs: 90_000, seconds: 2 },
    dialogues: { shards: 1, inputs: 25_000, seconds: 1 },
    lengths: { shards: 1, inputs: 1, seconds: 1 },
    faults: { shards: 1, inputs: 12_000, seconds: 1 },
    control: { shards: 1, inputs: 20_000, seconds: 1 },
    work: { shards: 1, inputs: 10_000, seconds: 1 },
    media: { shards: 1, inputs: 250, seconds: 1 },
    quickjs: { shards: 1, inputs: 10_000, seconds: 1 },
    corpus: CORPUS,
  },
  ci: {
    packets: { shards: 20, inputs: 1_980_000, seconds: 12 },
    dialogues: { shards: 8, inputs: 1_000_000, seconds: 9 },
    lengths: { shards: 1, inputs: 1, seconds: 1 },
    faults: { shards: 1, inputs: 400_000, seconds: 10 },
    control: { shards: 2, inputs: 1_000_000, seconds: 12 },
    work: { shards: 2, inputs: 500_000, seconds: 20 },
    media: { shards: 2, inputs: 8_000, seconds: 20 },
    quickjs: { shards: 4, inputs: 510_000, seconds: 25 },
    corpus: CORPUS,
  },
  nightly: {
    packets: { shards: 400, inputs: 4_000_000, seconds: 40 },
    dialogues: { shards: 100, inputs: 4_000_000, seconds: 60 },
    lengths: { shards: 10, inputs: 1, seconds: 1 },
    faults: { shards: 20, inputs: 1_000_000, seconds: 30 },
    control: { shards: 20, inputs: 2_000_000, seconds: 30 },
    work: { shards: 20, inputs: 1_000_000, seconds: 30 },
    media: { shards: 40, inputs: 20_000, seconds: 40 },
    quickjs: { shards: 40, inputs: 1_000_000, seconds: 50 },
    corpus: CORPUS,
  },
}

function shardsOf(size: Size, seed: number): Shard[] {
  return PLAYS.flatMap((target, t) => {
    const { shards, inputs, seconds } = PLANS[size][target]
    return Array.from({ length: shards }, (_, i) => ({
      name: `${target} ${i}`,
      seed: episodeSeed(seed, 1000 * t + i),
      seconds,
      options: { target, inputs },
    }))
  })
}

async function play(shard: Shard, progress: (share: number) => void): Promise<Tally> {
  const target = shard.options.target as Play
  const inputs = shard.options.inputs as number
  const ledger = new Ledger(target, shard.name)
  if (target === 'quickjs') await fuzzGuest(ledger, shard.seed, inputs, progress)
  else if (target === 'corpus') playCorpus(ledger, shard.seed)
  else fuzzInto(ledger, target, shard.seed, inputs, progress)
  return ledger.tally()
}

/** Opcodes that no frame had, and reasons for which nothing was refused. */
function lacks({ cells }: Tally): string[] {
  const missing: string[] = []
  const want = (cell: string, what: string): void => {
    if ((cells[cell] ?? 0) === 0) missing.push(what)
  }
  for (let opcode = 0; opcode < 256; opcode++) {
    want(opcodeCell(opcode), `no frame had ${opcodeCell(opcode)}`)
  }
  FAULTS.forEach(({ name }, fault) => {
    if (fault > 0) want(refusalCell(fault), `nothing was refused for ${name}`)
  })
  return missing
}

export const FUZZ: Stage = {
  name: 'fuzz',
  id: 'C5',
  title: 'inputs that nobody should send; distinct by hash',
  unit: 'inputs',
  shardsFollow: true,
  floors: {
    cut: [
      { of: 'count', least: 200_000 },
      { of: PAST_AN_END, least: 200 },
      { of: 'kinds cut off at every byte', least: 250 },
    ],
    ci: [
      { of: 'count', least: 52_000_000 },
      { of: 'inputs in QuickJS', least: 2_000_000 },
      { of: PAST_AN_END, least: 40_000 },
      { of: 'kinds cut off at every byte', least: 250 },
    ],
    nightly: [
      { of: 'count', least: 2_040_000_000 },
      { of: 'inputs in QuickJS', least: 40_000_000 },
      { of: PAST_AN_END, least: 1_000_000 },
      { of: 'kinds cut off at every byte', least: 2_500 },
    ],
  },
  shards: shardsOf,
  play,
  lacks,
  replay: replayed,
}
