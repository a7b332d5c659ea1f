/**
 * What the verbs need of a wire: memory of this process, and queues of one session.
 *
 * Invariant: a queue pair has the number that its peer is told, and no other has it.
 */

import type {
  CompletionPort,
  MemoryPort,
  PairOptions,
  PairPort,
  VerbsWay,
} from '../../way/verbs-way.ts'
import type { VerbsOptions } from '../../way/way.ts'
import type { Session } from '../session.ts'
import { WireCompletions } from './completions.ts'
import { WireMemory } from './memory.ts'
import { type WireGround, WirePair } from './pair.ts'

export class WireVerbs implements VerbsWay {
  onLost: () => void = () => {}
  private readonly ground: WireGround
  private readonly random: () => number

  constructor(session: Session, { ackTimeoutCode, persistTimeoutUs, random }: VerbsOptions) {
    const jobOptions = { ackTimeoutCode, persistTimeoutUs }
    this.ground = { session, memory: new WireMemory(), jobOptions }
    this.random = random
  }

  async register(_domain: number, length: number): Promise<MemoryPort> {
    return this.ground.memory.register(length)
  }

  async openCq(depth: number): Promise<CompletionPort> {
    return new WireCompletions(depth)
  }

  async openPair(options: PairOptions): Promise<PairPort> {
    return new WirePair(this.ground, 0x10 + (this.random() % 0xffff00), options)
  }

  close(): void {}
}
