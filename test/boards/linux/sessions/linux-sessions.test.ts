/**
 * A card with peers in the native runtime: what it is told of itself and of them, what it says, and
 * whom it serves, also behind a restart. The program is the one that
 * `node build.mjs --board linux` made; without it this is skipped.
 */

import { chmodSync, readFileSync, renameSync } from 'node:fs'
import { afterEach, describe, expect, test } from 'vitest'
import { keyText } from '../../../../boards/software/keys.ts'
import { type Peer, peersText } from '../../../../boards/software/peers.ts'
import {
  COMMAND_WORDS,
  COMMANDS_AT,
  COPY,
  FROM,
  LENGTH,
  NVDIMM_SPACE,
  OP,
  TO,
  TRANSMIT_AT,
} from '../../../../firmware/board/hal.ts'
import { type ConnectOptions, connect, type Dpu } from '../../../../host-driver/index.ts'
import { failure } from '../../../support/driver/failures.ts'
import { type Keys, noService, ServiceFolder } from '../../../support/native/service.ts'
import { PATIENT } from '../../../support/run/patience.ts'
import { ADMIN, CARD, IDENTITY, NOBODY, READER, WRITER } from '../../../support/sessions/peers.ts'

const name = noService === null ? 'perdured' : `perdured (${noService})`
const KEY = keyText(CARD.public)
const SECRET = keyText(CARD.secret)
const SHAPE = { name: 'records', slots: 8, capacity: 64 }
const BYTES = new Uint8Array(64).fill(0x5a)

/** Where that can be another one, it is not the owner of the peers file. */
const OTHER_USER: Keys = process.getuid?.() === 0 ? { user: 'nobody' } : {}

const folders: ServiceFolder[] = []
const open: Dpu[] = []
afterEach(async () => {
  for (const dpu of open.splice(0)) await dpu.close()
  for (const one of folders.splice(0)) await one.close()
})

const PEERS: readonly Peer[] = IDENTITY.peers.map((peer) => {
  return { ...peer, key: Uint8Array.from(peer.key) }
})

/** Those, and one whose words are of every kind. */
const ALL: readonly Peer[] = [
  ...PEERS,
  {
    ...{ key: NOBODY.public, name: 'bj\u00f6rn\u{1f5c4}', admin: false },
    ...{ read: ['orders 2024', '50%', '\u00e9t\u00e9', '"\\'], write: ['*', '\u{1f5c4}'] },
  },
]

/** Its folder, with a key and a peers file, and the keys of the configuration that name them. */
function folder(peers: readonly Peer[] = PEERS, source?: string): [ServiceFolder, Keys] {
  const one = new ServiceFolder(source)
  folders.push(one)
  one.write('key', `# of this card\n${SECRET}\n`)
  chmodSync(one.at('key'), 0o600)
  one.write('peers', peersText(peers))
  return [one, { key: one.at('key'), peers: one.at('peers') }]
}

async function come(target: string, options: ConnectOptions): Promise<Dpu> {
  const dpu = await connect(target, { ...PATIENT, warn: () => {}, ...options })
  open.push(dpu)
  return dpu
}

/** A firmware that leaves what it is told of the identity in the part, as ASCII, and starts. */
const TELLING = `
  var perdure = { start({ facts, memory, run }) {
    const words = new Float64Array(memory, ${COMMANDS_AT}, ${COMMAND_WORDS})
    const bytes = new Uint8Array(memory, ${TRANSMIT_AT}, 1)
    const text = JSON.stringify([facts.identity])
    const ascii = text.replace(/[^ -~]/g, (one) => {
      return '\\\\u' + one.charCodeAt(0).toString(16).padStart(4, '0')
    })
    for (let i = 0; i < ascii.length; i++) {
      bytes[0] = ascii.charCodeAt(i)
      words[${OP}] = ${COPY}
      words[${FROM}] = ${TRANSMIT_AT}
      words[${TO}] = ${NVDIMM_SPACE} + i
      words[${LENGTH}] = 1
      if (run(1) !== 1) throw new Error('not stored')
    }
    return { serve: () => 0, idle: () => 0 }
  } }`

