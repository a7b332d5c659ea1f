/**
 * Long lives of parts whose records lie in the host's memory: random work, cuts and agents, for
 * both placements (crash-model 2.5; source 2).
 */

import { expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { DDIO_OFF, DDIO_ON, NO_SNOOP_HONOURED } from '../../../boards/emulator/host/host-memory.ts'
import { cut } from '../../../boards/emulator/medium/power-cut.ts'
import { FLUSH_TIMEOUT_US } from '../../../firmware/board/limits.ts'
import { VIEW_DATA } from '../../../firmware/burst/view.ts'
import { PLACEMENT_BYPASS, PLACEMENT_THROUGH } from '../../../firmware/medium/region.ts'
import {
  type Agent,
  attachedAgent,
  believe,
  cutPower,
  placed,
  restarted,
  SEED,
} from '../../support/cards/placed.ts'
import {
  dataOf,
  persistFrames,
  type Sent,
  type TestCard,
  type TestPeer,
} from '../../support/cards/test-card.ts'
import { thoroughIf } from '../../support/run/thorough.ts'

// Hundreds of starts in one test: a busy machine takes its time.
const IN_DOUBT = 0x8f
const SLOTS = 4
const LIVES = 120

/** One write of a record, and what is known of it. */
interface Issued {
  readonly data: Uint8Array
  state: 'open' | 'durable' | 'refused'
}

/** What a client knows of a part. */
class Client {
  /** Per slot, in the order in which they were sent; the first is what was there. */
  readonly records: Issued[][]
  private readonly sent: Map<number, Issued> = new Map()
  acknowledged = 0

  constructor() {
    const blank = (): Issued[] => [{ data: new Uint8Array(64), state: 'durable' }]
    this.records = Array.from({ length: SLOTS }, blank)
  }

  write(qp: TestPeer, region: { readonly rkey: number }, slot: number, seed: number, wait: number) {
    const issued: Issued = { data: dataOf(64, seed), state: 'open' }
    this.records[slot]!.push(issued)
    this.sent.set(qp.psn, issued)
    return persistFrames(qp, region, slot, issued.data, { wait })
  }

  note(frames: readonly Sent[]): void {
    for (const { paeth } of frames) {
      if (paeth === null) continue
      for (let psn = paeth.firstPsn; psn <= paeth.lastPsn; psn++) {
        const issued = this.sent.get(psn)
        if (issued === undefined) continue
        if (paeth.status === 0) {
          issued.state = 'durable'
          this.acknowledged += 1
        } else if (paeth.status !== IN_DOUBT) issued.state = 'refused'
      }
    }
  }

  /** After a restart: what may stand there, and does. */
  judge(slot: number, found: Uint8Array | null, name: string): void {
    const issued = this.records[slot]!
    const last = issued.findLastIndex(({ state }) => state === 'durable')
    const allowed = issued.slice(last).filter(({ state }) => state !== 'refused')
    const is = allowed.find(({ data }) => found !== null && Buffer.compare(data, found) === 0)
    expect(is, `${name}, slot ${slot}`).toBeDefined()
    this.records[slot] = [{ data: is!.data, state: 'durable' }]
  }

  forget(): void {
    this.sent.clear()
  }
}

/** The card alone goes: what it had sent arrives or not, and the host's caches stay as they are. */
function resetCard({ machine, host, nvdimm }: TestCard, random: Random): void {
  machine.die()
  host!.arrive(random.below(host!.postedWrites + 1))
  cut(nvdimm, { random })
}

/** A life: random writes, with the agent now and then asleep or replaced, until the power goes. */
function live(card: TestCard, client: Client, random: Random, seeds: { next: number }): void {
  const through = card.host!.platform === DDIO_ON
  let agent: Agent | null = through ? attachedAgent(card) : null
  const region = card.open()
  const qp = card.connect()
  card.machine.armCut(random.below(260))
  while (!card.machine.dead) {
    const frames: Uint8Array[] = []
    for (let i = 1 + random.below(4); i > 0; i--) {
      const wait = 1 + random.below(2)
      frames.push(...client.write(qp, region, random.below(SLOTS), seeds.next++, wait))
    }
    client.note(card.serve(...frames))
    for (let i = random.below(8); i > 0 && !card.machine.dead; i--) {
      if (random.chance(0.9)) agent?.poll()
      if (through && random.chance(0.02)) card.now += FLUSH_TIMEOUT_US
      card.sent = []
      card.idle()
      client.note(card.sent)
    }
    if (!through || card.machine.dead || random.chance(0.9)) continue
    try {
      agent = attachedAgent(card)
    } catch (error) {
      // The power went while it was attaching.
      if (!card.machine.dead) throw error
    }
  }
}

for (const [name, platform, placement] of [
  ['bypass', DDIO_OFF, PLACEMENT_BYPASS],
  ['bypass by no-snoop', NO_SNOOP_HONOURED, PLACEMENT_BYPASS],
  ['through', DDIO_ON, PLACEMENT_THROUGH],
] as const) {
  test(
    `X-1, X-2: ${name}: no record that was acknowledged is ever lost or torn`,
    thoroughIf(name === 'bypass by no-snoop'),
    () => {
      const random = new Random(SEED + placement)
      const made = placed(platform, { slots: SLOTS, copies: 2 })
      let { card } = made
      const client = new Client()
      const seeds = { next: 1 }
      for (let life = 0; life < LIVES; life++) {
        live(card, client, random, seeds)
        if (random.chance(0.25)) resetCard(card, random)
        else cutPower({ card, host: card.host! }, { random })
        if (random.chance(0.5)) {
          // A start, and another cut before anybody came.
          const short = restarted({ card, host: card.host! })
          short.idle()
          cutPower({ card: short, host: short.host! }, { random })
        }
        card = restarted({ card, host: card.host! })
        client.forget()
        const qp = card.connect()
        for (let slot = 0; slot < SLOTS; slot++) {
          const found = card.read(qp, card.open(), slot, VIEW_DATA, 64)
          client.judge(slot, found, `life ${life}, SEED=${SEED}`)
        }
        believe(card, placement)
      }
      expect(client.acknowledged).toBeGreaterThan(LIVES)
    },
  )
}
