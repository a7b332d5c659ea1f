/**
 * `OPERATION PLACEMENT LEVEL PARTY BACK STRIDE`: that party goes at one in so many steps, with two
 * choices of what survives (C11).
 */

import { playScript } from '../../host/play.ts'
import { scriptOf } from '../../host/stage.ts'
import type { Play } from '../killer.ts'

const CHOICES = 2

export const play: Play = (argument) => {
  const [operation, placement, level, party, back, stride] = argument.split(' ')
  const first = `${operation} ${placement} ${level} 0`
  const { complaints, steps } = playScript(scriptOf(`${first} - at-once -`))
  if (complaints.length > 0) return `nobody went: ${complaints[0]}`
  for (let step = 0; step <= steps; step += Number(stride)) {
    for (let choice = 0; choice < CHOICES; choice++) {
      const line = `${first} ${party}@${step}/${choice} ${back} -`
      const [complaint] = playScript(scriptOf(line)).complaints
      if (complaint !== undefined) return `${line}: ${complaint}`
    }
  }
  return null
}
