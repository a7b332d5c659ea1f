/**
 * The server of `perdure monitor --web`, asked by plain requests: what it gives, to whom, and how
 * many may come.
 */

import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { connect, createServer, type Socket } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import type { Look } from '../../../host-driver/command/monitor/look.ts'
import { metricsText } from '../../../host-driver/command/monitor/metrics.ts'
import { WebServer } from '../../../host-driver/command/monitor/web.ts'
import { webLook } from '../../../host-driver/command/monitor/web-look.ts'
import type { WebHello, WebLook } from '../../../host-driver/command/monitor/web-told.ts'
import { lookAt, queuesOf, sampleOf } from '../../support/monitor/samples.ts'

const FILES = { html: '<!doctype html>', script: 'script()', style: 'a {}' }
const TARGETS = ['perdure://a', 'perdure://b']
const STREAMS = 16

const open: { close(): void }[] = []
afterEach(() => {
  for (const one of open.splice(0).reverse()) one.close()
})

async function listening(): Promise<[WebServer, string]> {
  const server = new WebServer(FILES, TARGETS, 1000)
  open.push(server)
  return [server, await server.listen(0)]
}

interface Asked {
  readonly method?: string
  readonly path?: string
  readonly host?: string
}

/** The answer, when its head is there. */
async function headOf(address: string, { method, path = '/', host }: Asked) {
  const { hostname, port } = new URL(address)
  const headers = host === undefined ? {} : { Host: host }
  const asking = request({ hostname, port, path, headers, agent: false, ...(method && { method }) })
  asking.end()
  const [answer] = (await once(asking, 'response')) as [IncomingMessage]
  open.push({ close: () => answer.destroy() })
  return answer
}

async function ask(address: string, asked: Asked = {}): Promise<[IncomingMessage, string]> {
  const answer = await headOf(address, asked)
  let text = ''
  for await (const piece of answer.setEncoding('utf8')) text += piece as string
  return [answer, text]
}

/** The messages of a stream as they come. */
async function* messagesOf(answer: IncomingMessage): AsyncGenerator<[name: string, data: unknown]> {
  let text = ''
  for await (const piece of answer.setEncoding('utf8')) {
    text += piece as string
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const found = /^event: (\w+)\ndata: (.*)$/.exec(text.slice(0, end))
      text = text.slice(end + 2)
      if (found !== null) yield [found[1]!, JSON.parse(found[2]!)]
    }
  }
}

describe('what it gives', () => {
  test.each([
    ['/', 'text/html; charset=utf-8', FILES.html],
    ['/?x=1', 'text/html; charset=utf-8', FILES.html],
    ['/monitor.js', 'text/javascript; charset=utf-8', FILES.script],
    ['/monitor.css', 'text/css; charset=utf-8', FILES.style],
  ])('%s, by a policy that lets nothing else in', async (path, type, text) => {
    const [, address] = await listening()
    const [{ statusCode, headers }, body] = await ask(address, { path })
    expect([statusCode, headers['content-type'], body]).toEqual([200, type, text])
    expect(headers['content-security-policy']).toContain("default-src 'none'")
    expect(headers['x-content-type-options']).toBe('nosniff')
    expect(headers['access-control-allow-origin']).toBeUndefined()
  })

  test('/metrics is of the newest looks, in the order of the targets', async () => {
    const [server, address] = await listening()
    const looks = TARGETS.map((target) => lookAt(sampleOf({}), target))
    for (const look of [...looks].reverse()) server.take(look, [])
    const [{ headers }, text] = await ask(address, { path: '/metrics' })
    expect(headers['content-type']).toBe('text/plain; version=0.0.4; charset=utf-8')
    expect(text).toBe(metricsText(looks))
  })

  test('/events begins with what there is, and goes on with what comes', async () => {
    const [server, address] = await listening()
    const ill = sampleOf({
      part: { unsettled: 2 },
      region: { name: '<b>\u001b[2J' },
      queues: queuesOf({ elements: 7n }),
      faults: { MEDIA: 3n },
    })
    const event = { target: 'perdure://a', atMs: 0, event: 'lost', gravity: 'critical' } as const
    server.take(lookAt(ill, 'perdure://a'), [{ ...event, text: '2 records are lost' }])
    const messages = messagesOf(await headOf(address, { path: '/events' }))
    const [name, told] = (await messages.next()).value as [string, WebHello]
    expect(name).toBe('hello')
    expect(told).toMatchObject({
      ...{ targets: ['perdure://a'], intervalMs: 1000 },
      looks: [{ state: 'CRITICAL', findings: ['2 records are lost'], hasHost: true }],
      events: [{ gravity: 'critical', text: '2 records are lost' }],
    })
    const tables = told.looks[0]!.tables.map(({ title, rows }) => [title, rows[0]![0]])
    expect(tables).toEqual([
      ['Regions', '<b>\\x1b[2J'],
      ['Faults met since the start', 'MEDIA'],
      ["Queues of the card's host", '2 of 64'],
    ])
    expect(told.points['perdure://a']).toHaveLength(1)
    const away: Look = {
      ...{ target: 'perdure://b', atMs: 5, up: false, reason: 'no answer' },
      ...{ code: 'PERDURE_UNREACHABLE', sinceMs: 0 },
    }
    server.take(away, [])
    const [next, look] = (await messages.next()).value as [string, WebLook]
    expect([next, look.state, look.findings]).toEqual(['look', 'AWAY', ['no answer']])
    expect(look.point).toMatchObject({ atMs: 5, faults: null, answerMs: null })
  })

  test('of a card that tells a stranger little, that it is not known how it is', () => {
    const part = { incarnation: 0, superblockPages: 0, nvdimmBytes: 0 }
    const sample = { ...sampleOf({ part, regions: null, faults: null }), isWhole: false }
    const { state, findings, facts, tables } = webLook(lookAt(sample))
    expect(state).toBe('UNKNOWN')
    expect(findings).toEqual([expect.stringContaining('who has no session')])
    expect(facts.map(([name]) => name)).not.toContain('superblock')
    expect(tables).toEqual([])
  })

  test('what it keeps for pages that come later has a bound', async () => {
    const [server, address] = await listening()
    const event = { target: 'perdure://a', atMs: 0, event: 'back', gravity: 'info' } as const
    for (let atMs = 0; atMs < 1000; atMs++) {
      server.take(lookAt(sampleOf({ atMs }), 'perdure://a'), [{ ...event, text: String(atMs) }])
    }
    const messages = messagesOf(await headOf(address, { path: '/events' }))
    const [, told] = (await messages.next()).value as [string, WebHello]
    expect(told.points['perdure://a']).toHaveLength(900)
    expect(told.events.map(({ text }) => text)).toEqual(
      Array.from({ length: 100 }, (_, i) => String(900 + i)),
    )
  })
})

