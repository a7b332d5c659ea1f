/** The tables of `firmware/wire/` as the dissector has them: one value of Lua. */

import { KIND_ACK, KIND_RNR, SYNDROME_KIND } from '../../../../firmware/wire/aeth.ts'
import * as bth from '../../../../firmware/wire/bth.ts'
import { u32 } from '../../../../firmware/wire/bytes.ts'
import {
  blankCapability,
  CAPABILITY_BYTES,
  writeCapability,
} from '../../../../firmware/wire/capability.ts'
import * as cm from '../../../../firmware/wire/cm.ts'
import * as ethernet from '../../../../firmware/wire/ethernet.ts'
import { PLACEMENT_PERSISTENT } from '../../../../firmware/wire/feth.ts'
import { ICRC_BYTES } from '../../../../firmware/wire/icrc.ts'
import * as ipv4 from '../../../../firmware/wire/ipv4.ts'
import * as ipv6 from '../../../../firmware/wire/ipv6.ts'
import * as management from '../../../../firmware/wire/management.ts'
import { ENTRY_BYTES, FORM_LIST } from '../../../../firmware/wire/memory-status.ts'
import {
  has,
  OPCODES,
  type OpcodeRow,
  PAYLOAD_EIGHT,
  PAYLOAD_FULL,
  PAYLOAD_NONE,
  RC_ATOMIC_WRITE,
  RC_FLUSH,
  RC_READ_RESPONSE_FIRST,
  REQUEST,
  RESPONSE,
} from '../../../../firmware/wire/opcode.ts'
import {
  CONDITION_EXPECT,
  EXPECT_EXTENSION_BYTES,
  GUARD_EXTENSION_BYTES,
} from '../../../../firmware/wire/persist.ts'
import { TRAILER_BYTES, TRAILER_TAG } from '../../../../firmware/wire/tag.ts'
import * as udp from '../../../../firmware/wire/udp.ts'
import {
  ATTRIBUTE_NAMES,
  CM_NAMES,
  FAULT_NAMES,
  METHOD_NAMES,
  NAK_NAMES,
  type Names,
  nameOfRow,
  OPCODE_NAMES,
  STATUS_NAMES,
} from '../names.ts'
import { BODIES, NAME_BYTES } from './bodies.ts'
import { BLOCK_WORDS_MIN, PRIVATE_AT } from './cm-headers.ts'
import type { Header, Shown } from './header.ts'
import type { Place } from './place.ts'

/** What Lua is given: numbers, texts, truths, lists from 1 on, tables by name or by number. */
export type Value = number | string | boolean | readonly Value[] | Table
export type Table = { readonly [name: string]: Value } | ReadonlyMap<number, Value>

