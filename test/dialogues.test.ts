/**
 * The conversations that were recorded against Linux, held with our core: every field of every
 * answer is the recorded one (wire-format 10; IP identification and source port are ours).
 */

import { describe, expect, test } from 'vitest'
import { icrcReference } from '../firmware/wire/icrc.ts'
import {
  ATOMIC,
  ATOMIC_WRITE,
  FLUSH,
  has,
  OPCODES,
  PAYLOAD_FULL,
  READ,
  RESPONSE,
} from '../firmware/wire/opcode.ts'
import type { Sent } from './support/card.ts'
import { Dialogue, fieldsOf, SCENARIOS, scenarioOf } from './support/dialogue.ts'
import { hexOf, icrcIn } from './support/frames.ts'
import { ENGINES, granted, openCard, Replay } from './support/replay.ts'
import { VECTORS, type Vector } from './support/vectors.ts'

describe('on a queue pair with the recorded numbers', () => {
  test.for(SCENARIOS)('the dialogue %s goes as it was recorded, field by field', (name) => {
    const { beginning, steps } = scenarioOf(name)
    const dialogue = new Dialogue(beginning, steps[0]!.frame)
    steps.forEach((step, i) => {
      const answers = dialogue.serve(step.frame)
      expect(answers.map(fieldsOf), `step ${i + 1}: ${step.note}`).toEqual(step.answers)
    })
  })

  test.for(SCENARIOS)('%s in one burst leaves the same memory and the same last word', (name) => {
    const { beginning, steps } = scenarioOf(name)
    const one = new Dialogue(beginning, steps[0]!.frame)
    const all = new Dialogue(beginning, steps[0]!.frame)
    let last: Sent | undefined
    for (const step of steps) last = one.serve(step.frame).at(-1) ?? last
    const answers = all.serve(...steps.map((step) => step.frame))
    expect(hexOf(all.content())).toBe(hexOf(one.content()))
    expect(fieldsOf(answers.at(-1)!)).toEqual(fieldsOf(last!))
  })
})

describe.each(ENGINES)('with a card that chose its own numbers, in %s', (engine) => {
  test.for(SCENARIOS)('the dialogue %s goes as it was recorded', async (name) => {
    const { beginning, steps } = scenarioOf(name)
    const { ask, card, dispose } = await openCard(engine)
    const replay = new Replay(ask, beginning, granted(ask, card, beginning, name === 'psn-wrap'))
    steps.forEach((step, i) => {
      expect(replay.serve(step.frame), `step ${i + 1}: ${step.note}`).toEqual(step.answers)
    })
    dispose()
  })
})

test('every answer carries the standard ICRC and goes back where its request came from', () => {
  const { beginning, steps } = scenarioOf('duplicate-write')
  const dialogue = new Dialogue(beginning, steps[0]!.frame)
  for (const { bytes, packet } of dialogue.serve(...steps.map((step) => step.frame))) {
    expect(icrcIn(bytes, packet)).toBe(icrcReference(bytes, 0, bytes.length))
    expect(hexOf(bytes.slice(0, 12))).toBe('020000000001020000000002')
    expect(hexOf(bytes.slice(26, 34))).toBe('0a0000020a000001')
  }
})

describe('every request of the vectors, as the first of its connection', () => {
  const MTU = 1024
  const READ_ONLY = 'RC RDMA READ Response Only'

  /** What the vectors say in words, and what the standard says of the others. */
  function expectedOf(vector: Vector): string {
    const row = OPCODES[Number(vector.decode.opcode)]!
    if (vector.icrcExpect === 'bad') return 'silence'
    if (vector.expect !== undefined) return /0x6\d/.exec(vector.expect)?.[0] ?? 'silence'
    if (vector.name.includes('misaligned') || !row.begins) return '0x61'
    if (vector.name.includes('badkey')) return '0x62'
    // The key that a SEND invalidates names no region here.
    if (row.iethAt !== 0) return '0x62'
    if (!row.ends && vector.decode.ackReq === 0) return 'silence'
    if (has(row.properties, ATOMIC)) return 'RC ATOMIC Acknowledge'
    if (has(row.properties, FLUSH) || has(row.properties, ATOMIC_WRITE)) return READ_ONLY
    if (!has(row.properties, READ)) return 'ACK'
    return Number(vector.decode.reth!.dmaLen) > MTU ? 'RC RDMA READ Response First' : READ_ONLY
  }

  const requests = VECTORS.filter(({ decode }) => {
    const row = OPCODES[Number(decode.opcode)]
    return row?.transport === 'rc' && !has(row.properties, RESPONSE)
  })

  test.for(requests)('$name', (vector) => {
    const { decode, bytes } = vector
    const at = decode.reth ?? decode.atomicEth
    const whole = OPCODES[Number(decode.opcode)]!.payload === PAYLOAD_FULL
    const va = BigInt(at?.va ?? 0)
    const refused = vector.expect?.includes('0x62') === true || vector.name.includes('badkey')
    const dialogue = new Dialogue(
      {
        localQp: Number(decode.destQp),
        remoteQp: 0x123456,
        expectedPsn: Number(decode.psn),
        pathMtu: whole ? decode.payloadLen : MTU,
        rkey: refused ? 0x00abcd76 : Number(at?.rkey ?? 0x00abcd77),
        vaHigh: Number(va >> 32n),
        vaLow: Number(va & 0xfffff000n),
        length: 16384,
      },
      bytes,
    )
    // One vector says that it met congestion, and is answered for that too.
    const answer = dialogue.serve(bytes).find(({ packet }) => packet.row!.transport === 'rc')
    const name = answer?.packet.row?.name ?? 'silence'
    const { syndrome = 0 } = answer ?? {}
    const plain = syndrome === 0x1f ? 'ACK' : `0x${syndrome.toString(16)}`
    expect(name === 'RC Acknowledge' ? plain : name).toBe(expectedOf(vector))
  })
})
