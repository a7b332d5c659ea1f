/**
 * Keeps records on two cards. One of them loses its power inside a commit, and never comes back:
 *
 *     node two-cards.mjs [TARGET TARGET]
 */

import { connect } from 'perdure'
import { openCard } from '../card.mjs'
import { Mirror } from './mirror.mjs'

const REGION = { name: 'example-mirror', slots: 64, capacity: 256 }

const cards = [await openCard(process.argv[2]), await openCard(process.argv[3])]
// How long a card may be away before a write to it is given up.
const dpus = await Promise.all(cards.map((c) => connect(c.target, { reconnectTimeoutMs: 5000 })))
const [first, second] = await Promise.all(dpus.map((dpu) => dpu.provision(REGION)))
if (first === undefined || second === undefined) throw new Error('two cards are needed')
let mirror = new Mirror([first, second])

for (const [slot, word] of ['north', 'east', 'south'].entries()) {
  await mirror.write(slot, Buffer.from(word))
  console.log(`record ${slot} is durable on both cards`)
}

const cut = cards[0]?.cutPower?.(1, false)
try {
  await mirror.write(2, Buffer.from('west'))
  console.log('record 2 is durable on both cards')
} catch (error) {
  console.log(`record 2: ${error instanceof Error ? error.name : error}`)
}
if (cut !== undefined) {
  await cut
  console.log('the first card has no power any more: going on with the second one')
  mirror = mirror.without(first)
}

for (const slot of [0, 1, 2]) {
  console.log(`record ${slot} is ${Buffer.from((await mirror.read(slot)) ?? [])}`)
}
await mirror.write(2, Buffer.from('up'))
console.log(`record 2 is ${Buffer.from((await mirror.read(2)) ?? [])}`)
await Promise.all(dpus.map((dpu) => dpu.close()))
await Promise.all(cards.map((card) => card.close()))
