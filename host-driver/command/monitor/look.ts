/** What one look at a card has found: what it tells of itself, or that it does not answer. */

import type { Rates } from './rates.ts'
import type { Sample } from './sample.ts'

/** A card that has answered. */
export interface UpLook {
  readonly target: string
  /** Ms since 1970. */
  readonly atMs: number
  readonly up: true
  readonly sample: Sample
  /** Since the look before; null of the first one, and of the first after a start or an absence. */
  readonly rates: Rates | null
}

/** A card that has not. */
export interface DownLook {
  readonly target: string
  readonly atMs: number
  readonly up: false
  /** Why, in words, and as the code of the error. */
  readonly reason: string
  readonly code: string
  /** When the first look in a row failed, ms since 1970. */
  readonly sinceMs: number
}

export type Look = UpLook | DownLook

export type Gravity = 'info' | 'warning' | 'critical'

/** Something that an operator has to hear of. */
export interface HealthEvent {
  readonly target: string
  readonly atMs: number
  readonly event: EventName
  readonly gravity: Gravity
  readonly text: string
}

/** Names of events: those who read JSON go by them. */
export type EventName =
  | 'gone'
  | 'back'
  | 'restart'
  | 'part'
  | 'recovery'
  | 'state'
  | 'armed'
  | 'save'
  | 'media'
  | 'lost'
  | 'mended'
  | 'superblock'
  | 'region'
  | 'firmware'
