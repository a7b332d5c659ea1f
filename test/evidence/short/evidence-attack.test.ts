/**
 * The short cut of stage C13, somebody inside the network; that what he sends looks right; and that
 * the judges of sessions notice what they are there for.
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { icrcGood } from '../../../boards/software/icrc.ts'
import { Tags } from '../../../boards/software/tags.ts'
import { THOROUGH } from '../../support/run/thorough.ts'
import { tagged } from '../../support/sessions/tagged.ts'
import { datagram } from '../simulate/card.ts'
import { ATTACKS, Attacker } from '../simulate/closed/attacker.ts'
import { cardKey, keysOfHost } from '../simulate/closed/identities.ts'
import { PeerEnd, TagEnd } from '../simulate/closed/peer-end.ts'
import { ATTACK } from '../simulate/closed/stage.ts'
import { Path, put32, seal } from '../simulate/frames.ts'
import { Lane } from '../simulate/network.ts'
import { playSeed } from '../simulate/play.ts'
import { missed, playAll } from '../stage.ts'

const SEED = Number(process.env.SEED ?? 20266)
const KEYS = Uint8Array.from({ length: 64 }, (_, i) => i)
const ACK = 0x11
const PERSIST_ACK = 0xd1
const WRITE_ONLY = 0x0a

test('the short cut finds nothing, and meets what it has to', THOROUGH, async () => {
  const total = await playAll(ATTACK, 'cut', SEED)
  expect(total.described).toEqual([])
  expect(total.violations).toBe(0)
  expect(missed(ATTACK, total, 'cut')).toEqual([])
  expect(ATTACK.lacks!(total, 'cut')).toEqual([])
})

test('a seed gives the same trace again, attacked or not, and the two differ', async () => {
  const options = { steps: 25, world: 'mixed', trace: true } as const
  const once = await playSeed(SEED, { ...options, attacked: true })
  expect(await playSeed(SEED, { ...options, attacked: true })).toEqual(once)
  expect((await playSeed(SEED, options)).hash).not.toBe(once.hash)
})

/** A packet to a queue pair, or an answer. */
function packet(opcode: number, psn: number, queuePair = 0x1234): Uint8Array {
  const frame = new Path(1, 0).begin(opcode, queuePair, psn, false, 36, 64)
  frame.fill(psn, 54, 54 + 100)
  return seal(frame)
}

test('whatever the attacker sends has a right ICRC, and he tries all that he knows', () => {
  const attacker = new Attacker(new Random(SEED), false)
  const [card, host] = [new Lane(true), new Lane(false)]
  const tags = new Tags(KEYS.slice(32), KEYS.slice(0, 32))
  for (let psn = 0; psn < 600; psn++) {
    const call = datagram(new Path(1, 0), 0x100, psn, 2, 0x20, 0, () => {})
    for (const to of [card, host]) {
      attacker.meet(to, call)
      attacker.meet(to, tagged(packet(WRITE_ONLY, psn, psn % 30), tags))
      attacker.meet(to, tagged(packet(psn % 2 === 0 ? ACK : PERSIST_ACK, psn), tags))
    }
  }
  expect(ATTACKS.filter((attack) => attacker.counts[attack] === 0)).toEqual([])
  const frames = [...card.frames, ...host.frames]
  expect(frames.length).toBeGreaterThan(3_600)
  for (const frame of frames) expect(icrcGood(frame, 0, frame.length)).toBe(true)
})

describe('the judges of sessions', () => {
  const blamed = (): { said: string[]; blame: (what: string) => void } => {
    const said: string[] = []
    return { said, blame: (what) => void said.push(what) }
  }
  const cards = new Tags(KEYS.slice(0, 32), KEYS.slice(32))

  test('notice a packet that its card did not send, however good its tag is', () => {
    const end = new TagEnd(KEYS, () => {})
    const { said, blame } = blamed()
    const [sent, forged] = [tagged(packet(ACK, 1), cards), tagged(packet(ACK, 2), cards)]
    end.heard.add(sent)
    expect(end.open(sent, blame)).not.toBeNull()
    expect(said).toEqual([])
    expect(end.open(forged, blame)).not.toBeNull()
    expect(said).toEqual(['a client believes a packet that its card did not send'])
  })

  test('take no packet whose tag is another one, or that came before', () => {
    const end = new TagEnd(KEYS, () => {})
    const { said, blame } = blamed()
    const sent = tagged(packet(ACK, 1), cards)
    end.heard.add(sent)
    expect(end.open(packet(ACK, 1), blame)).toBeNull()
    expect(end.open(sent, blame)).not.toBeNull()
    expect(end.open(sent, blame)).toBeNull()
    expect(said).toEqual([])
  })

  test('believe nothing outside of a session, and begin none with an answer nobody made', () => {
    const end = new PeerEnd(keysOfHost(1), cardKey(0), new Random(SEED))
    const { said, blame } = blamed()
    end.hello()
    const welcome = datagram(new Path(1, 0), 0x100, 1, 0x81, 0x80, 0, (body) => body.fill(9))
    expect(end.open(welcome, blame)).toBeNull()
    expect(end.isIn).toBe(false)
    const answer = datagram(new Path(1, 0), 0x100, 1, 0x81, 0x20, 0, (body) => put32(body, 24, 7))
    expect(end.open(answer, blame)).toBeNull()
    expect(said).toEqual([])
  })
})
