/**
 * The driver's calls about who may come to a card: told whole, whatever their names; what no peers
 * file can say is refused here, before anything is sent.
 */

import { afterEach, describe, expect, test } from 'vitest'
import { PEER_REGIONS, PEERS } from '../../../firmware/board/limits.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { connect } from '../../../host-driver/connect.ts'
import { type PeerRequest, readPeers } from '../../../host-driver/control/peers.ts'
import type { Dpu } from '../../../host-driver/dpu.ts'
import type { LocalDpu } from '../../../host-driver/local.ts'
import { failure } from '../../support/driver/failures.ts'
import { localParts } from '../../support/driver/local-parts.ts'
import { KeptPeers } from '../../support/sessions/kept-peers.ts'
import {
  ADMIN,
  CARD,
  IDENTITY,
  keyPair,
  NOBODY,
  READER,
  WRITER,
} from '../../support/sessions/peers.ts'

const openPart = localParts()
const open: Dpu[] = []
let nextSeed = 3
afterEach(async () => {
  for (const dpu of open.splice(0)) await dpu.close()
})

async function come(local: LocalDpu, keys: { readonly secret: Uint8Array }): Promise<Dpu> {
  const session = { key: keys.secret, cardKey: CARD.public, reconnect: false }
  const dpu = await connect(local.wire, { seed: nextSeed++, warn: () => {}, ...session })
  open.push(dpu)
  return dpu
}

/** A card that keeps its peers, and its admin. */
async function keeping(): Promise<{ local: LocalDpu; admin: Dpu; kept: KeptPeers }> {
  const kept = new KeptPeers(IDENTITY)
  const local = await openPart({ peers: kept })
  const admin = await come(local, ADMIN)
  await admin.format()
  return { local, admin, kept }
}

const GUEST: PeerRequest = { key: NOBODY.public, name: 'guest' }

describe('peers of a card', () => {
  test('R1-S16: are told with all their regions, also after a restart', async () => {
    const { local, admin } = await keeping()
    const names = Array.from({ length: PEER_REGIONS }, (_, i) => `${'ä'.repeat(15)}0${i}`)
    const added: PeerRequest[] = [
      { ...GUEST, read: names.slice(0, 5), write: names.slice(5) },
      { key: keyPair(30).public, name: 'björn🗄', write: ['*'] },
      { key: keyPair(31).public, name: 'second', admin: true },
      { key: keyPair(32).public, name: '#', read: ['%41', 'a b'] },
    ]
    for (const one of added) await admin.addPeer(one)
    const whole = added.map((one) => ({ admin: false, read: [], write: [], ...one }))
    const before = await admin.peers()
    expect(before.map(({ name }) => name).slice(0, 3)).toEqual(['admin', 'writer', 'reader'])
    expect(before.slice(3)).toEqual(whole)
    local.dpu.powerCut()
    await local.dpu.powerOn()
    expect((await (await come(local, ADMIN)).peers()).slice(3)).toEqual(whole)
  })

  test('R1-S16: come and go at once, with other rights the next time', async () => {
    const { local, admin } = await keeping()
    await admin.provision({ name: 'records', slots: 8, capacity: 64 })
    const writer = await (await come(local, WRITER)).openRegion('records')
    await writer.persist(1, new Uint8Array(64)).persisted
    await (await come(local, ADMIN)).removePeer(WRITER.public)
    expect(await failure(come(local, WRITER))).toMatchObject({ fault: 'PEER_UNKNOWN' })
    const again = { key: WRITER.public, name: 'writer', read: ['records'] }
    await (await come(local, ADMIN)).addPeer(again)
    const reader = await (await come(local, WRITER)).openRegion('records')
    expect((await reader.read(1)).data).toEqual(new Uint8Array(64))
    const refused = await failure(reader.persist(2, new Uint8Array(64)).persisted)
    expect(refused).toMatchObject({ status: 'REM_ACCESS_ERR' })
  })

  test('R1-S16: are those of the call, whatever becomes of the memory of a key', async () => {
    const { admin, kept } = await keeping()
    const memory = new Uint8Array(new SharedArrayBuffer(40), 5, 32)
    memory.set(NOBODY.public)
    const added = admin.addPeer({ key: memory, name: 'guest', admin: true })
    memory.fill(0)
    await added
    expect(kept.peers.at(-1)).toMatchObject({ name: 'guest', key: [...NOBODY.public] })
    memory.set(NOBODY.public)
    const removed = admin.removePeer(memory)
    memory.set(READER.public)
    await removed
    expect(kept.peers.map(({ name }) => name)).toEqual(['admin', 'writer', 'reader'])
  })

  test('R1-S16: are refused by name of the fault, with what to do', async () => {
    const { local, admin, kept } = await keeping()
    const told = async (wrong: Promise<unknown>): Promise<string> => (await failure(wrong)).message
    expect(await told(admin.addPeer({ ...GUEST, name: 'reader', admin: true }))).toContain(
      'PEER_TAKEN',
    )
    expect(await told(admin.removePeer(NOBODY.public))).toContain('perdure peers list')
    expect(await told(admin.removePeer(ADMIN.public))).toContain('Add another admin first')
    kept.text = kept.text.replace(' reader ', ' other ')
    expect(await told(admin.addPeer({ ...GUEST, name: 'other', admin: true }))).toContain('REQUEST')
    const reader = await come(local, READER)
    expect(await told(reader.peers())).toContain('FORBIDDEN')
  })

  const WRONG: readonly (readonly [string, unknown, string])[] = [
    ['no object', null, 'a peer'],
    ['a key that is short', { ...GUEST, key: new Uint8Array(31), admin: true }, 'key'],
    ['a key that nobody has', { ...GUEST, key: new Uint8Array(32), admin: true }, 'nobody has'],
    ['a name with a blank', { ...GUEST, name: 'a b', admin: true }, 'without blanks'],
    ['a name that is long', { ...GUEST, name: 'x'.repeat(33), admin: true }, '1 to 32 bytes'],
    ['no right', GUEST, 'has no right'],
    ['an admin with a region', { ...GUEST, admin: true, read: ['a'] }, 'beside admin'],
    ['a region twice', { ...GUEST, read: ['a'], write: ['a'] }, 'twice'],
    ['too many regions', { ...GUEST, read: [...'abcdefghi'] }, 'of one peer'],
    ['a region without a name', { ...GUEST, read: [''] }, 'no region is called'],
    ['regions that are no list', { ...GUEST, read: 'a' }, 'a list of names'],
  ]
  test.each(WRONG)('R1-S16: %s is refused before anything is sent', async (_, peer, words) => {
    const { admin, kept } = await keeping()
    const before = kept.text
    const error = await failure(
      (async () => {
        await admin.addPeer(peer as PeerRequest)
      })(),
    )
    expect(error).toMatchObject({ code: 'PERDURE_ARGUMENT' })
    expect(error.message).toContain(words)
    expect(kept.text).toBe(before)
  })
})

