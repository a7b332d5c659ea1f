import { expect, test } from 'vitest'
import { Card, dataOf, persistFrames, persistAcks, readFrame } from './support/card.ts'
import { slotOffset, lines, firstDifference } from './support/requests.ts'
test('frames', () => {
  const card = new Card().format()
  const region = card.provision({ slots: 40 })
  const qps = Array.from({ length: 32 }, () => card.connect())
  for (const slot of [3, 9, 20]) card.nvdimm.refuseWrites(slotOffset(region, 1, slot) / 64)
  const sent = card.serve(...qps.flatMap((qp, i) => persistFrames(qp, region, i, dataOf(64, i))))
  const said = new Map(qps.map((qp) => [qp.peer, lines(sent.filter((s) => s.packet.destQp === qp.peer), (qp.psn-1)&0xffffff)]))
  console.log([...said.values()].map((l, i) => i + ' ' + l.join(' | ')).join('\n'))
  for (let i = 0; i < 32; i++) {
    const a = slotOffset(region, 0, i), b = slotOffset(region, 1, i)
    const A = card.nvdimm.durable.slice(a, a + 128), B = card.nvdimm.durable.slice(b, b + 128)
    if (firstDifference(A, B) !== -1) console.log('differs', i)
  }
})
