/**
 * Whose an Ethernet address is: the native runtime and the emulator judge alike, over any hearings
 * at any times. The C is compiled here with the sanitizers; without a compiler this is skipped.
 */

import { spawnSync } from 'node:child_process'
import { beforeAll, describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { PEER_OWNED_US, PEER_SETTLES_US, Peers } from '../../../boards/emulator/network/peers.ts'
import { compile, LINK_PARTS, noCompiler, titled } from '../../support/native/harness.ts'

const SEED = Number(process.env.SEED ?? 20261128)

let program = ''
beforeAll(() => {
  if (noCompiler === null) program = compile('link-harness', LINK_PARTS)
})

/** What the C answers to those lines. */
function answersOf(lines: readonly string[]): string[] {
  const { stdout, stderr } = spawnSync(program, ['peers'], {
    input: `${lines.join('\n')}\n`,
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  })
  expect(stderr).toBe('')
  return stdout.split('\n').slice(0, -1)
}

const sorted = (list: Iterable<string>): string => [...list].sort().join(' ')

/** A script and what the emulator says to it. */
class Script {
  readonly lines: string[] = []
  readonly wanted: string[] = []
  nowUs = 5_000_000
  private readonly peers = new Peers<string>(() => this.nowUs)

  hear(mac: number, at: string): void {
    this.lines.push(`hear ${mac} ${at} ${this.nowUs}`)
    this.wanted.push(this.peers.hear(`${mac}`, at, at) ? '1' : '0')
  }

  find(mac: number): void {
    this.lines.push(`find ${mac}`)
    this.wanted.push(this.peers.find(`${mac}`) ?? '')
  }

  all(): void {
    this.lines.push('all')
    this.wanted.push(sorted(this.peers.everybody()))
  }

  /** The answers of the C, in the form of `wanted`. */
  answers(): string[] {
    return answersOf(this.lines).map((line) =>
      sorted(line.split(' ').filter((word) => word !== '')),
    )
  }
}

/** Endpoints of both families, some of which share a bucket. */
const endpointOf = (i: number): string =>
  i % 3 === 0 ? `[fd00::${(i % 7) + 1}]:${1000 + i}` : `10.0.${i % 5}.${i % 11}:${1000 + i}`

const STEPS = [0, 1, PEER_SETTLES_US / 2, PEER_SETTLES_US, PEER_OWNED_US - 1, PEER_OWNED_US]

describe.skipIf(noCompiler !== null)(titled('the rules of the emulator'), () => {
  test.each([
    ['few addresses and endpoints', 5, 4, 6000, STEPS],
    ['one endpoint with too many', 200, 2, 6000, STEPS.slice(0, 4)],
    ['more addresses than are remembered', 1500, 300, 12_000, [0, 0, 0, 0, 1, 1000]],
    ['many that settle', 1100, 400, 20_000, [0, 0, 1, 500]],
    ['many that settle, and fall silent', 1300, 500, 12_000, [0, 10_000, 20_000]],
  ] as const)('%s', (_, macs, endpoints, count, steps) => {
    const random = new Random(SEED)
    const script = new Script()
    const [owned, foreign] = [random.fork(), random.fork()]
    for (let i = 0; i < count; i++) {
      script.nowUs += steps[random.below(steps.length)]!
      const mac = owned.below(macs)
      // Mostly its own endpoint, so that addresses live long enough to settle.
      const isClaim = foreign.chance(0.1)
      script.hear(mac, endpointOf(isClaim ? foreign.below(endpoints) : mac % endpoints))
      if (i % 7 === 0) script.find(random.below(macs))
      if (i % 500 === 0) script.all()
    }
    script.all()
    for (let mac = 0; mac < macs; mac++) script.find(mac)
    const answers = script.answers()
    const at = answers.findIndex((answer, i) => answer !== script.wanted[i])
    expect(answers.length).toBe(script.wanted.length)
    expect(at, `SEED=${SEED}: ${script.lines[at]}: ${answers[at]}, not ${script.wanted[at]}`).toBe(
      -1,
    )
    expect(script.wanted).toContain('0')
  })
})
