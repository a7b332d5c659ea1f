/** What a script does, line by line: frames as they came, answers as they left, who objects. */

import { FAULTS } from '../../../firmware/board/fault.ts'
import { blankPacket, checkPacket } from '../../../firmware/wire/packet.ts'
import { printPacket } from '../../../host-driver/command/capture/print.ts'
import { hexOf } from '../../support/wire/frames.ts'
import type { Replayed } from '../stage.ts'
import type { Arena } from './arena.ts'
import { playCorpus } from './corpus.ts'
import { Ledger } from './ledger.ts'
import { type Episode, openEpisode, type Target } from './play.ts'
import { openGuestEpisode } from './quickjs.ts'
import { type Step, scriptOf } from './script.ts'
import type { World } from './world.ts'

/** Bytes of a frame in a line of hex. */
const HEX_BYTES = 32

function frameLines(frame: Uint8Array, arrow: string): string[] {
  const packet = blankPacket()
  const fault = checkPacket(packet, frame, 0, frame.length)
  const said = fault === 0 ? printPacket(packet, frame) : FAULTS[fault]!.name
  const lines = [`${arrow} ${frame.length} bytes: ${said}`]
  for (let at = 0; at < Math.min(frame.length, 4 * HEX_BYTES); at += HEX_BYTES) {
    const offset = String(at).padStart(6)
    lines.push(`${offset}  ${hexOf(frame.subarray(at, at + HEX_BYTES))}`)
  }
  return lines
}

function stepLines(step: Step): string[] {
  switch (step.kind) {
    case 'frame':
      return frameLines(step.bytes, '->')
    case 'serve':
      return ['   the burst is served']
    case 'pass':
      return [`   ${step.us} us go by`]
    case 'medium':
      return [`   the medium: ${step.what} ${step.value}`]
    case 'good':
      return ['   a good client writes its next record']
    case 'arm':
      return ['   the power is cut at the next acknowledgement of durability']
    case 'connect':
      return [`   connections ${step.pairs.join(', ')} are made again`]
    case 'rest':
      return ['   the card comes to rest']
  }
}

/** A long story has its end only. */
const TOLD_STEPS = 400

/** Plays `target/seed/script`, or `target/seed/inputs`, and tells it. */
export async function replayed(argument: string): Promise<Replayed> {
  const [target, seedText, rest] = argument.split('/') as [string, string, string]
  const seed = Number(seedText)
  if (target === 'corpus') return corpusAgain(seed)
  if (target === 'quickjs') {
    const { episode } = await openGuestEpisode(seed)
    return told(`${target}, seed ${seed}`, episode, Number(rest))
  }
  const episode = openEpisode(target as Target, seed)
  if (/^\d+$/.test(rest)) return told(`${target}, seed ${seed}`, episode, Number(rest))
  return toldSteps(`${target}, seed ${seed}`, episode.arena, scriptOf(rest))
}

function corpusAgain(seed: number): Replayed {
  const ledger = new Ledger('corpus', 'corpus')
  playCorpus(ledger, seed)
  const lines = ledger.described.map(({ what }) => what)
  return { violated: ledger.violations > 0, text: ['the corpus', ...lines].join('\n') }
}

/** An episode up to its complaint, and the last steps before it. */
function told(title: string, episode: Episode, inputs: number): Replayed {
  const { world } = episode.arena
  world.script = []
  episode.run(inputs)
  const last = world.script.slice(-TOLD_STEPS).flatMap(stepLines)
  return ended([`${title}: ${inputs} inputs`, ...last], world)
}

/** Steps, with what the card answers. */
function toldSteps(title: string, arena: Arena, steps: readonly Step[]): Replayed {
  const { world } = arena
  const lines: string[] = [`${title}: ${steps.length} steps`]
  const before = world.onSent
  let telling = false
  world.onSent = (frame) => {
    if (telling) lines.push(...frameLines(frame, '<-'))
    before?.(frame)
  }
  steps.forEach((step, i) => {
    if (world.complaint !== '') return
    telling = i >= steps.length - TOLD_STEPS
    if (telling) lines.push(...stepLines(step))
    arena.apply(step)
  })
  return ended(lines, world)
}

function ended(lines: string[], { complaint }: World): Replayed {
  const violated = complaint !== ''
  lines.push(violated ? `OBJECTION: ${complaint}` : 'Nobody objects.')
  return { violated, text: lines.join('\n') }
}
