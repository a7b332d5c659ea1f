/**
 * `TARGET SEED INPUTS`: so many inputs that nobody should send, from that seed; or `corpus SEED`,
 * the ways to what chance meets seldom (C5).
 */

import { playCorpus } from '../../fuzz/corpus.ts'
import { Ledger } from '../../fuzz/ledger.ts'
import { fuzzOnce, type Target } from '../../fuzz/play.ts'
import type { Play } from '../killer.ts'

function corpus(seed: number): string | null {
  const ledger = new Ledger('corpus', 'corpus')
  playCorpus(ledger, seed)
  return ledger.described[0]?.what ?? null
}

export const play: Play = (argument) => {
  const [target, seed, inputs] = argument.split(' ')
  if (target === 'corpus') return corpus(Number(seed))
  const { described } = fuzzOnce(target as Target, Number(seed), Number(inputs))
  return described[0] ?? null
}
