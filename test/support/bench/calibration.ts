/**
 * How fast this machine is now, in each engine: turns per second of a small loop that does what the
 * firmware does (bytes and words of typed arrays, whole numbers, properties, calls). A floor that
 * is a ratio to it depends less on what else the machine does.
 *
 * The loop must never change: every floor in a bench is a multiple of it.
 */

import { bootGuest } from '../../../boards/emulator/run/guest.ts'
import { FACTS } from '../cards/test-card.ts'

/** Of one look, ms: a few times what another program takes when it gets the processor. */
const LOOK_MS = 20

/** A script that defines `perdure` as the firmware's bundle does; `serve(turns)` runs the loop. */
const LOOP = `
globalThis.perdure = {
  start() {
    const bytes = new Uint8Array(4096)
    const words = new Uint32Array(1024)
    const state = { at: 0, sum: 0, seen: 0 }
    const load = (at) =>
      ((bytes[at] << 24) | (bytes[at + 1] << 16) | (bytes[at + 2] << 8) | bytes[at + 3]) >>> 0
    const store = (at, value) => {
      bytes[at] = value >>> 24
      bytes[at + 1] = (value >>> 16) & 0xff
      bytes[at + 2] = (value >>> 8) & 0xff
      bytes[at + 3] = value & 0xff
    }
    const turn = (state) => {
      const at = state.at
      const value = load(at)
      if ((value & 1) === 0) state.seen += 1
      else state.sum = (state.sum + value) >>> 0
      words[at >> 2] = state.sum
      store(at, (value + words[(at >> 2) ^ 1] + 1) >>> 0)
      state.at = (at + 68) & 4092
    }
    return {
      serve(turns) {
        for (let i = 0; i < turns; i++) turn(state)
        return state.sum
      },
      idle: () => 0,
    }
  },
}`

interface Loop {
  serve(turns: number, nowUs: number): number
}

/** Looks at how fast the machine is in one engine. */
export class Calibration {
  private readonly loop: Loop
  /** Turns of one look: measured once. */
  private turns = 1000

  private constructor(loop: Loop) {
    this.loop = loop
    let spent = 0
    while (spent < LOOK_MS) {
      this.turns = Math.ceil(this.turns * (spent > 1 ? (1.2 * LOOK_MS) / spent : 4))
      spent = (1000 * this.turns) / this.look()
    }
  }

  static async in(engine: 'node' | 'quickjs'): Promise<Calibration> {
    if (engine === 'node') return new Calibration(inNode())
    const machineFor = () => ({ facts: FACTS, run: () => 0, die: () => {} })
    return new Calibration(await bootGuest({ source: LOOP, machineFor }))
  }

  /** Turns per second, now. */
  look(): number {
    const begun = process.hrtime.bigint()
    this.loop.serve(this.turns, 0)
    return (this.turns * 1e9) / Number(process.hrtime.bigint() - begun)
  }
}

/** The same text in Node, in a scope of its own. */
function inNode(): Loop {
  const scope: { perdure?: { start(): Loop } } = {}
  new Function('globalThis', LOOP)(scope)
  return scope.perdure!.start()
}