describe('a list that changes while it is told', () => {
  /** An answer of a card: that peer at that place, with those of its regions from there on. */
  function answer(key: number, place: number, regions: readonly string[], from: number) {
    const body = new Uint8Array(mad.MAD_BODY_BYTES)
    body.fill(key, mad.PEER_KEY, mad.PEER_NAME)
    body[mad.PEER_NAME] = 0x60 + key
    body[mad.PEER_PLACE] = place
    body[mad.PEER_REGIONS_TOTAL] = regions.length
    body[mad.PEER_REGIONS_FROM] = from
    const here = regions.slice(from, from + mad.PEER_REGIONS_PER_MAD)
    body[mad.PEER_REGIONS_HERE] = here.length
    here.forEach((name, i) => {
      const at = mad.PEER_FIRST_REGION + i * mad.PEER_REGION_BYTES
      body[at] = mad.PEER_MAY_READ
      body.set(Buffer.from(name), at + mad.PEER_REGION_NAME)
    })
    return body
  }

  test.each([
    ['is another one', [...'vwxyz']],
    ['has fewer regions', ['v']],
  ])('R1-S16: is asked for again where the peer at a place %s', async (what, regions) => {
    let asked = 0
    const peers = await readPeers(async (place, body) => {
      asked += 1
      if (place > 5) return new Uint8Array(mad.MAD_BODY_BYTES)
      const from = body[mad.PEER_REGIONS_FROM]!
      if (asked === 1) return answer(1, 5, [...'abcde'], from)
      return answer(what === 'is another one' ? 2 : 1, 5, regions, from)
    })
    expect(peers).toMatchObject([{ name: what === 'is another one' ? 'b' : 'a', read: regions }])
    expect(asked).toBe(regions.length > 3 ? 5 : 4)
  })

  test('R1-S16: of a card that knows as many as there can be has an end', async () => {
    const asked: number[] = []
    const peers = await readPeers(async (place) => {
      asked.push(place)
      return answer(1 + (place % 20), place, [], 0)
    })
    expect(peers).toHaveLength(PEERS)
    expect(asked).toEqual(Array.from({ length: PEERS }, (_, i) => i))
  })
})
