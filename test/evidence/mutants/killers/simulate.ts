/**
 * `WORLD SEED`, or `WORLD FIRST-LAST`: hosts and DPUs in virtual time, from that seed (C3); with
 * `attacked` behind it somebody is inside the network (C13).
 */

import { playSeed } from '../../simulate/play.ts'
import { ALL_WORLDS } from '../../simulate/shape.ts'
import type { Play } from '../killer.ts'

export const play: Play = async (argument) => {
  const [name, seeds, more] = argument.split(' ')
  const world = ALL_WORLDS.find((one) => one === name)
  if (world === undefined) throw new Error(`no world is called ${name}`)
  const [first, last = first] = seeds!.split('-').map(Number)
  for (let seed = first!; seed <= last!; seed++) {
    const { violations } = await playSeed(seed, { world, attacked: more === 'attacked' })
    if (violations.length > 0) return `seed ${seed}: ${violations[0]}`
  }
  return null
}
