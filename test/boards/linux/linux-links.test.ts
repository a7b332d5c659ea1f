/**
 * A card with several links: one set of regions and queue pairs, whichever of them a client comes
 * by. The program is the one that `node build.mjs --board linux` made; without it this is skipped.
 * Raw Ethernet takes root, iproute2 and a compiler as well.
 */

import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { isThere } from '../../../boards/tools/debian/programs.ts'
import { connect, type Dpu } from '../../../host-driver/index.ts'
import type { Runtime } from '../../support/board/runtime.ts'
import { compile, Harness, LINK_PARTS, noCompiler, titled } from '../../support/native/harness.ts'
import { noService, ServiceFolder } from '../../support/native/service.ts'
import { PATIENT } from '../../support/run/patience.ts'
import { ROOT } from '../../support/source/sources.ts'

const SLOTS = 32
const CAPACITY = 512

const folders: ServiceFolder[] = []
function folder(): ServiceFolder {
  const made = new ServiceFolder()
  folders.push(made)
  return made
}
afterEach(async () => {
  for (const one of folders.splice(0)) await one.close()
})

const bytesOf = (mark: number): Uint8Array => new Uint8Array(CAPACITY).fill(mark)

/** Client `own` of `dpus` writes records and a batch; all clients at a time, each into its part. */
async function write(dpu: Dpu, own: number, round: number): Promise<void> {
  const region = await dpu.openRegion('notes')
  const first = own * 8
  for (let i = 0; i < 4; i++) await region.persist(first + i, bytesOf(round + i)).persisted
  const batch = region.batch()
  for (let i = 4; i < 8; i++) batch.persist(first + i, bytesOf(round + i))
  expect((await batch.commit()).records.length).toBe(4)
}

/** What each has written, each of them reads. */
async function check(dpus: readonly Dpu[], round: number): Promise<void> {
  for (const dpu of dpus) {
    const region = await dpu.openRegion('notes')
    for (let slot = 0; slot < dpus.length * 8; slot++) {
      expect((await region.read(slot)).data).toEqual(bytesOf(round + (slot % 8)))
    }
  }
}

/** How a client reaches the card over a link that is said to be at that address. */
type Reach = (address: string) => Promise<Dpu>

const reachByUdp: Reach = (address) => connect(address, PATIENT)

/** Clients on each of so many links, which all do everything at a time. */
async function servesAll(
  service: ServiceFolder,
  links: readonly string[],
  reach: Reach = reachByUdp,
): Promise<{ runtime: Runtime; addresses: string[]; dpus: Dpu[] }> {
  const { runtime, addresses } = await service.serveOver(...links)
  const dpus = await Promise.all(addresses.map(reach))
  await dpus[0]!.format()
  await dpus[0]!.provision({ name: 'notes', slots: SLOTS, capacity: CAPACITY })
  for (let round = 0; round < 3; round++) {
    await Promise.all(dpus.map((dpu, i) => write(dpu, i, 16 * round)))
    await check(dpus, 16 * round)
  }
  return { runtime, addresses, dpus }
}

describe.skipIf(noService !== null)(titled('perdured with several links', noService), () => {
  test('serves IPv4 and IPv6 alike, at a time, and says so', async () => {
    const one = folder()
    const links = ['udp:127.0.0.1:0', 'udp:[::1]:0', 'udp:127.0.0.2:0']
    const { addresses, dpus, runtime } = await servesAll(one, links)
    expect(addresses).toEqual([
      expect.stringMatching(/^perdure:\/\/127\.0\.0\.1:\d+$/),
      expect.stringMatching(/^perdure:\/\/\[::1\]:\d+$/),
      expect.stringMatching(/^perdure:\/\/127\.0\.0\.2:\d+$/),
    ])
    const names = addresses.map((address) => address.replace('perdure://', 'udp:'))
    expect(await one.ask('status')).toMatchObject({ links: names })
    const counters = (await one.ask('counters')) as {
      link: Record<string, number>
      links: Record<string, Record<string, number>>
    }
    expect(Object.keys(counters.links)).toEqual(names)
    for (const key of ['received', 'sent', 'sentBytes', 'receiveDropped']) {
      const each = names.map((name) => counters.links[name]![key]!)
      expect(each.reduce((sum, count) => sum + count, 0)).toBe(counters.link[key])
    }
    expect(runtime.story).toContain(`link="${names.join(' ')}"`)
    for (const dpu of dpus) await dpu.close()
  })

  test('keeps what it acknowledged over any of them behind a kill', async () => {
    const one = folder()
    const links = ['udp:127.0.0.1:0', 'udp:[::1]:0']
    const { addresses, dpus, runtime } = await servesAll(one, links)
    await runtime.end('SIGKILL')
    const link = addresses.map((address) => address.replace('perdure://', 'udp:'))
    await one.serveOver(...link)
    await check(dpus, 32)
    await Promise.all(dpus.map((dpu, i) => write(dpu, i, 64)))
    await check(dpus, 64)
    for (const dpu of dpus) await dpu.close()
  })

  test('is reached where it says, whichever addresses the card has on its network', async () => {
    const keys = { mac: '02:00:00:00:99:01', ipv4: '192.0.2.10' }
    const { address } = await folder().serve(keys)
    expect(address).toMatch(/^perdure:\/\/127\.0\.0\.1:\d+\/192\.0\.2\.10$/)
    const dpu = await connect(address, PATIENT)
    expect((await dpu.status()).state).toBe('blank')
    await dpu.close()
  })

  test.each(['linux', 'bluefield2', 'bluefield3'])(
    'is what the configuration of boards/%s asks for',
    async (board) => {
      const one = folder()
      const text = readFileSync(join(ROOT, 'boards', board, 'perdured.conf'), 'utf8')
      one.write('conf', `${text}firmware = ${one.at('nothing')}\n`)
      const runtime = one.run('--config', one.at('conf'))
      // It is read to its end, and then there is no such bundle.
      expect(await runtime.over()).toBe(66)
      expect(runtime.story).toContain('no bundle')
    },
  )

  test('tells all of them as JSON', async () => {
    const one = folder()
    const config = one.configure({ link: ['udp:127.0.0.1:0', 'udp:[::1]:0'] })
    const runtime = one.run('--config', config, '--json')
    const told = JSON.parse(await runtime.line()) as { address: string; addresses: string[] }
    expect(told.addresses).toEqual([told.address, expect.stringContaining('perdure://[::1]:')])
    expect(await runtime.end('SIGTERM')).toBe(0)
  })

  test.each<[string, string[], number, string]>([
    [
      'a fifth one',
      Array.from({ length: 5 }, () => 'udp:127.0.0.1:0'),
      78,
      'line 11: link = udp:127.0.0.1:0 is not valid; it takes packet:',
    ],
    ['one that names none', ['udp:127.0.0.1:0', 'eth0'], 69, "'eth0' names no link"],
    ['an empty one', ['udp:127.0.0.1:0', ' '], 78, 'link =  is not valid'],
  ])('%s is refused in words', async (_what, link, code, words) => {
    const end = await folder().ends({ link })
    expect(end.said).toContain(words)
    expect(end.code).toBe(code)
  })
})

