/**
 * The host as a party of its own: it restarts while its card serves on, comes back as another one,
 * is away, and loses writes (R1-A1, R1-A2, R1-C1, R1-C2, R1-C3, R1-C9; crash-model 4.4).
 *
 * Invariant: what is judged is what the host's memory holds when its caches are gone once
 * more, beside what the card has said of it.
 */

import { Random } from '../../../../boards/emulator/base/random.ts'
import { DDIO_OFF, DDIO_ON, HostMemory } from '../../../../boards/emulator/host/host-memory.ts'
import { HostRam } from '../../../../boards/emulator/host/host-ram.ts'
import { Nvdimm } from '../../../../boards/emulator/medium/nvdimm.ts'
import { HOST_DATA_AT, PLACEMENT_BYPASS } from '../../../../firmware/medium/region.ts'
import { KIND_BYTES } from '../../../../firmware/wire/management.ts'
import { PERSIST_QUERY } from '../../../../firmware/wire/opcode.ts'
import {
  agentOfNewHost,
  believe,
  cutPower,
  placed,
  queueHostOf,
  restartHost,
  work,
} from '../../../support/cards/placed.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  type Sent,
  TestCard,
} from '../../../support/cards/test-card.ts'
import { sameBytes } from '../../../support/judges/oracle.ts'
import { frameOf } from '../../../support/wire/frames.ts'
import { writeFrames } from '../../../support/wire/requests.ts'
import type { Play } from '../killer.ts'

/** Bytes of the area of one copy in the host's memory, and where the data of its record begins. */
const AREA = 4096
const DATA = 64

const NEW = dataOf(16, 2)

const isDurable = (sent: readonly Sent[]): boolean =>
  persistAcks(sent).some(({ status }) => status === 0)

/** A card whose client has sent NEW behind an old record, and an agent that rings so often. */
function underWay(copies: number, bells: number) {
  const one = placed(DDIO_ON, { capacity: 16, copies })
  const { card, region, agent } = one
  const qp = card.connect(4096, 0, 7)
  card.serve(...persistFrames(qp, region, 0, dataOf(16, 1)))
  work(card, agent!)
  card.serve(...persistFrames(qp, region, 0, NEW, { wait: copies }))
  for (let i = 0; i < bells; i++) {
    agent!.poll()
    card.idle()
    card.idle()
  }
  return { ...one, qp }
}

/** The host restarts behind every bell; what its next agent has written back is there for good. */
function restarts(): string | null {
  for (let bells = 0; bells <= 2; bells++) {
    const { card, host } = underWay(2, bells)
    restartHost(card)
    work(card, agentOfNewHost(card))
    restartHost(card)
    for (const copy of [0, 1]) {
      const { bytes } = host.load(HOST_DATA_AT + copy * AREA + DATA, NEW.length)
      if (!sameBytes(bytes!, NEW)) return `behind ${bells} bells: copy ${copy} is gone`
    }
  }
  return null
}

/** A posted write is lost, and nobody knows: an answer speaks for what is there. */
function lostWrite(): string | null {
  const { card, host, region, agent, qp } = underWay(2, 3)
  const data = dataOf(16, 3)
  const { link } = card.host!
  link.contains = false
  let writes = 0
  link.script = ({ kind, memory }) =>
    kind === 'write' && memory === 'persistent' && writes++ === 0 ? 'lost' : undefined
  const sent = card.serve(...persistFrames(qp, region, 0, data, { wait: 1 }))
  for (let i = 0; i < 6; i++) {
    agent!.poll()
    card.sent = []
    card.idle()
    sent.push(...card.sent)
  }
  restartHost(card)
  const { bytes } = host.load(HOST_DATA_AT + DATA, data.length)
  return isDurable(sent) && !sameBytes(bytes!, data) ? 'a lost write is acknowledged' : null
}

