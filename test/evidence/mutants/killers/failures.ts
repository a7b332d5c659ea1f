/** The name of an operation: the board fails at each of its calls in turn, until one is noticed. */

import { hostOperations } from '../../failures/hosted.ts'
import { partOperations } from '../../failures/operations.ts'
import { failuresOf, playFailure, playPlain } from '../../failures/walk.ts'
import type { Judged } from '../../failures/world.ts'
import type { Play } from '../killer.ts'

export const play: Play = (argument) => {
  const all = [...partOperations(), ...hostOperations()]
  const operation = all.find(({ name }) => name === argument)
  if (operation === undefined) throw new Error(`no operation is called ${argument}`)
  const judged: Judged = new Map()
  const plain = playPlain(operation, judged)
  if (plain.complaints.length > 0) return `no failure: ${plain.complaints[0]}`
  for (const failure of failuresOf(plain)) {
    const { complaints } = playFailure(operation, failure, judged)
    const { kind, k, lasting } = failure
    if (complaints.length > 0)
      return `${kind} at ${k}${lasting ? ', lasting' : ''}: ${complaints[0]}`
  }
  return null
}