describe('whom it answers', () => {
  test.each(['evil.example', 'evil.example:PORT', '127.0.0.1', 'localhost', '0.0.0.0:PORT'])(
    'not who asks for %s',
    async (host) => {
      const [, address] = await listening()
      for (const path of ['/', '/metrics', '/events', '/none']) {
        const named = host.replace('PORT', new URL(address).port)
        const [{ statusCode }, text] = await ask(address, { path, host: named })
        expect(statusCode).toBe(421)
        expect(text).toMatch(/^this server is 127/)
      }
    },
  )

  test('who asks for localhost', async () => {
    const [, address] = await listening()
    const [{ statusCode }] = await ask(address, { host: `localhost:${new URL(address).port}` })
    expect(statusCode).toBe(200)
  })

  test.each(['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE'])(
    'not the method %s',
    async (method) => {
      const [, address] = await listening()
      const [{ statusCode, headers }] = await ask(address, { method })
      expect([statusCode, headers.allow]).toEqual([405, 'GET'])
    },
  )

  test('HEAD is no method of it either', async () => {
    const [, address] = await listening()
    const [{ statusCode }, text] = await ask(address, { method: 'HEAD' })
    expect([statusCode, text]).toEqual([405, ''])
  })

  test.each(['/x', '/../package.json', '//', '/monitor.js/', '/%2e%2e/'])(
    'there is no %s',
    async (path) => {
      const [, address] = await listening()
      const [{ statusCode }] = await ask(address, { path })
      expect(statusCode).toBe(404)
    },
  )
})

describe('how many may come', () => {
  test('pages have a bound, and one that goes makes room', async () => {
    const [, address] = await listening()
    const pages: IncomingMessage[] = []
    for (let i = 0; i < STREAMS; i++) pages.push(await headOf(address, { path: '/events' }))
    expect(pages.map(({ statusCode }) => statusCode)).toEqual(pages.map(() => 200))
    const [{ statusCode, headers }] = await ask(address, { path: '/events' })
    expect([statusCode, headers['retry-after']]).toEqual([503, '10'])
    expect((await ask(address, { path: '/metrics' }))[0].statusCode).toBe(200)
    pages[0]!.destroy()
    await untilRoom(address)
  })

  test('who does not read is let go', async () => {
    const [server, address] = await listening()
    for (let i = 0; i < STREAMS; i++) await silentPage(address)
    const regions = Array.from({ length: 60 }, (_, id) => {
      return { ...sampleOf({}).regions![0]!, id, name: 'x'.repeat(32) }
    })
    const look = lookAt(sampleOf({ regions }), 'perdure://a')
    expect((await ask(address, { path: '/events' }))[0].statusCode).toBe(503)
    let status: number | undefined
    for (let round = 0; status !== 200; round++) {
      expect(round).toBeLessThan(200)
      for (let i = 0; i < 100; i++) server.take(look, [])
      status = (await headOf(address, { path: '/events' })).statusCode
    }
  })

  test('a port that is taken is an error of the system', async () => {
    const holder = createServer()
    holder.listen(0, '127.0.0.1')
    await once(holder, 'listening')
    open.push(holder)
    const server = new WebServer(FILES, TARGETS, 1000)
    const { port } = holder.address() as { port: number }
    await expect(server.listen(port)).rejects.toMatchObject({ code: 'EADDRINUSE' })
  })
})

/** Asks for a stream until there is one: a page that has gone is known to be gone in a moment. */
async function untilRoom(address: string): Promise<void> {
  while ((await headOf(address, { path: '/events' })).statusCode !== 200);
}

/** A page that has its first bytes, and reads nothing after them. */
async function silentPage(address: string): Promise<Socket> {
  const { hostname, port, host } = new URL(address)
  const socket = connect(Number(port), hostname)
  open.push({ close: () => socket.destroy() })
  socket.on('error', () => {})
  socket.write(`GET /events HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
  await once(socket, 'readable')
  return socket
}
