/**
 * Floods of strangers on the native runtime's tunnel (boards/linux/src/link/known/): who is
 * kept out while one is on, by the kernel, and who never is. The C is compiled here with the
 * sanitizers; without a compiler this is skipped.
 */

import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import {
  ANSWERS,
  Besieged,
  CLIENTS_MAX,
  callOf,
  frameOf,
  type SendFrames,
  STRANGERS_MAX,
} from '../../support/native/floods.ts'
import { compile, Harness, LINK_PARTS, noCompiler, titled } from '../../support/native/harness.ts'

/** Of so many frames one in 64 comes in, or one in 8: a quarter never, but for no chance at all. */
const MANY = 640

let program = ''
beforeAll(() => {
  if (noCompiler === null) program = compile('link-harness', LINK_PARTS)
})

const sockets: Socket[] = []
const cards: Harness[] = []
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.close()
  for (const card of cards.splice(0)) expect(await card.end()).toBe(0)
})

async function besieged(where = 'udp:127.0.0.1:0'): Promise<{ card: Besieged; port: number }> {
  const harness = new Harness(program, ['echo', where])
  cards.push(harness)
  const port = Number((await harness.line()).split(':').at(-1))
  return { card: await Besieged.of(harness), port }
}

/** Somebody of an endpoint and an Ethernet address of his own. */
async function somebody(port: number, at = '127.0.0.1', from = at): Promise<SendFrames> {
  const socket = createSocket(at.includes(':') ? 'udp6' : 'udp4')
  sockets.push(socket)
  socket.bind(0, from)
  await once(socket, 'listening')
  const number = sockets.length
  return async (frame, count) => {
    const own = Buffer.from(frame)
    if (own.length > 12) own.writeUInt16BE(number, 10)
    for (let left = count; left > 0; left--) {
      await new Promise((resolve) => socket.send(own, port, at, resolve))
    }
  }
}

const IGNORED = frameOf({ isIgnored: true })

describe.skipIf(noCompiler !== null)(titled('R1-S13: a flood of packets'), () => {
  test.each([
    ['of IPv4', 'udp:127.0.0.1:0', '127.0.0.1', '127.0.0.1'],
    ['of IPv6', 'udp:[::1]:0', '::1', '::1'],
    ['of both, in a socket for all', 'udp:[::]:0', '127.0.0.1', '::1'],
    ['of both, the other way round', 'udp:[::]:0', '::1', '127.0.0.1'],
  ])('%s keeps strangers out, and no client', async (_, where, clients, strangers) => {
    const { card, port } = await besieged(where)
    const [client, stranger] = [await somebody(port, clients), await somebody(port, strangers)]
    expect(await card.let(client, frameOf(), 1)).toBe(1)
    expect(await card.let(stranger, IGNORED, STRANGERS_MAX - 1)).toBe(STRANGERS_MAX - 1)
    expect((await card.counters()).floods).toBe(0)
    await card.flood(stranger, IGNORED)
    expect((await card.counters()).floods).toBe(1)
    expect(await card.let(stranger, IGNORED, MANY)).toBeLessThan(MANY / 4)
    expect(await card.let(client, frameOf(), MANY)).toBe(MANY)
    expect(await card.let(client, callOf({}, {}), MANY)).toBe(MANY)
    // It is over when a window has passed without one: everybody is let in again.
    await card.pass()
    await card.pass()
    expect(await card.let(stranger, IGNORED, STRANGERS_MAX)).toBe(STRANGERS_MAX)
  })

  test('does not begin with as many as are no flood, from any number of strangers', async () => {
    const { card, port } = await besieged()
    const all = await Promise.all(Array.from({ length: 8 }, () => somebody(port)))
    for (const one of all) await card.let(one, IGNORED, STRANGERS_MAX / all.length)
    await card.pass()
    expect((await card.counters()).floods).toBe(0)
    for (const one of all) await card.let(one, IGNORED, STRANGERS_MAX / all.length)
    await card.let(all[1]!, IGNORED, 1)
    await card.look()
    expect((await card.counters()).floods).toBe(1)
    expect(await card.let(all[0]!, IGNORED, MANY)).toBeLessThan(MANY / 4)
  })

  test('does not begin by what a client sends, whatever it is', async () => {
    const { card, port } = await besieged()
    const client = await somebody(port)
    await card.let(client, frameOf(), 1)
    await card.flood(client, IGNORED)
    await card.flood(client, callOf({ isIgnored: true }, {}))
    await card.flood(client, Buffer.alloc(3))
    expect((await card.counters()).floods).toBe(0)
  })

  test('leaves calls alone: whoever comes becomes a client, and is let in', async () => {
    const { card, port } = await besieged()
    const [stranger, newcomer] = [await somebody(port), await somebody(port)]
    await card.flood(stranger, IGNORED)
    expect(await card.let(newcomer, callOf({ isIgnored: true }, {}), 400)).toBe(400)
    expect(await card.let(newcomer, callOf({}, ANSWERS[0]![1]), 1)).toBe(1)
    // The filter names him within ten milliseconds, or with the next window at the latest.
    await card.pass()
    await card.flood(stranger, IGNORED)
    expect(await card.let(stranger, IGNORED, MANY)).toBeLessThan(MANY / 4)
    expect(await card.let(newcomer, frameOf(), MANY)).toBe(MANY)
  })

  test.each(ANSWERS)('an answer that is %s', async (_, bytes, makesClient) => {
    const { card, port } = await besieged()
    const [stranger, other] = [await somebody(port), await somebody(port)]
    for (const isIpv6 of [false, true]) {
      expect(await card.let(other, callOf({ isIpv6 }, bytes), 1)).toBe(1)
    }
    await card.flood(stranger, IGNORED)
    const came = await card.let(other, IGNORED, MANY)
    if (makesClient) expect(came).toBe(MANY)
    else expect(came).toBeLessThan(MANY / 4)
  })

  test.each([
    ['of IPv6', { isIpv6: true, isIgnored: true }],
    ['with a VLAN tag', { isVlan: true, isIgnored: true }],
  ])('in frames %s is kept out, too', async (_, options) => {
    const { card, port } = await besieged()
    const stranger = await somebody(port)
    await card.flood(stranger, frameOf(options))
    expect((await card.counters()).floods).toBe(1)
    expect(await card.let(stranger, frameOf(options), MANY)).toBeLessThan(MANY / 4)
  })
})

