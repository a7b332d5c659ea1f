/**
 * Names of regions at the card: who gives a region a name that does harm is refused, wherever it is
 * given, and nothing is stored; a part that has such names already serves them as ever.
 */

import { describe, expect, test } from 'vitest'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { CONNECTING, FAULTS } from '../../../firmware/board/fault.ts'
import { KIND_ON_DEMAND, KIND_RECORDS } from '../../../firmware/medium/region.ts'
import { putU16 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  GOOD_NAMES,
  HOSTILE_NAMES,
  NAME_BYTES,
  renamed,
} from '../../support/cards/hostile-names.ts'
import { attaching } from '../../support/cards/relay-wire.ts'
import {
  asksFor,
  dataOf,
  persistAcks,
  persistFrames,
  TestCard,
} from '../../support/cards/test-card.ts'
import { fillOnDemand, OnDemandHost } from '../../support/residency/on-demand.ts'

const { METHOD_GET, METHOD_SET } = mad

/** What is refused everywhere: names, and good ones with something behind their end. */
const REFUSED: readonly (readonly [what: string, field: Uint8Array])[] = [
  ['nothing', new Uint8Array(NAME_BYTES)],
  ...HOSTILE_NAMES.map(([what, name]) => [what, fieldOf(name)] as const),
  ['a byte behind the end', fieldOf(Buffer.from('orders\0\0x'))],
  ['a byte at the end of the field', Uint8Array.from(fieldOf(Buffer.from('orders'))).fill(1, 31)],
]

function fieldOf(name: Uint8Array): Uint8Array {
  const field = new Uint8Array(NAME_BYTES)
  field.set(name)
  return field
}

/** A call with another name than it is filled with. */
function named(field: Uint8Array, fill: (body: Uint8Array) => void): (body: Uint8Array) => void {
  return (body) => {
    fill(body)
    body.set(field, mad.REGION_NAME)
  }
}

function namesOf(card: TestCard): string[] {
  const names: string[] = []
  for (let place = 0; ; place++) {
    const { fault, body } = card.manage(METHOD_GET, mad.ATTRIBUTE_REGION, undefined, place)
    if (fault !== 'PASS') return names
    const end = body.indexOf(0)
    names.push(Buffer.from(body.subarray(0, Math.min(end, NAME_BYTES))).toString('latin1'))
  }
}

/** Asks until it is there. */
function provision(card: TestCard, fill: (body: Uint8Array) => void): string {
  for (;;) {
    const { fault } = card.manage(METHOD_SET, mad.ATTRIBUTE_PROVISION, fill)
    if (fault !== 'UNDER_WAY') return fault
  }
}

describe('a name that does harm', () => {
  test.each([
    ['records', asksFor({})],
    ['bytes', asksFor({ kind: mad.KIND_BYTES, length: 4096 })],
  ] as const)('PROVISION of %s refuses it, and stores nothing', (_, fill) => {
    const card = new TestCard().format()
    const before = card.nvdimm.durable.slice()
    for (const [what, field] of REFUSED) {
      expect([what, provision(card, named(field, fill))]).toEqual([what, 'REQUEST'])
    }
    expect(Buffer.compare(card.nvdimm.durable, before)).toBe(0)
    expect(namesOf(card)).toEqual([])
    expect(provision(card, fill)).toBe('PASS')
  })

  test('ATTACH refuses it, and connects to nobody', () => {
    const card = new TestCard().format()
    for (const [what, field] of REFUSED) {
      const { fault } = card.manage(METHOD_SET, mad.ATTRIBUTE_ATTACH, named(field, attaching()))
      expect([what, fault]).toEqual([what, 'REQUEST'])
    }
    const { fault } = card.manage(METHOD_SET, mad.ATTRIBUTE_ATTACH, attaching())
    expect(fault).toBe(FAULTS[CONNECTING]!.name)
  })

  test('ON_DEMAND refuses it, and the host keeps its place', () => {
    const host = new OnDemandHost()
    for (const [what, field] of REFUSED) {
      const { fault } = host.call(mad.ATTRIBUTE_ON_DEMAND, named(field, fillOnDemand()))
      expect([what, fault]).toEqual([what, 'REQUEST'])
    }
    expect(host.tryRegister().fault).toBe('PASS')
  })
})

describe('a name as any other', () => {
  test('regions of such names are made, told and opened, each by its own', () => {
    const card = new TestCard(1 << 20).format()
    for (const name of GOOD_NAMES) card.provision({ name, slots: 1 })
    expect(namesOf(card)).toEqual(GOOD_NAMES.map((n) => Buffer.from(n).toString('latin1')))
    const again = new TestCard(new Nvdimm({ bytes: 1 << 20, content: card.nvdimm.durable }))
    expect(namesOf(again)).toEqual(namesOf(card))
    const ids = GOOD_NAMES.map((name) => again.open(name).id)
    expect(new Set(ids).size).toBe(GOOD_NAMES.length)
    expect(() => again.open('valueOf')).toThrow('NO_REGION')
  })

  test('and memory on demand, and relays', () => {
    const host = new OnDemandHost()
    for (const name of ['__proto__', 'données']) {
      expect(host.tryRegister({ name }).fault).toBe('PASS')
      expect(host.tryRegister({ name }).fault).toBe('REGION_EXISTS')
      const body = host.card.must(
        METHOD_GET,
        mad.ATTRIBUTE_OPEN,
        named(fieldOf(Buffer.from(name)), () => {}),
      )
      expect(body[mad.REGION_KIND]).toBe(KIND_ON_DEMAND)
    }
    const card = new TestCard().format()
    for (const name of ['__proto__', '数据']) {
      const attach = attaching(name)
      expect(card.manage(METHOD_SET, mad.ATTRIBUTE_ATTACH, attach).fault).toBe('CONNECTING')
    }
  })
})

describe('a part that has such a name already', () => {
  test.each(HOSTILE_NAMES)('%s: it is served by its bytes, and not made', (_, name) => {
    const made = new TestCard().format()
    const region = made.provision({ name: 'orders' })
    const first = persistFrames(made.connect(), region, 3, dataOf(64, 1))
    expect(persistAcks(made.serve(...first))).toHaveLength(1)
    const content = renamed(made.nvdimm.durable, 'orders', name)
    const card = new TestCard(new Nvdimm({ bytes: content.length, content }))
    const field = fieldOf(name)
    expect(namesOf(card)).toEqual([Buffer.from(name).toString('latin1')])
    const qp = card.connect()
    const body = card.must(
      METHOD_GET,
      mad.ATTRIBUTE_OPEN,
      named(field, () => {}),
    )
    expect(body[mad.REGION_KIND]).toBe(KIND_RECORDS)
    expect([...body.subarray(0, NAME_BYTES)]).toEqual([...field])
    const opened = { ...region, rkey: new DataView(body.buffer, body.byteOffset).getUint32(56) }
    expect(card.read(qp, opened, 3, 0, 64)).toEqual(dataOf(64, 1))
    expect(persistAcks(card.serve(...persistFrames(qp, opened, 3, dataOf(64, 2))))).toHaveLength(1)
    const published = named(field, (request) => putU16(request, mad.PUBLISH_PORT, 7471))
    card.must(METHOD_SET, mad.ATTRIBUTE_PUBLISH, published)
    expect(provision(card, named(field, asksFor({})))).toBe('REQUEST')
    card.must(
      METHOD_SET,
      mad.ATTRIBUTE_REMOVE,
      named(field, () => {}),
    )
    expect(namesOf(card)).toEqual([])
  })
})
