/**
 * Sets and reads values, has two clients change one at once, and loses the power inside a commit:
 *
 *     node store.mjs [TARGET]
 */

import { connect } from 'perdure'
import { openCard } from '../card.mjs'
import { Conflict, KeyValueStore } from './key-value-store.mjs'

const REGION = { name: 'example-store', slots: 512, capacity: 256 }

const card = await openCard(process.argv[2])
const ann = await connect(card.target)
const bob = await connect(card.target)
const store = new KeyValueStore(await ann.provision(REGION))
const other = new KeyValueStore(await bob.openRegion(REGION.name))

/** @param {string} key */
const show = async (key) => {
  const found = await store.get(key)
  console.log(`${key} is ${found === null ? 'not there' : Buffer.from(found.value)}`)
}

await store.set('colour', Buffer.from('red'))
await show('colour')

// Both have read the same version: one of them is first.
const read = await other.get('colour')
await store.set('colour', Buffer.from('green'))
try {
  await other.set('colour', Buffer.from('blue'), { version: read?.version ?? null })
} catch (error) {
  if (!(error instanceof Conflict)) throw error
  console.log(`the other client: ${error.message}`)
}
await show('colour')

const cut = card.cutPower?.(1)
const set = store.set('colour', Buffer.from('white'))
if (cut !== undefined) {
  await cut
  console.log('the power went inside the commit of white')
}
await set // the driver goes on by itself when the card is back
await show('colour')

await store.delete('colour')
await show('colour')
for (const dpu of [ann, bob]) await dpu.close()
await card.close()
