/**
 * Makes a failing script short: a smaller world, then fewer and fewer steps (Zeller and
 * Hildebrandt, Simplifying and isolating failure-inducing input, 2002).
 *
 * Invariant: what comes out fails in the same way, numbers apart, and plays by itself.
 */

import { playScript } from './play.ts'
import { type Line, NO_ENDS, type Script, type Shape } from './shape.ts'
import type { PlayOptions } from './world.ts'

/** Plays that a shrink may take. */
const PLAYS_MOST = 300

/** The way in which something is wrong: its words without the numbers. */
function kindOf(violation: string): string {
  return violation.replace(/[0-9a-f]{8,}|\d+/g, '').slice(0, 60)
}

/** Worlds that are simpler, one thing at a time. */
function simpler(shape: Shape): Shape[] {
  return [
    { ...shape, cards: 1 },
    { ...shape, hosts: 1 },
    { ...shape, clients: 1 },
    { ...shape, network: 0 },
    { ...shape, media: false },
    { ...shape, health: false },
    { ...shape, adr: false },
    { ...shape, bytes: 0 },
    { ...shape, copies: 2 },
    { ...shape, capacity: 64 },
    { ...shape, mtu: 4096 },
    { ...shape, ends: NO_ENDS },
    { ...shape, ends: { ...shape.ends, worn: null } },
  ]
}

export async function shrink(
  script: Script,
  seed: number,
  violation: string,
  options: PlayOptions,
): Promise<Script> {
  const kind = kindOf(violation)
  let left = PLAYS_MOST
  const fails = async (candidate: Script): Promise<boolean> => {
    if (left <= 0) return false
    left -= 1
    const { violations } = await playScript(candidate, seed, options)
    return violations.some((what) => kindOf(what) === kind)
  }
  let best = script
  for (const next of simpler(best.world).keys()) {
    const world = simpler(best.world)[next]!
    if (JSON.stringify(world) === JSON.stringify(best.world)) continue
    if (await fails({ ...best, world })) best = { ...best, world }
  }
  return { ...best, steps: await fewer(best, fails) }
}

/** Leaves out halves, quarters, eighths, as long as it still fails. */
async function fewer(
  { world, steps }: Script,
  fails: (script: Script) => Promise<boolean>,
): Promise<readonly Line[]> {
  let kept = steps
  let parts = 2
  while (kept.length > 1) {
    const each = Math.ceil(kept.length / parts)
    let found = false
    for (let at = 0; at < kept.length && !found; at += each) {
      const rest = [...kept.slice(0, at), ...kept.slice(at + each)]
      if (!(await fails({ world, steps: rest }))) continue
      kept = rest
      parts = Math.max(2, parts - 1)
      found = true
    }
    if (found) continue
    if (each === 1) break
    parts = Math.min(kept.length, 2 * parts)
  }
  return kept
}