describe.skipIf(noCompiler !== null)(titled('R1-S13: a flood of calls'), () => {
  const call = callOf({ isIgnored: true }, {})
  const arp = Buffer.from(call)
  arp.writeUInt16BE(0x0806, 12)
  const solicitation = frameOf({ isIpv6: true, isIgnored: true })
  solicitation[14 + 6] = 58

  test.each([
    ['datagrams', call],
    ['ARP', arp],
    ['neighbour discovery', solicitation],
  ])('of %s lets one in eight in, and every packet', async (_, frame) => {
    const { card, port } = await besieged()
    const [stranger, client, other] = [
      await somebody(port),
      await somebody(port),
      await somebody(port),
    ]
    await card.let(client, frameOf(), 1)
    await card.flood(stranger, frame)
    const came = await card.let(stranger, frame, MANY)
    expect(came).toBeGreaterThan(0)
    expect(came).toBeLessThan(MANY / 2)
    expect(await card.let(client, call, MANY)).toBe(MANY)
    expect(await card.let(other, IGNORED, 64)).toBe(64)
  })
})

describe.skipIf(noCompiler !== null)(titled('R1-S13: more clients than a filter names'), () => {
  test('have no filter, until the card has not spoken with some for long', async () => {
    const { card, port } = await besieged()
    const all = []
    for (let i = 0; i <= CLIENTS_MAX; i++)
      all.push(await somebody(port, '127.0.0.1', `127.0.1.${i % 250}`))
    const stranger = await somebody(port)
    for (const one of all) expect(await card.let(one, frameOf(), 1)).toBe(1)
    await card.flood(stranger, IGNORED)
    expect(await card.let(stranger, IGNORED, MANY)).toBe(MANY)
    expect(await card.let(all.at(-1)!, IGNORED, MANY)).toBe(MANY)
    // A minute later all but the last one are silent: he takes their room, and is named.
    for (let i = 0; i < 61; i++) await card.pass()
    expect(await card.let(all.at(-1)!, frameOf(), 1)).toBe(1)
    await card.flood(stranger, IGNORED)
    expect(await card.let(stranger, IGNORED, MANY)).toBeLessThan(MANY / 4)
    expect(await card.let(all.at(-1)!, IGNORED, MANY)).toBe(MANY)
    expect(await card.let(all[0]!, IGNORED, MANY)).toBeLessThan(MANY / 4)
  })
})
