/** `TARGET SEED INPUTS`: so many inputs that nobody should send, from that seed (C5). */

import { fuzzOnce, type Target } from '../../fuzz/play.ts'
import type { Play } from '../killer.ts'

export const play: Play = (argument) => {
  const [target, seed, inputs] = argument.split(' ')
  const { described } = fuzzOnce(target as Target, Number(seed), Number(inputs))
  return described[0] ?? null
}
