/**
 * What is said when a `persist` ends before its end: how much is durable, and what goes on.
 */

import type { Output } from '../base/output.ts'

/** How far it is: records durable, as the card has acknowledged them, from the first one on. */
export interface Reached {
  durable: number
  readonly records: number
  /** Slot of the first one. */
  readonly slot: number
}

/** What there is to type next: it goes on, or begins again where nobody can read what is there. */
export interface GoOn {
  readonly line: string
  readonly resumes: boolean
}

export function sayStopped(output: Output, reached: Reached, { line, resumes }: GoOn): void {
  const { durable, records, slot } = reached
  if (output.json) {
    output.sayJson({ stopped: { durable, records, firstSlot: slot, goOn: line } })
    return
  }
  const where = durable === 0 ? '' : `, in slots ${slot} to ${slot + durable - 1}`
  const how = resumes ? 'this goes on' : 'this begins again'
  output.say(`stopped   ${durable} of ${records} records are durable${where}; ${how}:`)
  output.say(`  ${line}`)
}

/** What goes on behind that command line, as a shell takes it. */
export function goingOn([command, ...words]: readonly string[], resumes: boolean): GoOn {
  const all = !resumes || words.includes('--resume') ? words : ['--resume', ...words]
  return { line: ['perdure', command!, ...all].map(quoted).join(' '), resumes }
}

function quoted(word: string): string {
  if (/^[\w@%+=:,./[\]-]+$/.test(word)) return word
  return `'${word.replaceAll("'", String.raw`'\''`)}'`
}
