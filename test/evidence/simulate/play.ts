/**
 * Plays a script, or that of a seed, in a simulated world (world.ts).
 *
 *     const played = await playSeed(7)                       // in Node
 *     const again = await playSeed(7, { boot: bootQuickJs }) // the same in another engine
 *     played.hash === again.hash
 *
 * For other stages of the evidence: `playSeed(seed, options)` plays the script of a seed
 * (shape.ts), `playScript(script, seed, options)` one that was cut down. `options.boot` boots the
 * firmware on the machine that `machineFor` makes; it may return a promise, which is awaited, and
 * an engine with packet memory of its own hands that over. `options.steps` is the length of the
 * script; `options.world` asks for one kind of world. The hash is over every frame that a card
 * sent, and the number of commands at every cut; with `trace` over every command list, too, byte
 * for byte. Firmware that was changed on purpose is played by handing in a `boot` that starts it.
 */

import { Random } from '../../../boards/emulator/base/random.ts'
import { attackedScript, RELAYS, type Script, STEPS, scriptOf, type World } from './shape.ts'
import { playStep, settle } from './steps.ts'
import { type Played, type PlayOptions, SimulatedWorld } from './world.ts'

const STEPS_EACH = 240
/** Of worlds in which every start takes many handshakes. */
const STEPS_OF_RELAYS = 60

/** Length of the script of such a world, if no other is asked for. */
export function stepsOf(world?: World): number {
  return world === RELAYS ? STEPS_OF_RELAYS : STEPS_EACH
}

/** Plays a script: what came of it. */
export async function playScript(
  script: Script,
  seed: number,
  options: PlayOptions = {},
): Promise<Played> {
  const world = new SimulatedWorld(script.world, seed, options)
  let steps = 0
  try {
    await world.begin(new Random(seed))
    for (const [step, value] of script.steps) {
      if (world.violation !== null || world.isOver) break
      world.tell?.(`${steps} ${STEPS[step]}`)
      const random = new Random(value)
      world.network.reseed(random.fork())
      await playStep(world, STEPS[step]!, random)
      steps += 1
    }
    if (world.violation === null && !world.isOver) await settle(world)
  } catch (error) {
    // Whatever leaves the firmware, or an engine, is a violation as well (O6).
    const said = error instanceof Error ? (error.stack ?? String(error)) : String(error)
    world.blame(`an exception: ${said.split('\n').slice(0, 6).join(' | ')}`)
  }
  for (const { card } of world.sites) card.release()
  return world.played(steps)
}

/** Plays the script of a seed. */
export function playSeed(seed: number, options: PlayOptions = {}): Promise<Played> {
  const script = scriptOf(seed, options.steps ?? stepsOf(options.world), options.world)
  return playScript(options.attacked ? attackedScript(script) : script, seed, options)
}