/** A pair of interfaces: the card is at one end; what the driver sends comes out at the other. */
const [OWN, OTHER] = [`plo${process.pid}`.slice(0, 15), `plt${process.pid}`.slice(0, 15)]

/** Of the interface, and not that which the driver believes a card to have: UDP serves all. */
const CARD_MAC = [2, 0, 0, 0, 0x99, 1]
const CLIENT_MAC = [2, 0, 0, 0, 0x99, 2]

function ip(words: string): string | null {
  const done = spawnSync('ip', words.split(' '), { encoding: 'utf8' })
  return done.status === 0 ? null : done.stderr.trim()
}

const MAKE = `link add ${OWN} mtu 5000 type veth peer name ${OTHER} mtu 5000`

function missing(): string | null {
  if (noService !== null || noCompiler !== null) return noService ?? noCompiler
  if (!isThere('ip')) return 'ip is missing (Debian: iproute2)'
  if (process.getuid?.() !== 0) return 'only root makes interfaces'
  const trouble = ip(MAKE)
  ip(`link del ${OWN}`)
  return trouble === null ? null : `no pair of interfaces here: ${trouble}`
}

const why = missing()

describe.skipIf(why !== null)(titled('perdured on an interface and on UDP', why), () => {
  test('is one card to clients of both, and ends with the interface', async () => {
    const one = folder()
    expect(ip(MAKE)).toBeNull()
    try {
      for (const [name, mac] of [[OWN, CARD_MAC] as const, [OTHER, CLIENT_MAC] as const]) {
        const address = mac.map((byte) => byte.toString(16).padStart(2, '0')).join(':')
        ip(`link set ${name} address ${address} addrgenmode none up`)
      }
      const relay = new Harness(compile('link-harness', LINK_PARTS), [
        ...['relay', 'udp:127.0.0.1:0', `packet:${OTHER}`],
      ])
      const way = `perdure://${/^udp:(\S+) /.exec(await relay.line())![1]}`
      const links = [`packet:${OWN}`, 'udp:127.0.0.1:0']
      const { addresses, dpus, runtime } = await servesAll(one, links, (address) => {
        if (address.startsWith('perdure:')) return reachByUdp(address)
        const own = { mac: CLIENT_MAC, ipv4: [10, 0, 0, 1] }
        return connect(way, { ...PATIENT, own, peer: { mac: CARD_MAC, ipv4: [10, 0, 0, 2] } })
      })
      expect(addresses[0]).toBe(`packet:${OWN}`)
      const { links: counted } = (await one.ask('counters')) as {
        links: Record<string, { received: number; sent: number; sendDropped: number }>
      }
      for (const { received, sent, sendDropped } of Object.values(counted)) {
        expect(received).toBeGreaterThan(20)
        expect(sent).toBeGreaterThan(20)
        expect(sendDropped).toBe(0)
      }
      for (const dpu of dpus) await dpu.close()
      ip(`link del ${OWN}`)
      expect(await runtime.over()).toBe(69)
      expect(runtime.story).toMatch(/the link is gone.*the interface was deleted/)
      expect(await relay.end()).toBe(0)
    } finally {
      ip(`link del ${OWN}`)
    }
  })
})