const CONSTANTS: Table = {
  ethernet: { bytes: ethernet.ETHERNET_BYTES, type: ethernet.ETH_TYPE, vlan: ethernet.VLAN_BYTES },
  ethertypes: {
    ipv4: ethernet.ETHERTYPE_IPV4,
    ipv6: ethernet.ETHERTYPE_IPV6,
    vlan: ethernet.ETHERTYPE_VLAN,
  },
  ipv4: {
    bytes: ipv4.IPV4_BYTES,
    version: ipv4.IPV4_VERSION_5_WORDS,
    length: ipv4.IPV4_TOTAL_LENGTH,
    protocol: ipv4.IPV4_PROTOCOL,
    fragment: ipv4.IPV4_FRAGMENT,
  },
  ipv6: {
    bytes: ipv6.IPV6_BYTES,
    length: ipv6.IPV6_PAYLOAD_LENGTH,
    protocol: ipv6.IPV6_NEXT_HEADER,
  },
  udp: {
    bytes: udp.UDP_BYTES,
    protocol: udp.PROTOCOL_UDP,
    port: udp.UDP_DESTINATION_PORT,
    length: udp.UDP_LENGTH,
    roce: udp.ROCE_PORT,
  },
  bth: {
    bytes: bth.BTH_BYTES,
    opcode: bth.BTH_OPCODE,
    flags: bth.BTH_FLAGS,
    pkey: bth.BTH_PKEY,
    partition: bth.PKEY_DEFAULT,
    qp: bth.BTH_DEST_QP,
    psn: bth.BTH_PSN,
    congestion: bth.BTH_CONGESTION,
  },
  icrc: { bytes: ICRC_BYTES },
  trailer: { bytes: TRAILER_BYTES, tag: TRAILER_TAG },
  syndrome: { kind: SYNDROME_KIND, ack: KIND_ACK, rnr: KIND_RNR },
  payloads: { none: PAYLOAD_NONE, full: PAYLOAD_FULL, eight: PAYLOAD_EIGHT },
  memory: { list: FORM_LIST, entry: ENTRY_BYTES },
  pweth: {
    expect: CONDITION_EXPECT,
    expect_bytes: EXPECT_EXTENSION_BYTES,
    guard_bytes: GUARD_EXTENSION_BYTES,
  },
  flush: { opcode: RC_FLUSH, persistent: PLACEMENT_PERSISTENT },
  mad: {
    bytes: management.MAD_BYTES,
    base_version: management.BASE_VERSION,
    class: management.MAD_CLASS,
    vendor: management.CLASS_VENDOR,
    class_version: management.CLASS_VERSION,
    class_version_at: management.MAD_CLASS_VERSION,
    magic: management.MANAGEMENT_MAGIC,
    magic_at: management.MAD_MAGIC,
    version: management.MANAGEMENT_VERSION,
    version_at: management.MAD_VERSION,
    sealed: management.SEALED_VERSION,
    body: management.MAD_BODY,
    response: management.METHOD_RESPONSE,
    connect: management.ATTRIBUTE_CONNECT,
    name_bytes: NAME_BYTES,
  },
  sealed: {
    bytes: management.SEALED_BODY_BYTES,
    tag: management.SEALED_TAG,
    session: management.SEALED_SESSION,
    counter: management.SEALED_COUNTER_HIGH,
  },
  cm: {
    bytes: cm.CM_BYTES,
    class: cm.CM_CLASS,
    class_version: cm.CM_CLASS_VERSION,
    method: cm.CM_METHOD_SEND,
    method_at: management.MAD_METHOD,
    body: cm.CM_BODY,
    req: cm.CM_REQ,
    rep: cm.CM_REP,
    req_private: PRIVATE_AT.req + cm.IP_CM_USER,
    rep_private: PRIVATE_AT.rep,
  },
}

/** A block as it begins: with its magic, its version and its length in words. */
const CAPABILITY = new Uint8Array(CAPABILITY_BYTES)
writeCapability(CAPABILITY, 0, blankCapability())

/** Opcodes that Wireshark 4.0 does not know, beside ours. */
const NEWER: readonly number[] = [RC_FLUSH, RC_ATOMIC_WRITE]

/** What a request is called, whatever the packet's place in its message. */
function operationOf(row: OpcodeRow): string {
  return nameOfRow(row).replace(
    / (First|Middle|Last|Only|Request)( with (Immediate|Invalidate))?$/,
    '',
  )
}

function rowOf(row: OpcodeRow, headers: readonly string[]): Table {
  const places = headers.map((name) => [name, row[`${name}At` as keyof OpcodeRow]] as const)
  const chain = places.filter(([, at]) => typeof at === 'number' && at > 0)
  return {
    name: nameOfRow(row),
    operation: operationOf(row),
    ours: row.name.startsWith('Perdure '),
    newer: NEWER.includes(row.opcode),
    transport: row.transport,
    header_bytes: row.headerBytes,
    payload: row.payload,
    request: has(row.properties, REQUEST),
    response: has(row.properties, RESPONSE),
    begins: row.begins,
    ends: row.ends,
    reads: row.opcode === RC_READ_RESPONSE_FIRST,
    chain: chain
      .sort((a, b) => Number(a[1]) - Number(b[1]))
      .map(([name, at]) => ({ name, at: at as number })),
  }
}

/** How Wireshark has numbers of so many bits. */
const WIDTHS = [8, 16, 24, 32, 64]

