/** A driver and a card with peers: who comes with which key may do what (R1-S13). */

import { afterEach, describe, expect, test } from 'vitest'
import { connect } from '../../../host-driver/connect.ts'
import type { Dpu } from '../../../host-driver/dpu.ts'
import type { LocalDpu } from '../../../host-driver/local.ts'
import type { ConnectOptions } from '../../../host-driver/way/options.ts'
import { failure } from '../../support/driver/failures.ts'
import { localParts } from '../../support/driver/local-parts.ts'
import { ADMIN, CARD, IDENTITY, NOBODY, READER, WRITER } from '../../support/sessions/peers.ts'

const openPart = localParts()
const open: Dpu[] = []
const QUIET = { warn: (): void => {} }
const SHAPE = { name: 'records', slots: 8, capacity: 64 }
const BYTES = new Uint8Array(64).fill(0x5a)

afterEach(async () => {
  for (const dpu of open.splice(0)) await dpu.close()
})

function closedPart(): Promise<LocalDpu> {
  return openPart({ identity: IDENTITY })
}

async function come(
  local: LocalDpu,
  keys: { readonly secret: Uint8Array },
  options: ConnectOptions = {},
): Promise<Dpu> {
  const session = { key: keys.secret, cardKey: CARD.public }
  const dpu = await connect(local.wire, { seed: 3, ...QUIET, ...session, ...options })
  open.push(dpu)
  return dpu
}

describe('a card with peers', () => {
  test('is formatted, and given regions, by an admin', async () => {
    const local = await closedPart()
    const admin = await come(local, ADMIN)
    expect((await admin.status()).state).toBe('blank')
    await admin.format()
    await admin.close()
    const again = await come(local, ADMIN)
    const region = await again.provision(SHAPE)
    expect((await region.persist(3, BYTES).persisted).copies).toBe(2)
    expect((await region.read(3)).data).toEqual(BYTES)
  })
})
