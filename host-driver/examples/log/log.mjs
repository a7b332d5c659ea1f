/**
 * Appends to a log, loses the power of the card inside a commit, and reads the log again:
 *
 *     node log.mjs [TARGET]
 */

import { connect } from 'perdure'
import { openCard } from '../card.mjs'
import { AppendLog } from './append-log.mjs'

const card = await openCard(process.argv[2])
const dpu = await connect(card.target)
const region = await dpu.provision({ name: 'example-log', slots: 1024, capacity: 256 })

/**
 * @param {AppendLog} log
 * @param {readonly string[]} words
 */
const appendAll = (log, words) => Promise.all(words.map((word) => log.append(Buffer.from(word))))

const log = await AppendLog.open(region)
const first = await appendAll(log, ['open', 'read', 'write'])
console.log(`entries ${first.join(', ')} are durable`)

const cut = card.cutPower?.(3)
const second = appendAll(log, ['seek', 'sync', 'close', 'open', 'link'])
if (cut !== undefined) {
  await cut
  console.log('the power went inside the commit of the third of five entries')
}
console.log(`entries ${(await second).join(', ')} are durable`)

const again = await AppendLog.open(region) // as the next program does
console.log(`the log has ${again.length} entries; the last of them:`)
for await (const { index, data } of again.entries({ from: again.length - 8 })) {
  console.log(`  ${index} ${Buffer.from(data)}`)
}
await dpu.close()
await card.close()
