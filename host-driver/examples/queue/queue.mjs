/**
 * One host puts numbers into a queue, another one adds them up, and both meet a power cut:
 *
 *     node queue.mjs [TARGET [TARGET OF THE CONSUMER]]
 *
 * Of one card the consumer may be its own host, pcie:FILE: then the card notifies it.
 */

import { connect, PcieDevice } from 'perdure'
import { openCard } from '../card.mjs'
import { Bell } from './bell.mjs'
import { RecordQueue } from './record-queue.mjs'

const REGION = { name: 'example-queue', slots: 65, capacity: 64 }
const COUNT = 6

const card = await openCard(process.argv[2])
const device = card.port === null ? null : await PcieDevice.open(card.port)
const producer = await connect(card.target)
const consumer = await connect(device ?? process.argv[3] ?? card.target)
const queue = await RecordQueue.open(await producer.provision(REGION))
const region = await consumer.openRegion(REGION.name)
const bell = await Bell.open(region)
console.log(`the consumer is ${bell.isNotified ? 'notified' : 'not notified, and looks again'}`)

/** Takes items until so many are added up. */
const addUp = async () => {
  const inbox = await RecordQueue.open(region)
  for (let added = 0; added < COUNT; ) {
    const item = await inbox.take()
    if (item === null) {
      await bell.wait()
      continue
    }
    const before = item.state.length === 0 ? 0 : Number(Buffer.from(item.state))
    const sum = before + Number(Buffer.from(item.data))
    if (!(await item.done(Buffer.from(String(sum))))) continue // another consumer has done it
    added++
    console.log(`item ${item.number} is done: the sum is ${sum}`)
  }
}

const ended = addUp()
const cut = card.cutPower?.(4)
for (let value = 1; value <= COUNT; value++) {
  await queue.push(Buffer.from(String(value)))
}
await ended
if (cut !== undefined) {
  await cut
  console.log('meanwhile the power had gone inside the commit of item 3')
}
await bell.close()
for (const dpu of [consumer, producer]) await dpu.close()
device?.close()
await card.close()
