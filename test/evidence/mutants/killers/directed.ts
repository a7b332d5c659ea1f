/** The short plays, by name. */

import type { Play } from '../killer.ts'
import { DIALOGUES } from '../plays/dialogue.ts'
import { DURABLE } from '../plays/durable.ts'
import { HOSTILE } from '../plays/hostile.ts'
import { DECAY, SLOTS } from '../plays/media.ts'
import { SICK } from '../plays/sick.ts'
import { TABLE_PLAYS } from '../plays/table.ts'

const PLAYS: Readonly<Record<string, Play>> = {
  ...DECAY,
  ...SLOTS,
  ...TABLE_PLAYS,
  ...DIALOGUES,
  ...HOSTILE,
  ...DURABLE,
  ...SICK,
}

export const play: Play = (argument) => {
  const found = PLAYS[argument]
  if (found === undefined) throw new Error(`no play is called ${argument}`)
  return found(argument)
}