/** An operation that is to be durable in three copies is not known for two. */
function knownEarly(): string | null {
  const { card, qp } = underWay(3, 2)
  const bth = { opcode: PERSIST_QUERY, destQp: qp.number, psn: qp.psn, ackRequest: true }
  const sent = card.serve(frameOf({ bth, pqeth: { operationLow: qp.operation } }))
  return isDurable(sent) ? 'it is known before its copies are' : null
}

/** A card past the caches of a host that has queues, with a record of its own and one there. */
function pastTheCaches() {
  const host = new HostMemory({ part: new Nvdimm({ bytes: 1 << 15 }), platform: DDIO_OFF })
  const card = new TestCard(1 << 16, { host, ram: new HostRam(1 << 17, host.link) }).format()
  queueHostOf(card)
  believe(card, PLACEMENT_BYPASS)
  const far = card.provision({ name: 'far', slots: 2, capacity: 16, placement: PLACEMENT_BYPASS })
  const near = card.provision({ name: 'near', slots: 2, capacity: 16 })
  return { card, host, far, near, qp: card.connect(4096, 0, 7) }
}

/** The host comes back set up otherwise: nothing is durable there before it is probed. */
function anotherHost(): string | null {
  const { card, far, qp } = pastTheCaches()
  restartHost(card, { platform: DDIO_ON })
  const sent = card.serve(...persistFrames(qp, far, 0, NEW))
  return isDurable(sent) ? 'a record is durable as an earlier host has shown' : null
}

/** The host is away: what does not need it is served, in the same burst and behind it. */
function hostAway(): string | null {
  const { card, host, far, near, qp } = pastTheCaches()
  const other = card.connect(4096, 0, 8)
  host.link.remove()
  const both = [...persistFrames(qp, far, 0, NEW), ...persistFrames(other, near, 0, NEW)]
  const durable = persistAcks(card.serve(...both)).filter(({ status }) => status === 0)
  if (durable.length !== 1) return `${durable.length} records are durable, and one can be`
  const shape = { name: 'bytes', kind: KIND_BYTES, length: 4096, flags: 2 }
  const bytes = pastTheCaches()
  const region = bytes.card.provision({ ...shape, placement: PLACEMENT_BYPASS })
  bytes.host.link.remove()
  bytes.card.serve(...writeFrames(bytes.qp, region, 0, NEW))
  const third = bytes.card.connect(4096, 0, 9)
  const sent = bytes.card.serve(...persistFrames(third, bytes.near, 1, NEW))
  return isDurable(sent) ? null : 'a host that is away closes the part'
}

/** The card starts without its host: what was acknowledged is there when the host is. */
function startAlone(): string | null {
  for (let command = 0; ; command++) {
    const { card, host, far, qp } = pastTheCaches()
    card.serve(...persistFrames(qp, far, 0, dataOf(16, 1)))
    card.machine.armCut(command)
    const acknowledged = isDurable(card.serve(...persistFrames(qp, far, 0, NEW, { wait: 1 })))
    const ended = !card.machine.dead
    cutPower({ card, host }, { random: new Random(command), strategy: 'none' })
    const back = new HostMemory({ part: host.part, platform: DDIO_OFF })
    back.link.remove()
    const early = new TestCard(card.nvdimm, { host: back })
    early.idle()
    early.machine.die()
    back.comeBack()
    const next = new TestCard(card.nvdimm, { host: back })
    believe(next, PLACEMENT_BYPASS)
    const found = next.read(next.connect(), next.open('far'), 0, 0, 16)
    if (acknowledged && !sameBytes(found!, NEW)) return `command ${command}: it is gone`
    const copies = [0, 1].map((copy) => back.load(HOST_DATA_AT + copy * AREA, 128).bytes!)
    if (!sameBytes(copies[0]!, copies[1]!)) return `command ${command}: its copies are not one`
    if (ended) return null
  }
}

export const HOSTS: Readonly<Record<string, Play>> = {
  'a host that restarts': restarts,
  'a write that is lost': lostWrite,
  'a question before the bells': knownEarly,
  'another host': anotherHost,
  'a host that is away': hostAway,
  'a start without its host': startAlone,
}
