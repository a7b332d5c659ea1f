/**
 * Walks one operation: with a failure at every command that it gives the board, of every kind that
 * the command may fail with, once and lasting.
 *
 * Invariant: the walk ends when it has passed the last command of the operation as it is
 * without failures; what a failure makes the firmware do besides is met by the failures that last.
 */

import { BoardThrew, FailingBoard, type Failure, type FailureKind, KINDS } from './board.ts'
import { WentDark } from './card.ts'
import type { Operation } from './operations.ts'
import type { Counts, Judged } from './world.ts'

interface Trial {
  readonly operation: string
  readonly failure: Failure
  readonly complaints: readonly string[]
  readonly struck: number
  readonly counts: Counts
}

/** How an operation goes without failures. */
interface Plain {
  readonly kinds: readonly (readonly FailureKind[])[]
  readonly lists: number
  readonly complaints: readonly string[]
}

export function playPlain(operation: Operation, judged: Judged): Plain {
  const world = operation.begin(judged)
  let board: FailingBoard | null = null
  world.play((machine) => {
    board = new FailingBoard(machine, null)
  })
  const { kinds, lists, heal } = board!
  const during = kinds.slice()
  heal.call(board)
  return { kinds: during, lists, complaints: world.judge(true, false) }
}

/** What ends there and then, however long it lasts. */
function isFinal(kind: FailureKind): boolean {
  return kind === 'power' || kind === 'throws'
}

/** Where nothing can be read, or nothing is what it is, a record may be given up: by name. */
function mayLose({ kind, lasting }: Failure): boolean {
  return lasting && (kind === 'media' || kind === 'different')
}

/** Every failure of an operation, in the order of its commands. */
export function failuresOf(plain: Plain): Failure[] {
  return plain.kinds.flatMap((kinds, k) => {
    return KINDS.filter((kind) => kinds.includes(kind)).flatMap((kind) => {
      const once = { k, kind, lasting: false }
      return isFinal(kind) ? [once] : [once, { ...once, lasting: true }]
    })
  })
}

export function playFailure(operation: Operation, failure: Failure, judged: Judged): Trial {
  const world = operation.begin(judged)
  const complaints: string[] = []
  let board: FailingBoard | null = null
  let goesOn = !isFinal(failure.kind)
  try {
    world.play((machine) => {
      board = new FailingBoard(machine, failure)
    })
  } catch (error) {
    goesOn = false
    if (!(error instanceof BoardThrew || error instanceof WentDark))
      complaints.push(`it throws: ${sentence(error)}`)
  }
  try {
    complaints.push(...world.judge(goesOn, mayLose(failure)))
  } catch (error) {
    complaints.push(`afterwards it throws: ${sentence(error)}`)
  }
  const struck = (board as FailingBoard | null)?.struck ?? 0
  return { operation: operation.name, failure, complaints, struck, counts: world.counts }
}

function sentence(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const [, first = ''] = (error.stack ?? '').split('\n    at ')
  return `${error.message} (${first.trim()})`
}