/** How Wireshark has what stands there, with what is added to it. */
function typeOf({ count, plus }: Place, scaled: boolean): string {
  if (count === 2) return 'bool'
  const most = scaled ? 2 ** 32 - 1 : count - 1 + plus
  return `uint${WIDTHS.find((bits) => most < 2 ** bits) ?? 64}`
}

function fieldOf(header: Header, name: string, one: Shown): Table {
  const fields = one.low === undefined ? [name] : [name, one.low]
  const place = header.asked.placeOf(fields, one.only)
  return {
    ...{ key: name, field: one.name, at: place.at, bytes: place.bytes },
    ...{ divisor: place.divisor, count: place.bytes > 4 ? 0 : place.count, plus: place.plus },
    ...(one.only === undefined ? {} : { only: one.only }),
    ...(one.unless === undefined ? {} : { unless: one.unless }),
    ...(one.scaled === true ? { scaled: true } : {}),
    bit: place.count === 2,
  }
}

function headerTable(header: Header): Table {
  const fields = [...header.fields].map(([name, one]) => fieldOf(header, name, one))
  return { title: header.title, bytes: header.length, fields }
}

interface Declared {
  readonly type: string
  readonly label: string
  readonly hex: boolean
  readonly names: Names | undefined
}

/** Every field by its name; the same name is the same field, wherever it is shown. */
function declarations(headers: Readonly<Record<string, Header>>): Map<string, Declared> {
  const found = new Map<string, Declared>()
  for (const header of Object.values(headers)) {
    for (const [name, { low, only, scaled, label, hex, names, name: filter }] of header.fields) {
      const place = header.asked.placeOf(low === undefined ? [name] : [name, low], only)
      const type = typeOf(place, scaled === true)
      declare(found, filter, { type, label, hex: hex === true, names })
    }
  }
  for (const { fields } of BODIES) {
    for (const { name, label, bytes, hex, names } of fields) {
      const type = bytes === 'text' ? 'string' : `uint${8 * bytes}`
      declare(found, name, { type, label, hex: hex === true, names })
    }
  }
  return found
}

function declare(found: Map<string, Declared>, name: string, one: Declared): void {
  const before = found.get(name)
  if (before === undefined || widthOf(one.type) > widthOf(before.type)) found.set(name, one)
  else if (before.type.slice(0, 4) !== one.type.slice(0, 4)) {
    throw new Error(`perdure.${name} is ${before.type} here and ${one.type} there`)
  }
}

function widthOf(type: string): number {
  return Number(/\d+$/.exec(type)?.[0] ?? 0)
}

function bodyTables(side: 'request' | 'answer'): Table {
  const found = new Map<number, Value>()
  for (const body of BODIES.filter((one) => one.side === side)) {
    const fields = body.fields.map(({ name, at, bytes }) => ({ field: name, at, bytes }))
    for (const attribute of body.attributes) found.set(attribute, fields)
  }
  return found
}

/** All that the dissector knows of the wire, from those headers. */
export function wireTables(headers: Readonly<Record<string, Header>>): Table {
  const names = Object.keys(headers)
  const rows = OPCODES.flatMap((row) => (row === undefined ? [] : [row]))
  return {
    ...CONSTANTS,
    opcodes: new Map(rows.map((row) => [row.opcode, rowOf(row, names)])),
    opcode_names: OPCODE_NAMES,
    attribute_names: ATTRIBUTE_NAMES,
    method_names: METHOD_NAMES,
    cm_names: CM_NAMES,
    status_names: STATUS_NAMES,
    fault_names: FAULT_NAMES,
    capability: {
      magic: u32(CAPABILITY, 0),
      version: CAPABILITY[4]!,
      words: CAPABILITY[5]!,
      least: BLOCK_WORDS_MIN,
    },
    nak_names: NAK_NAMES,
    headers: Object.fromEntries(names.map((name) => [name, headerTable(headers[name]!)])),
    bodies: { request: bodyTables('request'), answer: bodyTables('answer') },
    fields: [...declarations(headers)]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, { type, label, hex, names: said }]) => {
        return { name, type, label, hex, ...(said === undefined ? {} : { names: said }) }
      }),
  }
}
