/**
 * The page of a monitor: a server for a browser of this machine, and for Prometheus.
 *
 * Invariants:
 * - It listens on 127.0.0.1 alone, and answers who has asked for that name or `localhost`: a page
 *   of another site that has its name resolved to this machine (DNS rebinding) is told nothing.
 * - It reads and never changes anything: there is no method but GET, and nothing that is sent to it
 *   is looked at beside path and Host.
 * - Clients are bounded in number, and so is what waits for each: who reads too slowly is let go,
 *   and its browser comes back.
 * - What a page shows comes from here: its policy lets it load nothing from anywhere else.
 */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { toJson } from '../base/output.ts'
import type { HealthEvent, Look } from './look.ts'
import { METRICS_TYPE, metricsText } from './metrics.ts'
import { webEvent, webLook } from './web-look.ts'
import type { WebEvent, WebHello, WebPoint } from './web-told.ts'

/** What the page is made of. */
export interface PageFiles {
  readonly html: string
  readonly script: string
  readonly style: string
}

const HOST = '127.0.0.1'
const CONNECTIONS_MAX = 64
/** Pages that are renewed at once. */
const STREAMS_MAX = 16
/** Bytes that may wait for one page. */
const WAITING_MAX = 1 << 20
/** Moments of each target that are kept for pages that come later, and events. */
const POINTS_MAX = 900
const EVENTS_MAX = 100
/** A page that has lost the server asks again after so long, ms. */
const RETRY_MS = 2000

const POLICY = [
  ...["default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'"],
  ...['img-src data:', "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
].join('; ')

const HEADERS: Readonly<Record<string, string>> = {
  'Content-Security-Policy': POLICY,
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'no-store',
}

export class WebServer {
  private readonly files: PageFiles
  private readonly targets: readonly string[]
  private readonly intervalMs: number
  private readonly server: Server
  private readonly streams: Set<ServerResponse> = new Set()
  private readonly looks: Map<string, Look> = new Map()
  /** By the name that the page shows. */
  private readonly points: Map<string, WebPoint[]> = new Map()
  private events: readonly WebEvent[] = []

  constructor(files: PageFiles, targets: readonly string[], intervalMs: number) {
    this.files = files
    this.targets = targets
    this.intervalMs = intervalMs
    this.server = createServer((request, response) => this.answer(request, response))
    this.server.maxConnections = CONNECTIONS_MAX
  }

  /** Listens on that port, 0 is any; resolves to its address. Rejects with the system's error. */
  async listen(port: number): Promise<string> {
    await new Promise<void>((resolve, reject) => {
      this.server.once('error', reject)
      this.server.listen(port, HOST, () => {
        this.server.off('error', reject)
        resolve()
      })
    })
    return `http://${HOST}:${this.port}/`
  }

  close(): void {
    this.server.close()
    this.server.closeAllConnections()
  }

  /** A look, and what has happened: for the pages that are open, and those that come. */
  take(look: Look, events: readonly HealthEvent[]): void {
    const told = webLook(look)
    this.looks.set(look.target, look)
    const points = this.points.get(told.target) ?? []
    this.points.set(told.target, [...points, told.point].slice(-POINTS_MAX))
    const happened = events.map(webEvent)
    this.events = [...this.events, ...happened].slice(-EVENTS_MAX)
    for (const one of happened) this.send('happened', one)
    this.send('look', told)
  }

  private get port(): number {
    return (this.server.address() as AddressInfo | null)?.port ?? 0
  }

  private answer(request: IncomingMessage, response: ServerResponse): void {
    for (const [name, value] of Object.entries(HEADERS)) response.setHeader(name, value)
    const { method, url = '/', headers } = request
    const hosts = [HOST, 'localhost'].map((name) => `${name}:${this.port}`)
    if (!hosts.includes(headers.host ?? '')) {
      refuse(response, 421, `this server is ${hosts.join(' or ')}`)
    } else if (method !== 'GET') {
      response.setHeader('Allow', 'GET')
      refuse(response, 405, 'only GET')
    } else {
      this.give(url.split('?')[0]!, response)
    }
  }

  private give(path: string, response: ServerResponse): void {
    const { html, script, style } = this.files
    if (path === '/') reply(response, 'text/html; charset=utf-8', html)
    else if (path === '/monitor.js') reply(response, 'text/javascript; charset=utf-8', script)
    else if (path === '/monitor.css') reply(response, 'text/css; charset=utf-8', style)
    else if (path === '/metrics') reply(response, METRICS_TYPE, metricsText(this.inOrder()))
    else if (path === '/events') this.stream(response)
    else refuse(response, 404, 'there are /, /events and /metrics')
  }

  private inOrder(): Look[] {
    return this.targets.flatMap((target) => this.looks.get(target) ?? [])
  }

  /** A page that is renewed (Server-Sent Events of the HTML standard). */
  private stream(response: ServerResponse): void {
    if (this.streams.size >= STREAMS_MAX) {
      response.setHeader('Retry-After', '10')
      refuse(response, 503, `there are ${STREAMS_MAX} pages open already`)
      return
    }
    response.writeHead(200, { 'Content-Type': 'text/event-stream; charset=utf-8' })
    response.write(`retry: ${RETRY_MS}\n\n`)
    this.streams.add(response)
    response.on('close', () => this.streams.delete(response))
    const looks = this.inOrder().map(webLook)
    const hello: WebHello = {
      ...{ targets: looks.map(({ target }) => target), intervalMs: this.intervalMs, looks },
      points: Object.fromEntries(this.points),
      events: this.events,
    }
    response.write(messageOf('hello', hello))
  }

  private send(name: string, value: unknown): void {
    const message = messageOf(name, value)
    for (const stream of this.streams) {
      stream.write(message)
      if (stream.writableLength > WAITING_MAX) stream.destroy()
    }
  }
}

/** JSON has no line breaks, and so is one line of data. */
function messageOf(name: string, value: unknown): string {
  return `event: ${name}\ndata: ${toJson(value)}\n\n`
}

function reply(response: ServerResponse, type: string, text: string): void {
  response.writeHead(200, { 'Content-Type': type })
  response.end(text)
}

function refuse(response: ServerResponse, status: number, why: string): void {
  response.writeHead(status, { 'Content-Type': 'text/plain; charset=utf-8' })
  response.end(`${why}\n`)
}
