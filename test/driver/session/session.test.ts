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
/** Two connections from one seed would make one handshake. */
let nextSeed = 3
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
  const dpu = await connect(local.wire, { seed: nextSeed++, ...QUIET, ...session, ...options })
  open.push(dpu)
  return dpu
}

/** A formatted card, with two regions, and nobody connected. */
async function servedPart(): Promise<LocalDpu> {
  const local = await closedPart()
  const first = await come(local, ADMIN)
  await first.format()
  await first.close()
  const admin = await come(local, ADMIN)
  await admin.provision(SHAPE)
  await admin.provision({ ...SHAPE, name: 'others' })
  await admin.close()
  return local
}

describe('a card with peers', () => {
  test('R1-S13: is formatted, and given regions, by an admin', async () => {
    const local = await closedPart()
    const admin = await come(local, ADMIN)
    expect(await admin.status()).toMatchObject({ state: 'blank', access: 'peers' })
    await admin.format()
    await admin.close()
    const again = await come(local, ADMIN)
    const region = await again.provision(SHAPE)
    expect((await region.persist(3, BYTES).persisted).copies).toBe(2)
    expect((await region.read(3)).data).toEqual(BYTES)
  })

  test('R1-S13: turns away who has no key, an unknown one, or that of another card', async () => {
    const local = await servedPart()
    const plain = await failure(connect(local.wire, { seed: nextSeed++, ...QUIET }))
    expect(plain).toMatchObject({ code: 'PERDURE_REFUSED', fault: 'NO_SESSION' })
    expect(plain.message).toContain('perdure://KEY@host')
    const unknown = await failure(come(local, NOBODY))
    expect(unknown).toMatchObject({ code: 'PERDURE_REFUSED', fault: 'PEER_UNKNOWN' })
    expect(unknown.message).toContain('perdure key show')
    const other = await failure(come(local, ADMIN, { cardKey: WRITER.public }))
    expect(other).toMatchObject({ code: 'PERDURE_REFUSED', fault: 'HANDSHAKE' })
  })

  test('R1-S14: lets a peer do with a region what it has the right to', async () => {
    const local = await servedPart()
    const writer = await come(local, WRITER)
    await (await writer.openRegion('records')).persist(1, BYTES).persisted
    expect((await writer.regions()).map(({ name }) => name)).toEqual(['records'])
    for (const refused of [
      () => writer.openRegion('others'),
      () => writer.provision({ ...SHAPE, name: 'more' }),
      () => writer.remove('records'),
      () => writer.publish({ name: 'records', port: 7000 }),
    ]) {
      expect(await failure(refused())).toMatchObject({ fault: 'FORBIDDEN' })
    }
    await writer.close()
    const reader = await come(local, READER, { seed: 4, reconnect: false })
    const region = await reader.openRegion('records')
    expect((await region.read(1)).data).toEqual(BYTES)
    expect(await failure(region.persist(1, BYTES).persisted)).toMatchObject({
      status: 'REM_ACCESS_ERR',
    })
  })

  test('R1-S13: goes on with a driver after its restart, in a new session', async () => {
    const local = await servedPart()
    const writer = await come(local, WRITER)
    const region = await writer.openRegion('records')
    await region.persist(1, BYTES).persisted
    local.dpu.powerCut()
    await local.dpu.powerOn()
    await region.persist(2, BYTES).persisted
    expect((await region.read(1)).data).toEqual(BYTES)
    expect((await writer.status()).access).toBe('peers')
  })

  test('D-6, R1-S14: takes nobody for a client of another peer', async () => {
    const local = await servedPart()
    const { clientId } = await come(local, WRITER)
    const options = { clientId, firstOperation: 1n }
    const error = await failure(come(local, READER, options))
    expect(error).toMatchObject({ code: 'PERDURE_ARGUMENT' })
    expect(error.message).toContain('ids from')
  })
})

describe('an open card', () => {
  test('says so, and makes no sessions', async () => {
    const local = await openPart()
    const dpu = await connect(local.wire, { seed: nextSeed++, ...QUIET })
    open.push(dpu)
    expect((await dpu.status()).access).toBe('anybody')
    const error = await failure(come(local, ADMIN))
    expect(error).toMatchObject({ code: 'PERDURE_REFUSED', fault: 'OPEN_CARD' })
  })
})

describe('keys', () => {
  test('R31-1: are those that were given at the call, whatever is stored there later', async () => {
    const local = await servedPart()
    const [key, cardKey] = [WRITER.secret.slice(), CARD.public.slice()]
    const coming = connect(local.wire, { seed: nextSeed++, ...QUIET, key, cardKey })
    key.fill(0)
    cardKey.fill(0)
    const dpu = await coming
    open.push(dpu)
    expect((await dpu.status()).access).toBe('peers')
  })

  test('stand in the target, and are refused where they cannot be used', async () => {
    const hex = (key: Uint8Array): string => Buffer.from(key).toString('hex')
    const { secret } = ADMIN
    const at = (key: string): string => `perdure://${key}@127.0.0.1:1`
    const cases: [string, ConnectOptions, RegExp][] = [
      ['perdure://127.0.0.1:1', { key: secret }, /needs the card's public key/],
      [at('00'.repeat(32)), { key: secret }, /nobody has that public key/],
      [at(hex(CARD.public)), { key: '/nowhere/key' }, /perdure key new/],
      [at(hex(CARD.public)), { key: secret, cardKey: ADMIN.public }, /another card/],
      [at(hex(CARD.public)), { key: new Uint8Array(31) }, /key/],
    ]
    const none = await failure(connect(at('12'), { ...QUIET, key: secret }))
    expect(none).toMatchObject({ code: 'PERDURE_TARGET' })
    expect(none.message).toContain('64 hexadecimal digits')
    for (const [target, options, words] of cases) {
      const error = await failure(connect(target, { ...QUIET, ...options }))
      expect(error).toMatchObject({ code: 'PERDURE_ARGUMENT' })
      expect(error.message).toMatch(words)
    }
  })
})
