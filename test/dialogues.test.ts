/**
 * The conversations that were recorded against Linux, held with our core: every field of every
 * answer is the recorded one (wire-format 10; IP identification and source port are ours).
 */

import { expect, test } from 'vitest'
import { blankAeth, readAeth } from '../firmware/wire/aeth.ts'
import { blankBth, readBth } from '../firmware/wire/bth.ts'
import { icrcReference } from '../firmware/wire/icrc.ts'
import type { Sent } from './support/card.ts'
import { Dialogue, scenarioOf } from './support/dialogue.ts'
import { hexOf, icrcIn } from './support/frames.ts'

function hexNumber(value: number, digits: number): string {
  return `0x${value.toString(16).padStart(digits, '0')}`
}

/** The fields of an answer, named and written as the vectors do. */
function decoded(frame: Sent): Record<string, unknown> {
  const { bytes, packet } = frame
  const row = packet.row!
  const bth = blankBth()
  readBth(bth, bytes, packet.bthAt)
  const aeth = blankAeth()
  if (row.aethAt !== 0) readAeth(aeth, bytes, packet.bthAt + row.aethAt)
  const flags = bytes[packet.bthAt + 1]!
  const notification = bytes[packet.bthAt + 4]!
  return {
    opcode: hexNumber(bth.opcode, 2),
    name: row.name,
    se: bth.solicited ? 1 : 0,
    migreq: (flags >> 6) & 1,
    pad: bth.padBytes,
    tver: bth.version,
    pkey: hexNumber(bth.pkey, 4),
    fecn: notification >> 7,
    becn: (notification >> 6) & 1,
    destQp: hexNumber(bth.destQp, 6),
    ackReq: bth.ackRequest ? 1 : 0,
    psn: hexNumber(bth.psn, 6),
    aeth: {
      syndrome: hexNumber(aeth.syndrome, 2),
      kind: ['ACK', 'RNR', '', 'NAK'][aeth.syndrome >> 5],
      value: aeth.syndrome & 31,
      msn: aeth.msn,
    },
    payloadLen: packet.payloadLength,
    payloadOffsetFromBth: packet.payloadAt - packet.bthAt,
    payload: hexOf(frame.payload),
  }
}

for (const name of ['duplicate-write', 'sequence-nak-once', 'psn-wrap']) {
  test(`the dialogue ${name} goes as it was recorded, field by field`, () => {
    const { beginning, steps } = scenarioOf(name)
    const dialogue = new Dialogue(beginning, steps[0]!.frame)
    steps.forEach((step, i) => {
      const answers = dialogue.serve(step.frame)
      expect(answers.map(decoded), `step ${i + 1}: ${step.note}`).toEqual(step.answers)
    })
  })

  test(`the dialogue ${name} in one burst leaves the same memory and the same last word`, () => {
    const { beginning, steps } = scenarioOf(name)
    const one = new Dialogue(beginning, steps[0]!.frame)
    const all = new Dialogue(beginning, steps[0]!.frame)
    let last: Sent[] = []
    for (const step of steps) last = one.serve(step.frame)
    const answers = all.serve(...steps.map((step) => step.frame))
    expect(hexOf(all.content())).toBe(hexOf(one.content()))
    expect(decoded(answers.at(-1)!)).toEqual(decoded(last.at(-1)!))
  })
}

test('every answer carries the standard ICRC and goes back where its request came from', () => {
  const { beginning, steps } = scenarioOf('duplicate-write')
  const dialogue = new Dialogue(beginning, steps[0]!.frame)
  for (const { bytes, packet } of dialogue.serve(...steps.map((step) => step.frame))) {
    expect(icrcIn(bytes, packet)).toBe(icrcReference(bytes, 0, bytes.length))
    expect(hexOf(bytes.slice(0, 12))).toBe('020000000001020000000002')
    expect(hexOf(bytes.slice(26, 34))).toBe('0a0000020a000001')
  }
})
