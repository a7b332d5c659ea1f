/**
 * Control calls on a part or a host that fails under them, and calls that come a second time, and
 * differ (D-13, H4, H6, H7).
 */

import { describe, expect, test } from 'vitest'
import { HostRam } from '../../../boards/emulator/host/host-ram.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import type { Watch } from '../../../boards/emulator/run/machine.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { COPY_CLEAN, FENCE, FETCH_ADD } from '../../../firmware/board/hal.ts'
import { LINE_BYTES } from '../../../firmware/board/limits.ts'
import * as info from '../../../firmware/host/queue-info.ts'
import { get64, put64 } from '../../../firmware/manage/call.ts'
import { DATA_AT, LANES_AT } from '../../../firmware/medium/superblock.ts'
import { putU16, putU32, u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { dataOf, persistFrames, regionOf, TestCard } from '../../support/cards/test-card.ts'
import { partOf } from '../../support/crash/explorer.ts'
import { TWO } from '../../support/crash/superblock-pages.ts'
import { QueueHost } from '../../support/queues/queue-host.ts'

const STRICT = 2

function stateOf(card: TestCard): string {
  const body = card.must(mad.METHOD_GET, mad.ATTRIBUTE_STATUS)
  return body[mad.PART_STATE] === mad.STATE_SERVING ? 'serves' : FAULTS[body[mad.PART_FAULT]!]!.name
}

/** Tells the number of each fence, from 1, before it is executed. */
function fenceWatch(told: (fence: number) => void): Watch {
  let fences = 0
  return {
    onCommand: (_, op) => {
      if (op === FENCE) told(++fences)
    },
  }
}

describe('a part that fails', () => {
  test('D-13: a scan of a part that closed is refused, and reads nothing', () => {
    const card = new TestCard().format()
    const region = card.provision()
    const qp = card.connect(4096)
    card.nvdimm.fencesToFail = 1
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    const scan = card.manage(mad.METHOD_SET, mad.ATTRIBUTE_SCAN, (body) => {
      putU32(body, mad.SCAN_REGION, region.id)
    })
    expect(scan.fault).toBe('FLUSH')
  })

  test('D-13: a start does not serve if any of its fences fails; the next one does', () => {
    const card = new TestCard().format()
    const region = card.provision()
    const qp = card.connect(4096, 0, 7)
    // Cut before F4: copy A is durable, the lane says B, and the table does not know it.
    const dying = fenceWatch((fence) => {
      if (fence === 4) card.machine.die()
    })
    card.machine.observe(dying)
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1), { wait: 1 }))
    const content = card.nvdimm.durable
    for (let k = 1; ; k++) {
      const part = new Nvdimm({ bytes: content.length, content })
      const failing = fenceWatch((fence) => {
        if (fence === k) part.fencesToFail = 1
      })
      const state = stateOf(new TestCard(part, { watch: failing }))
      if (state === 'serves') {
        expect(k).toBeGreaterThan(4)
        return
      }
      expect([k, state]).toEqual([k, 'FLUSH'])
      const again = new TestCard(new Nvdimm({ bytes: content.length, content: part.durable }))
      expect(again.read(again.connect(4096), again.open('records'), 0, 0, 64)).toEqual(
        dataOf(64, 1),
      )
    }
  })

  test('D-13: a start with any one store that the board fails: the next one finds all', () => {
    const card = new TestCard().format()
    const region = card.provision()
    const qp = card.connect(4096, 0, 7)
    // Cut before F3: the lane is in use.
    card.machine.observe(
      fenceWatch((fence) => {
        if (fence === 3) card.machine.die()
      }),
    )
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    const content = card.nvdimm.durable
    const seen = new Set<string>()
    for (let k = 1, whole = false; !whole; k++) {
      const part = new Nvdimm({ bytes: content.length, content })
      let stores = 0
      const failing: Watch = {
        // It takes eight bytes only: the board refuses it, and it is no error of the medium.
        replace: (_, op) => (op === COPY_CLEAN && ++stores === k ? FETCH_ADD : op),
      }
      seen.add(stateOf(new TestCard(part, { watch: failing })))
      whole = stores < k
      const again = new TestCard(new Nvdimm({ bytes: content.length, content: part.durable }))
      expect(again.read(again.connect(4096), again.open('records'), 0, 0, 64)).toEqual(
        dataOf(64, 1),
      )
    }
    expect([...seen].sort()).toEqual(['FLUSH', 'serves'])
  })

  test('D-13: so it does where a copy and the table of operations have to be written', () => {
    const content = partOf(TWO, [TWO.fresh, TWO.old], TWO.laneB).durable
    const recordIn = (bytes: Uint8Array): Uint8Array | null => {
      const card = new TestCard(new Nvdimm({ bytes: bytes.length, content: bytes }))
      const qp = card.connect(4096)
      const region = regionOf(card.must(mad.METHOD_GET, mad.ATTRIBUTE_REGION))
      return card.read(qp, region, 0, 0, 64)
    }
    const record = recordIn(content)
    expect(record).not.toBeNull()
    const states: string[] = []
    for (let k = 1, whole = false; !whole; k++) {
      const part = new Nvdimm({ bytes: content.length, content })
      let stores = 0
      const failing: Watch = {
        replace: (_, op) => (op === COPY_CLEAN && ++stores === k ? FETCH_ADD : op),
      }
      states.push(stateOf(new TestCard(part, { watch: failing })))
      whole = stores < k
      expect(recordIn(part.durable)).toEqual(record)
    }
    // The copy, the line of the table, and both pages of the superblock.
    expect(states.slice(0, 4)).toEqual(['FLUSH', 'FLUSH', 'FLUSH', 'FLUSH'])
    expect(states.at(-1)).toBe('serves')
  })

  test('D-13: a region whose very first line is refused is not made', () => {
    const card = new TestCard(1 << 20).format()
    card.nvdimm.refuseWrites(DATA_AT / LINE_BYTES)
    expect(() => card.provision({ slots: 8, capacity: 64 })).toThrow('MEDIA')
  })

  test('D-13: a region whose making is refused in its midst is not there afterwards', () => {
    const card = new TestCard(1 << 20).format()
    const lines = card.nvdimm.bytes / LINE_BYTES
    const shape = { slots: 2000, capacity: 64 }
    // The first slots are written in lists of their own, before the line that refuses.
    card.nvdimm.refuseWrites(LANES_AT / LINE_BYTES + 4000)
    expect(() => card.provision(shape)).toThrow('MEDIA')
    for (let line = 0; line < lines; line++) card.nvdimm.refuseWrites(line, false)
    expect(card.provision(shape)).toMatchObject({ slots: 2000 })
  })
})

