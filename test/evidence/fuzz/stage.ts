/** Inputs that nobody should send: packets, dialogues, work of a host, media, control messages. */

import { FAULTS } from '../../../firmware/fault.ts'
import type { Shard, Size, Stage, Tally } from '../stage.ts'
import { Ledger, opcodeCell, refusalCell } from './ledger.ts'
import { episodeSeed, fuzzInto, TARGETS, type Target } from './play.ts'
import { replayed } from './story.ts'

interface Plan {
  /** Shards of that target, and inputs of each. */
  readonly shards: number
  readonly inputs: number
  /** CPU seconds of a shard. */
  readonly seconds: number
}

const none: Plan = { shards: 0, inputs: 0, seconds: 0 }

const PLANS: Readonly<Record<Size, Readonly<Record<Target, Plan>>>> = {
  cut: {
    packets: { shards: 1, inputs: 120_000, seconds: 3 },
    dialogues: { shards: 1, inputs: 40_000, seconds: 2 },
    lengths: { shards: 1, inputs: 1, seconds: 1 },
  },
  ci: {
    packets: { shards: 20, inputs: 1_900_000, seconds: 20 },
    dialogues: { shards: 8, inputs: 1_000_000, seconds: 20 },
    lengths: { shards: 1, inputs: 1, seconds: 1 },
  },
  nightly: {
    packets: { shards: 400, inputs: 4_000_000, seconds: 40 },
    dialogues: { shards: 100, inputs: 4_000_000, seconds: 60 },
    lengths: { shards: 10, inputs: 1, seconds: 1 },
  },
}

function shardsOf(size: Size, seed: number): Shard[] {
  return TARGETS.flatMap((target, t) => {
    const { shards, inputs, seconds } = PLANS[size][target] ?? none
    return Array.from({ length: shards }, (_, i) => ({
      name: `${target} ${i}`,
      seed: episodeSeed(seed, 1000 * t + i),
      seconds,
      options: { target, inputs },
    }))
  })
}

async function play(shard: Shard, progress: (share: number) => void): Promise<Tally> {
  const target = shard.options.target as Target
  const ledger = new Ledger(target, shard.name)
  fuzzInto(ledger, target, shard.seed, shard.options.inputs as number, progress)
  return ledger.tally()
}

/** Every reason to refuse, every opcode. */
function lacks(total: Tally): string[] {
  const missing: string[] = []
  for (let opcode = 0; opcode < 256; opcode++) {
    if ((total.cells[opcodeCell(opcode)] ?? 0) === 0) missing.push(opcodeCell(opcode))
  }
  FAULTS.forEach((_, fault) => {
    if (fault > 0 && (total.cells[refusalCell(fault)] ?? 0) === 0) missing.push(refusalCell(fault))
  })
  return missing.map((what) => `nothing was ${what}`)
}

export const FUZZ: Stage = {
  name: 'fuzz',
  id: 'C5',
  title: 'inputs that nobody should send; distinct by hash',
  unit: 'inputs',
  floors: {
    cut: [
      { of: 'count', least: 200_000 },
      { of: 'kinds cut off at every byte', least: 250 },
    ],
    ci: [
      { of: 'count', least: 50_000_000 },
      { of: 'kinds cut off at every byte', least: 250 },
    ],
    nightly: [
      { of: 'count', least: 2_000_000_000 },
      { of: 'kinds cut off at every byte', least: 2_500 },
    ],
  },
  shards: shardsOf,
  play,
  lacks,
  replay: async (argument) => replayed(argument),
}
