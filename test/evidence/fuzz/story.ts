/** What a script does, told line by line: frames as they came, answers as they left, who objects. */

import { FAULTS } from '../../../firmware/fault.ts'
import { blankPacket, checkPacket } from '../../../firmware/wire/packet.ts'
import { printPacket } from '../../../firmware/wire/print.ts'
import { hexOf } from '../../support/frames.ts'
import type { Replayed } from '../stage.ts'
import { openEpisode, stepsOf, type Target } from './play.ts'
import { type Step, scriptOf } from './script.ts'

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
    case 'store':
      return [`   the host stores ${step.bytes.length} bytes at ${step.at}: ${hexOf(step.bytes)}`]
    case 'port':
      return [`   the host writes ${step.value} to the port at ${step.at}`]
    case 'good':
      return ['   a good client writes its next record']
    case 'arm':
      return ['   the power is cut at the next acknowledgement of durability']
    case 'connect':
      return [`   connections ${step.pairs.join(', ')} are made anew`]
    case 'rest':
      return ['   the card comes to rest']
  }
}

/** A long story has its end only. */
const TOLD_STEPS = 400

/** Plays `target/seed/script`, or `target/seed/inputs`, and tells it. */
export function replayed(argument: string): Replayed {
  const [target, seedText, rest] = argument.split('/') as [Target, string, string]
  const seed = Number(seedText)
  const steps = /^\d+$/.test(rest) ? stepsOf(target, seed, Number(rest)) : scriptOf(rest)
  const lines: string[] = [`${target}, seed ${seed}: ${steps.length} steps`]
  const { arena } = openEpisode(target, seed)
  const { world } = arena
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
  const violated = world.complaint !== ''
  lines.push(violated ? `OBJECTION: ${world.complaint}` : 'Nobody objects.')
  return { violated, text: lines.join('\n') }
}