test('a size has 64 bits, the upper word first: none is cut short', () => {
  const bytes = new Uint8Array(16).fill(0xa5)
  for (const size of [0, 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 3 * 2 ** 32 + 7, 2 ** 53 - 1]) {
    put64(bytes, 4, size)
    expect(get64(bytes, 4)).toBe(size)
    expect([u32(bytes, 4), u32(bytes, 8)]).toEqual([Math.floor(size / 2 ** 32), size % 2 ** 32])
  }
  expect([bytes[3], bytes[12]]).toEqual([0xa5, 0xa5])
})

describe('calls that come again, and differ', () => {
  test('a region of that name, but elsewhere or of other flags, is another one', () => {
    const card = new TestCard().format()
    const bytes = { name: 'bytes', kind: mad.KIND_BYTES, length: 4096 }
    expect(card.tryProvision({ ...bytes, flags: 0x8000 }).fault).toBe('REQUEST')
    expect(card.tryProvision(bytes).fault).toBe('PASS')
    expect(card.tryProvision(bytes).fault).toBe('PASS')
    expect(card.tryProvision({ ...bytes, flags: STRICT }).fault).toBe('REGION_EXISTS')
    expect(card.tryProvision({ ...bytes, length: 8192 }).fault).toBe('REGION_EXISTS')
  })

  test('ATTACH takes an IPv6 address, of sixteen bytes', () => {
    const card = new TestCard().format()
    const attach = (last: number): string =>
      card.manage(mad.METHOD_SET, mad.ATTRIBUTE_ATTACH, (body) => {
        body.set(new TextEncoder().encode('far'), mad.REGION_NAME)
        body[mad.ATTACH_IP_VERSION] = 6
        body.set([0xfd, ...new Uint8Array(14), last], mad.ATTACH_ADDRESS)
        putU16(body, mad.ATTACH_PORT, 18515)
      }).fault
    expect(attach(9)).toBe('CONNECTING')
    expect(attach(9)).toBe('CONNECTING')
    expect(attach(8), 'another target, to the last byte').toBe('REGION_EXISTS')
  })

  test('CONNECT finds a connection of before by its numbers, but never one of the own host', () => {
    const card = new TestCard(1 << 18, { ram: new HostRam(1 << 20) })
    card.format()
    const host = new QueueHost(card).init()
    const cq = host.createCq(16)
    const { send, number } = host.createQp(cq, { type: info.TYPE_CONNECTED, units: 8, client: 7 })
    host.must(mad.METHOD_SET, mad.ATTRIBUTE_MODIFY_QP, (body) => {
      putU32(body, mad.MODIFY_QP_SEND, send)
      body[mad.MODIFY_QP_STATE] = info.QUEUE_READY
      putU16(body, mad.MODIFY_QP_MTU, 1024)
      putU32(body, mad.MODIFY_QP_PEER, 0x777)
      body[mad.MODIFY_QP_DEPTH] = 16
      body.set([2, 0, 0, 0, 0, 3], mad.MODIFY_QP_MAC)
      body.set([10, 0, 0, 3], mad.MODIFY_QP_IPV4)
    })
    const connect = (): number => {
      const body = card.must(mad.METHOD_SET, mad.ATTRIBUTE_CONNECT, (request) => {
        putU32(request, mad.CONNECT_CLIENT_QP, 0x777)
        putU16(request, mad.CONNECT_PATH_MTU, 1024)
        putU32(request, mad.CONNECT_CLIENT_ID_LOW, 7)
      })
      return u32(body, mad.CONNECT_QP)
    }
    const first = connect()
    expect(first).not.toBe(number)
    expect(connect(), 'the same call once more').toBe(first)
  })
})
