/**
 * One seed of the simulated world, played in Node and in QuickJS: the same command lists, the same
 * frames and the same end, or it is told where they part.
 */

import { playSeed } from '../simulate/play.ts'
import type { Played, PlayOptions } from '../simulate/world.ts'

export interface Pair {
  readonly node: Played
  readonly quickjs: Played
  /** What is not the same, as a sentence; null if all is. */
  readonly differs: string | null
}

type Boot = NonNullable<PlayOptions['boot']>

/** Plays the seed in both engines. A guest that stops is a difference as well. */
export async function playPair(seed: number, steps: number, boot: Boot): Promise<Pair> {
  const node = await playSeed(seed, { steps, trace: true })
  const quickjs = await playSeed(seed, { steps, trace: true, boot })
  return { node, quickjs, differs: differenceOf(node, quickjs) }
}

function differenceOf(node: Played, quickjs: Played): string | null {
  for (const name of ['operations', 'cuts', 'steps', 'hash'] as const) {
    if (node[name] === quickjs[name]) continue
    const said = quickjs.violations.map((violation) => `; ${violation}`).join('')
    return `${name} ${node[name]} in Node and ${quickjs[name]} in QuickJS${said}`
  }
  return null
}

/** The story of both, up to the first line that is not the same. */
export async function tellPair(seed: number, steps: number, boot: Boot): Promise<string> {
  const lines = { node: [] as string[], quickjs: [] as string[] }
  const tellTo = (told: string[]) => (line: string) => {
    told.push(line)
  }
  const node = await playSeed(seed, { steps, trace: true, tell: tellTo(lines.node) })
  const options = { steps, trace: true, tell: tellTo(lines.quickjs), boot }
  const quickjs = await playSeed(seed, options)
  const differs = differenceOf(node, quickjs)
  if (differs === null) return `seed ${seed}: the same in both, ${node.operations} operations`
  const first = lines.node.findIndex((line, i) => line !== lines.quickjs[i])
  const at = first < 0 ? lines.node.length : first
  return [
    `seed ${seed}: ${differs}`,
    ...lines.node.slice(Math.max(0, at - 20), at).map((line) => `  both     ${line}`),
    `  Node     ${lines.node[at] ?? 'the end'}`,
    `  QuickJS  ${lines.quickjs[at] ?? 'the end'}`,
  ].join('\n')
}
