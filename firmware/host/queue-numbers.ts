/**
 * Which numbers of queues are in use: a bit for each, and a bit for each word of them that is full.
 *
 * Invariant: a number that is free is found in as many steps as there are words of the
 * second kind, however many queues there are; a number that was given back is not soon given again.
 */

import { HOST_QUEUES } from '../board/limits.ts'
import { FIRST_QUEUE } from './header-page.ts'

const WORDS = HOST_QUEUES / 32

export interface QueueNumbers {
  readonly used: Int32Array
  readonly full: Int32Array
  /** In use. */
  count: number
  /** Where the search begins. */
  next: number
}

export function createQueueNumbers(): QueueNumbers {
  const numbers = {
    used: new Int32Array(WORDS),
    full: new Int32Array(WORDS / 32),
    count: 0,
    next: 0,
  }
  resetNumbers(numbers)
  return numbers
}

/** Only the queues of management are in use. */
export function resetNumbers(numbers: QueueNumbers): void {
  numbers.used.fill(0)
  numbers.full.fill(0)
  numbers.used[0] = 2 ** FIRST_QUEUE - 1
  numbers.count = FIRST_QUEUE
  numbers.next = FIRST_QUEUE
}

/** Takes a free number below `queues`; -1 if there is none. */
export function takeNumber(numbers: QueueNumbers, queues: number): number {
  let number = freeNumberFrom(numbers, numbers.next)
  if (number < 0 || number >= queues) number = freeNumberFrom(numbers, 0)
  if (number < 0 || number >= queues) return -1
  const word = number >> 5
  numbers.used[word]! |= 1 << (number & 31)
  if (numbers.used[word] === -1) numbers.full[word >> 5]! |= 1 << (word & 31)
  numbers.count += 1
  numbers.next = number + 1 < queues ? number + 1 : 0
  return number
}

/** Gives back a number that is in use. */
export function giveNumber(numbers: QueueNumbers, number: number): void {
  const word = number >> 5
  numbers.used[word]! &= ~(1 << (number & 31))
  numbers.full[word >> 5]! &= ~(1 << (word & 31))
  numbers.count -= 1
}

export function isNumberUsed(numbers: QueueNumbers, number: number): boolean {
  if (number >= HOST_QUEUES) return false
  return (numbers.used[number >> 5]! & (1 << (number & 31))) !== 0
}

/** The first free number that is not below `from`, or -1. */
function freeNumberFrom(numbers: QueueNumbers, from: number): number {
  const word = from >> 5
  const here = ~numbers.used[word]! & (-1 << (from & 31))
  if (here !== 0) return word * 32 + lowestBit(here)
  const first = word + 1
  for (let i = first >> 5; i < numbers.full.length; i++) {
    const mask = i === first >> 5 ? -1 << (first & 31) : -1
    const open = ~numbers.full[i]! & mask
    if (open === 0) continue
    const found = i * 32 + lowestBit(open)
    return found * 32 + lowestBit(~numbers.used[found]!)
  }
  return -1
}

function lowestBit(bits: number): number {
  return 31 - Math.clz32(bits & -bits)
}
