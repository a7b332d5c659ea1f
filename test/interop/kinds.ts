/**
 * Ways to protect a link below, as the page has them: MACsec, and IPsec.
 *
 * Invariant: what sets one up stands in a fenced block of the page, `sh` and a name; here are the
 * values of its variables alone.
 */

import type { End } from './tap.ts'

/** Frames that an end has dropped. */
export interface Dropped {
  /** Whose code is wrong. */
  readonly changed: number
  /** That were there before. */
  readonly again: number
  /** That nothing protects. */
  readonly open: number
}

/** What each guest is told. */
type AtEnds = Readonly<Record<End, string>>

export interface Kind {
  readonly name: 'IPsec' | 'MACsec'
  /** The key that both ends have, and another one. */
  readonly key: string
  readonly otherKey: string
  /** Is the frame protected? Else, may it be there all the same? */
  readonly isSealed: (frame: Buffer) => boolean
  readonly isOpen: (frame: Buffer) => boolean
  /** The command whose lines `dropped` reads. */
  readonly ask: string
  readonly dropped: (lines: readonly string[]) => Dropped
  readonly commands: (page: string, end: End, key: string) => string
  /** Each has the client talk without protection: as itself, or as somebody else. */
  readonly bare: readonly string[]
  readonly undo: AtEnds
}

const MAC = { client: '52:54:00:00:00:01', gate: '52:54:00:00:01:01' } as const

const NO_IPV6 = 'echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6'
const CLIENT_ADDRESS = '10.0.0.1/24'

/** A link that nothing protects. Both guests have the same Ethernet addresses when they start. */
export const PLAIN: {
  /** The card's address. */
  readonly card: string
  readonly prepare: AtEnds
  readonly set: AtEnds
  readonly undo: AtEnds
} = {
  card: '10.0.0.2',
  prepare: {
    client: `${NO_IPV6}; ip address flush dev eth0`,
    gate:
      `${NO_IPV6}; ip address flush dev eth0; ip address flush dev eth1; ` +
      `ip link set eth0 down; ip link set eth0 address ${MAC.gate} up`,
  },
  set: {
    client: `ip address add ${CLIENT_ADDRESS} dev eth0`,
    gate:
      'ip link add br0 type bridge mcast_snooping 0 && ip link set eth0 master br0 && ' +
      'ip link set eth1 master br0 && ip link set br0 up',
  },
  undo: { client: 'ip address flush dev eth0', gate: 'ip link delete br0' },
}

/** A fenced block of a page, as one line for a shell that stops where one fails. */
function blockOf(page: string, name: string): string {
  const found = new RegExp(`^\`\`\`sh ${name}\\n([\\s\\S]*?)^\`\`\`$`, 'm').exec(page)?.[1]
  if (found === undefined) throw new Error(`the page has no block 'sh ${name}'`)
  return found
    .replaceAll(/\\\n\s*/g, '')
    .trim()
    .split('\n')
    .join(' && ')
}

const ETHERTYPE_AT = 12
const ARP = 0x0806
const IPV4 = 0x0800
const MACSEC = 0x88e5
const PROTOCOL_AT = 14 + 9
const ESP = 50

const typeOf = (frame: Buffer): number => frame.readUInt16BE(ETHERTYPE_AT)

/** The number below the name in what `ip -s macsec show` prints; the first one is the channel's. */
function columnOf(lines: readonly string[], name: string): number {
  for (const [i, line] of lines.entries()) {
    const at = line
      .replace(/^ *stats:/, '')
      .trim()
      .split(/ +/)
      .indexOf(name)
    if (at >= 0) return Number(lines[i + 1]!.trim().split(/ +/)[at])
  }
  throw new Error(`nothing was said of ${name}`)
}

const NO_MACSEC =
  'rdma link delete rxe2; ip link delete macsec0; rdma link add rxe0 type rxe netdev eth0'

const macsec: Kind = {
  name: 'MACsec',
  key: '4f3c2b1a09f8e7d6c5b4a39281706f5e',
  otherKey: '00112233445566778899aabbccddeeff',
  isSealed: (frame) => typeOf(frame) === MACSEC,
  isOpen: () => false,
  ask: 'ip -s macsec show macsec0',
  dropped: (lines) => ({
    changed: columnOf(lines, 'InPktsNotValid'),
    again: columnOf(lines, 'InPktsLate'),
    open: columnOf(lines, 'InPktsNoTag'),
  }),
  commands: (page, end, key) => {
    const peer = MAC[end === 'client' ? 'gate' : 'client']
    const both = `${blockOf(page, 'macsec')} && ${blockOf(page, `macsec-${end}`)}`
    return `KEY=${key}; PEER=${peer}; ${both}`
  },
  bare: [`${NO_MACSEC}; ip address add ${CLIENT_ADDRESS} dev eth0`],
  undo: {
    client: `${NO_MACSEC}; ip address flush dev eth0`,
    gate: 'ip link delete br0; ip link delete macsec0',
  },
}

/** Sums lines `NAME COUNT`. */
function countOf(lines: readonly string[], names: readonly string[]): number {
  const words = lines.map((line) => line.trim().split(/\s+/))
  return words.reduce((sum, [name, count]) => sum + (names.includes(name!) ? Number(count) : 0), 0)
}

/** RDMA's resolution of addresses often sees an answer of ARP seconds later only. */
const ASK_GATE = ' && ping -c 1 -W 5 10.9.0.254'

const FLUSH = 'ip xfrm state flush; ip xfrm policy flush'

const ipsec: Kind = {
  name: 'IPsec',
  key: '4f3c2b1a09f8e7d6c5b4a39281706f5e01020304',
  otherKey: '00112233445566778899aabbccddeeff01020304',
  isSealed: (frame) => typeOf(frame) === IPV4 && frame[PROTOCOL_AT] === ESP,
  // Neighbours are asked for below.
  isOpen: (frame) => typeOf(frame) === ARP,
  ask: 'cat /proc/net/xfrm_stat',
  dropped: (lines) => ({
    changed: countOf(lines, ['XfrmInStateProtoError']),
    again: countOf(lines, ['XfrmInStateSeqError']),
    open: countOf(lines, ['XfrmInTmplMismatch', 'XfrmInNoPols', 'XfrmInPolBlock']),
  }),
  commands: (page, end, key) =>
    `KEY=0x${key}; KEY_BACK=0x${[...key].reverse().join('')}; ` +
    `${blockOf(page, `ipsec-${end}`)} && ${blockOf(page, 'ipsec')}` +
    (end === 'client' ? ASK_GATE : ''),
  bare: [
    FLUSH,
    'ip address add 10.9.0.7/24 dev eth0; ip route replace 10.0.0.0/24 via 10.9.0.254 src 10.9.0.7',
  ],
  undo: {
    client: `${FLUSH}; ip route flush dev eth0; ip address flush dev eth0`,
    gate: `${FLUSH}; ip address flush dev eth0; ip address flush dev eth1`,
  },
}

export const KINDS: readonly Kind[] = [macsec, ipsec]
