/**
 * A card with peers, its guests, and regions: `records` and `bytes` of one writer and a reader,
 * `other` and `other bytes` of another writer.
 */

import type { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { bootDirect } from '../../../boards/emulator/run/direct.ts'
import type { Identity } from '../../../firmware/board/hal.ts'
import type { State } from '../../../firmware/core.ts'
import type { KeyPair } from '../../../firmware/session/noise.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { TestCard, type TestCardOptions } from '../cards/test-card.ts'
import { Guest } from './guest.ts'
import { ADMIN, CARD, keyPair, peer, READER, WRITER } from './peers.ts'

/** A second admin, and who may write what the first writer may not. */
export const ADMIN_2: KeyPair = keyPair(5)
const OTHER_WRITER: KeyPair = keyPair(6)

/** WRITER and READER have `records` and `bytes`; OTHER_WRITER the others. */
export const IDENTITY: Identity = {
  secret: [...CARD.secret],
  peers: [
    peer('admin', ADMIN, { admin: true }),
    peer('writer', WRITER, { write: ['records', 'bytes'] }),
    peer('reader', READER, { read: ['records', 'bytes'] }),
    peer('admin 2', ADMIN_2, { admin: true }),
    peer('other writer', OTHER_WRITER, { write: ['other', 'other bytes'] }),
  ],
}

/** The card; `state` is that of its firmware. */
interface ClosedCard {
  readonly card: TestCard
  readonly state: State
}

export function closedCard(
  part: Nvdimm | number = 1 << 20,
  options: TestCardOptions = {},
): ClosedCard {
  let state: State | null = null
  const card = new TestCard(part, {
    start: (machine) =>
      bootDirect(machine, (seen) => {
        state = seen
      }),
    ...options,
    facts: { identity: IDENTITY, ...options.facts },
  })
  return { card, state: state! }
}

export interface Guests extends ClosedCard {
  readonly admin: Guest
  readonly writer: Guest
  readonly reader: Guest
  readonly other: Guest
}

/** The same, formatted, with the regions, and a guest of each kind in a session. */
export function guests(): Guests {
  const closed = closedCard()
  const admin = new Guest(closed.card, ADMIN, 11).enter()
  admin.format()
  admin.provision()
  admin.provision({ name: 'other' })
  const area = { kind: mad.KIND_BYTES, length: 8192, flags: mad.REGION_WRITE_PERSIST }
  admin.provision({ name: 'bytes', ...area })
  admin.provision({ name: 'other bytes', ...area })
  const writer = new Guest(closed.card, WRITER, 12).enter()
  const reader = new Guest(closed.card, READER, 13).enter()
  const other = new Guest(closed.card, OTHER_WRITER, 14).enter()
  return { ...closed, admin, writer, reader, other }
}