/** What stands in the part up to the first zero. */
function toldIn(one: ServiceFolder): unknown {
  const bytes = readFileSync(one.at('part'))
  return JSON.parse(bytes.subarray(0, bytes.indexOf(0)).toString())
}

describe.skipIf(noService !== null)(name, () => {
  describe('of its key and its peers', () => {
    test('takes both, or neither', async () => {
      for (const [only, other] of [
        ['key', 'peers'],
        ['peers', 'key'],
      ] as const) {
        const [one, keys] = folder()
        const { code, said } = await one.ends({ [only]: keys[only]! })
        expect(said).toContain(`key and peers go together, and ${other} is missing: say both`)
        expect(code).toBe(78)
      }
    })

    test('says where a file of them is not there', async () => {
      for (const key of ['key', 'peers']) {
        const [one, keys] = folder()
        const { code, said } = await one.ends({ ...keys, [key]: '/nonexistent' })
        expect(said).toContain('/nonexistent cannot be read: No such file')
        expect(code).toBe(66)
      }
    })

    test.each<[string, (one: ServiceFolder) => void, string]>([
      ['a key that others may read', (one) => chmodSync(one.at('key'), 0o640), 'chmod 600 '],
      ['a key that is none', (one) => one.write('key', SECRET.slice(1)), 'holds no private key'],
      ['nobody', (one) => one.write('peers', '# nobody\n'), 'nobody may come: write a line'],
      ['a peer without a right', (one) => one.write('peers', `\n${KEY} ann`), 'line 2: '],
      [
        'a key that nobody has',
        (one) => one.write('peers', `${'0'.repeat(64)} ann admin`),
        'line 1: a line begins with a key. Here nobody has that public key',
      ],
    ])('refuses %s before it touches anything', async (_what, spoil, words) => {
      const [one, keys] = folder()
      spoil(one)
      for (const args of [[], ['--check']]) {
        const { code, said } = await one.ends(keys, ...args)
        expect(said).toContain(words)
        expect(said).not.toContain(SECRET.slice(1))
        expect(code).toBe(78)
      }
    })

    test('tells the firmware what others read of them', async () => {
      const [one, keys] = folder(ALL, TELLING)
      await one.serve(keys)
      const peers = ALL.map((peer) => ({ ...peer, key: [...peer.key] }))
      expect(toldIn(one)).toEqual([{ secret: [...CARD.secret], peers }])
    })

    test('tells the firmware of no identity where there is none', async () => {
      const [one] = folder(ALL, TELLING)
      await one.serve()
      expect(toldIn(one)).toEqual([null])
    })

    test.skipIf(process.getuid?.() !== 0)('reads them before it is another user', async () => {
      const [one, keys] = folder()
      chmodSync(one.at('peers'), 0o600)
      const { runtime } = await one.serve({ ...keys, user: 'nobody' })
      expect(await runtime.end('SIGTERM')).toBe(0)
    })
  })

  describe('says who it is', () => {
    const SAID = { open: false, publicKey: KEY, peers: PEERS.length }

    test('where it serves, to its console, and in its log', async () => {
      const [one, keys] = folder()
      const { runtime, address } = await one.serve({
        ...keys,
        link: 'udp:127.0.0.1:0',
        ipv4: '192.0.2.10',
      })
      expect(address).toMatch(
        new RegExp(`^perdure://${KEY}@127\\.0\\.0\\.1:\\d+/192\\.0\\.2\\.10$`),
      )
      expect(await one.ask('status')).toMatchObject(SAID)
      expect(await runtime.end('SIGTERM')).toBe(0)
      expect(runtime.story).toContain(
        'info the card takes calls in sessions of its peers only peers=3',
      )
      expect(runtime.story).toMatch(new RegExp(`info serving .* publicKey=${KEY}`))
      expect(runtime.story).not.toContain('the card is open')
      expect(runtime.story).not.toContain(SECRET)
    })

    test('with --json, and with --check', async () => {
      const [one, keys] = folder()
      const conf = one.configure(keys)
      const serving = one.run('--config', conf, '--json')
      const told = JSON.parse(await serving.line()) as { address: string }
      expect(told).toMatchObject(SAID)
      expect(told.address).toContain(`perdure://${KEY}@`)
      expect(await serving.end('SIGTERM')).toBe(0)
      const checking = one.run('--config', conf, '--check')
      expect(JSON.parse(await checking.line())).toMatchObject(SAID)
      expect(await checking.over()).toBe(0)
    })

    test('or that it is open, at every start', async () => {
      const [one] = folder()
      for (const _start of [1, 2]) {
        const { runtime, address } = await one.serve()
        expect(address).toMatch(/^perdure:\/\/127\.0\.0\.1:\d+$/)
        const status = await one.ask('status')
        expect(status).toMatchObject({ open: true })
        expect(status).not.toHaveProperty('publicKey')
        expect(await runtime.end('SIGTERM')).toBe(0)
        const warned = 'warning the card is open: who reaches it may read, write and administer it'
        expect(runtime.story).toContain(warned)
        expect(runtime.story).toContain('publicKey=none')
      }
    })
  })

  describe('serves its peers only', () => {
    test('an admin formats, provisions, persists and reads', async () => {
      const [one, keys] = folder()
      const { address } = await one.serve(keys)
      const blank = await come(address, { key: ADMIN.secret })
      expect((await blank.status()).state).toBe('blank')
      await blank.format()
      const region = await blank.provision(SHAPE)
      expect((await region.persist(3, BYTES).persisted).copies).toBe(2)
      expect((await region.read(3)).data).toEqual(BYTES)
    })

    test('at an IPv6 address alike, where it has a session of its own', async () => {
      const [one, keys] = folder()
      const links = ['udp:127.0.0.1:0', 'udp:[::1]:0']
      const { runtime, address } = await one.serve({ ...keys, link: links })
      const sixth = await runtime.line()
      expect(sixth).toMatch(new RegExp(`^perdure://${KEY}@\\[::1\\]:\\d+$`))
      const [here, there] = [address, sixth].map((at) => come(at, { key: ADMIN.secret }))
      const admin = await there!
      await admin.format()
      const region = await admin.provision(SHAPE)
      await region.persist(3, BYTES).persisted
      const same = await (await here!).openRegion('records')
      expect((await same.read(3)).data).toEqual(BYTES)
      const unknown = come(sixth, { key: NOBODY.secret })
      expect(await failure(unknown)).toMatchObject({ fault: 'PEER_UNKNOWN' })
      const { refusals } = await admin.status()
      expect(refusals.last).toMatchObject({ fault: 'PEER_UNKNOWN' })
      await runtime.end('SIGKILL')
      const link = [address, sixth].map((at) => `udp:${at.split('@')[1]}`)
      await one.serve({ ...keys, link })
      await region.persist(4, BYTES).persisted
      expect((await region.read(3)).data).toEqual(BYTES)
    })

    test('a client without a key, and an unknown one, are refused', async () => {
      const [one, keys] = folder()
      const { address } = await one.serve(keys)
      const inTheClear = address.replace(`${KEY}@`, '')
      const stranger = await come(inTheClear, {})
      expect((await stranger.status()).state).toBe('blank')
      expect(await failure(stranger.format())).toMatchObject({ fault: 'NO_SESSION' })
      const unknown = come(address, { key: NOBODY.secret })
      expect(await failure(unknown)).toMatchObject({ fault: 'PEER_UNKNOWN' })
      const admin = await come(address, { key: ADMIN.secret })
      await admin.format()
      expect(await failure(come(inTheClear, {}))).toMatchObject({ fault: 'NO_SESSION' })
    })

    test('a writer and a reader do what their lines say', async () => {
      const [one, keys] = folder()
      const { address } = await one.serve(keys)
      const admin = await come(address, { key: ADMIN.secret })
      await admin.format()
      await admin.provision(SHAPE)
      const writer = await come(address, { key: WRITER.secret })
      const region = await writer.openRegion('records')
      await region.persist(1, BYTES).persisted
      expect(await failure(writer.format())).toMatchObject({ fault: 'FORBIDDEN' })
      const reader = await come(address, { key: READER.secret })
      const seen = await reader.openRegion('records')
      expect((await seen.read(1)).data).toEqual(BYTES)
    })

    test('R1-S16: peers come and go while it serves, and are those of the next start', async () => {
      const [one, keys] = folder()
      const { runtime, address } = await one.serve({ ...keys, ...OTHER_USER })
      const admin = await come(address, { key: ADMIN.secret })
      await admin.format()
      const region = await admin.provision(SHAPE)
      const writer = await come(address, { key: WRITER.secret, reconnect: false })
      const theirs = await writer.openRegion('records')
      await theirs.persist(1, BYTES).persisted
      const guest = { key: NOBODY.public, name: 'guest', read: ['records', 'a b'] }
      await admin.addPeer(guest)
      expect(await one.ask('status')).toMatchObject({ peers: 4 })
      const seen = await (await come(address, { key: NOBODY.secret })).openRegion('records')
      expect((await seen.read(1)).data).toEqual(BYTES)
      await admin.removePeer(WRITER.public)
      expect(await failure(theirs.persist(2, BYTES).persisted)).toBeInstanceOf(Error)
      const back = await failure(come(address, { key: WRITER.secret }))
      expect(back).toMatchObject({ fault: 'PEER_UNKNOWN' })
      expect((await region.read(1)).data).toEqual(BYTES)
      const names = (await admin.peers()).map(({ name }) => name)
      expect(names).toEqual(['admin', 'reader', 'guest'])
      expect(await runtime.end('SIGKILL')).not.toBe(0)
      const link = `udp:127.0.0.1:${address.split(':').at(-1)}`
      await one.serve({ ...keys, link })
      const after = await (await come(address, { key: ADMIN.secret })).peers()
      expect(after.map(({ name }) => name)).toEqual(names)
      expect(after.at(-1)).toEqual({ admin: false, write: [], ...guest })
    })

    test('R1-S16: a peers file that was replaced stays as it is', async () => {
      const [one, keys] = folder()
      const text = readFileSync(one.at('peers'), 'utf8')
      const mine = one.at('mine')
      const { address } = await one.serve(keys)
      const admin = await come(address, { key: ADMIN.secret })
      one.write('mine', text)
      renameSync(mine, one.at('peers'))
      const guest = { key: NOBODY.public, name: 'guest', admin: true }
      expect(await failure(admin.addPeer(guest))).toMatchObject({ fault: 'PEERS_FIXED' })
      expect(await failure(admin.removePeer(READER.public))).toMatchObject({
        fault: 'PEERS_FIXED',
      })
      expect(readFileSync(one.at('peers'), 'utf8')).toBe(text)
      expect(await admin.peers()).toHaveLength(3)
    })

    test('who was connected goes on by itself when it starts again, in a new session', async () => {
      const [one, keys] = folder()
      const { runtime, address } = await one.serve(keys)
      const admin = await come(address, { key: ADMIN.secret, reconnectTimeoutMs: 600_000 })
      await admin.format()
      const region = await admin.provision(SHAPE)
      await region.persist(0, BYTES).persisted
      const link = `udp:127.0.0.1:${address.split(':').at(-1)}`
      for (const [slot, signal] of (['SIGKILL', 'SIGTERM'] as const).entries()) {
        await one.runtimes.at(-1)!.end(signal)
        const again = await one.serve({ ...keys, link })
        expect(again.address).toBe(address)
        await region.persist(1 + slot, BYTES).persisted
        expect((await region.read(0)).data).toEqual(BYTES)
      }
      expect((await region.read(2)).data).toEqual(BYTES)
      expect(runtime.isRunning).toBe(false)
    })
  })
})
