/** The figures that a card keeps of what it has acknowledged, as FIGURES tells them. */

import { u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import type { Conversation } from '../wire/conversation.ts'

interface CardFigures {
  readonly region: number
  readonly bursts: number
  readonly fences: number
  readonly acks: number
  readonly bytes: number
  readonly timeUs: number
  /** How often, by the number of the bucket; those that are not empty. */
  readonly buckets: Readonly<Record<number, number>>
}

/** Who asks: a card that nobody in particular talks to, or somebody who talks to it. */
type Asked = Pick<Conversation, 'must'>

export function asksFigures(name: string, first = 0): (body: Uint8Array) => void {
  return (body) => {
    body.set(new TextEncoder().encode(name), mad.REGION_NAME)
    body[mad.FIGURES_FIRST_BUCKET] = first
  }
}

function u64(bytes: Uint8Array, at: number): number {
  return u32(bytes, at) * 2 ** 32 + u32(bytes, at + 4)
}

/** What is told of the region of that name, page by page; '' is the card alone. */
export function figuresOf(card: Asked, name = 'records'): CardFigures {
  const buckets: Record<number, number> = {}
  for (let first = 0; ; ) {
    const ask = asksFigures(name, first)
    const body = card.must(mad.METHOD_GET, mad.ATTRIBUTE_FIGURES, ask)
    for (let i = 0; i < body[mad.FIGURES_HERE]!; i++) {
      const at = mad.FIGURES_BUCKETS + i * mad.FIGURES_BUCKET_BYTES
      buckets[body[at]!] = (u32(body, at) % 2 ** 24) * 2 ** 32 + u32(body, at + 4)
    }
    first = body[mad.FIGURES_NEXT]!
    if (first > 0) continue
    return {
      region: u32(body, mad.FIGURES_REGION),
      bursts: u64(body, mad.FIGURES_BURSTS),
      fences: u64(body, mad.FIGURES_FENCES),
      acks: u64(body, mad.FIGURES_ACKS),
      bytes: u64(body, mad.FIGURES_BYTES),
      timeUs: u64(body, mad.FIGURES_TIME),
      buckets,
    }
  }
}

/** How many acknowledgements, and of how many bytes. */
export function countsOf(card: Asked, name = 'records'): [count: number, bytes: number] {
  const { bytes, buckets } = figuresOf(card, name)
  return [Object.values(buckets).reduce((all, one) => all + one, 0), bytes]
}
