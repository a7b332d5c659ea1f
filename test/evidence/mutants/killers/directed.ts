/** The short plays, by name. */

import type { Play } from '../killer.ts'
import { BATCHES } from '../plays/batch.ts'
import { DIALOGUES } from '../plays/dialogue.ts'
import { DURABLE } from '../plays/durable.ts'
import { HOSTILE } from '../plays/hostile.ts'
import { HOSTS } from '../plays/hosts.ts'
import { LOST } from '../plays/lost.ts'
import { DECAY, SLOTS } from '../plays/media.ts'
import { PEERS } from '../plays/peers.ts'
import { QUEUES } from '../plays/queues.ts'
import { RELAYS } from '../plays/relays.ts'
import { SESSIONS } from '../plays/sessions.ts'
import { SETTLED } from '../plays/settle.ts'
import { SICK } from '../plays/sick.ts'
import { STARTS } from '../plays/starts.ts'
import { STOCK } from '../plays/stock.ts'
import { STRANGERS } from '../plays/strangers.ts'
import { TABLE_PLAYS } from '../plays/table.ts'

const PLAYS: Readonly<Record<string, Play>> = {
  ...DECAY,
  ...SLOTS,
  ...TABLE_PLAYS,
  ...DIALOGUES,
  ...HOSTILE,
  ...LOST,
  ...DURABLE,
  ...SICK,
  ...STARTS,
  ...BATCHES,
  ...QUEUES,
  ...HOSTS,
  ...SETTLED,
  ...STRANGERS,
  ...SESSIONS,
  ...STOCK,
  ...PEERS,
  ...RELAYS,
}

export const play: Play = (argument) => {
  const found = PLAYS[argument]
  if (found === undefined) throw new Error(`no play is called ${argument}`)
  return found(argument)
}
