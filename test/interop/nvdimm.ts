/**
 * perdured on an NVDIMM of a guest: what Linux's own drivers say of it, and what is claimed by
 * that.
 *
 * The DIMM is a file of this machine, with or without the energy for a save, as QEMU says it to
 * the kernel (`unarmed`). A guest makes a file system with DAX on it, another one a device of
 * device-dax, as an operator would by ndctl and mkfs.
 *
 * Invariant: the program is the one that is shipped, and serves under its filter of system calls.
 */

import { generateKeyPairSync, sign } from 'node:crypto'
import { readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { archive } from '../../boards/tools/debian/cpio.ts'
import { type CommandResult, Guest } from './guest.ts'
import type { GuestImage } from './image.ts'
import { type Found, failuresOf, Session } from './session.ts'
import type { Outcome } from './table.ts'

const BYTES = 128 * 2 ** 20
const SECONDS = 60
/** How long it serves. */
const SERVES_SECONDS = 3

/** What ndctl does: the namespace of the region becomes one of that mode, for programs. */
function namespace(mode: 'pfn' | 'dax', driver: 'nd_pmem' | 'dax_pmem'): string {
  return [
    'cd /sys/bus/nd/devices',
    'echo namespace0.0 > /sys/bus/nd/drivers/nd_pmem/unbind',
    // An NVDIMM that is not armed makes its region read-only.
    'echo 0 > region0/read_only',
    `seed=$(cat region0/${mode}_seed)`,
    'echo 00000000-1111-2222-3333-444444444444 > region0/$seed/uuid',
    'echo pmem > region0/$seed/mode',
    'echo 4096 > region0/$seed/align',
    'echo namespace0.0 > region0/$seed/namespace',
    `echo $seed > /sys/bus/nd/drivers/${driver}/bind`,
    'cd /',
  ].join('; ')
}

/** A way in which Linux gives a DIMM to programs. */
interface Way {
  /** The class that perdured finds out. */
  readonly name: string
  /** What it is told of the memory. */
  readonly keys: string
  /** What an operator does before. */
  readonly prepare: string
}

const WAYS: readonly Way[] = [
  {
    name: 'fsdax (MAP_SYNC)',
    keys: 'memory = /mnt/part',
    prepare: [
      namespace('pfn', 'nd_pmem'),
      'mkfs.ext4 -q -b 4096 /dev/pmem0',
      'mkdir -p /mnt',
      'mount -t ext4 -o dax=always /dev/pmem0 /mnt',
      'truncate -s 64M /mnt/part',
    ].join('; '),
  },
  {
    name: 'device-dax',
    keys: 'memory = /dev/dax0.0',
    prepare: `${namespace('dax', 'dax_pmem')}; test -c /dev/dax0.0`,
  },
]

const COMMON = `firmware = /perdured/firmware.js
trust = /perdured/trust.pem
link = udp:127.0.0.1:0
`

/** It is waited for, however slow the guest is, and then looked at for a moment. */
const SERVE = [
  '/perdured/perdured --config /tmp/conf > /tmp/said 2>&1 & card=$!',
  'until grep -q " serving " /tmp/said || ! kill -0 $card; do sleep 1; done',
  `sleep ${SERVES_SECONDS}; kill $card; wait $card; code=$?; cat /tmp/said; exit $code`,
].join('; ')

/** What `perdured --check` says of the memory. */
interface Memory {
  readonly class?: string
  readonly armed?: boolean
  readonly durable?: string
  readonly forgetsBecause?: string
}

interface NvdimmSetting {
  readonly image: GuestImage
  readonly work: string
  /** `perdured` as it was built, and the bundle. */
  readonly perdured: string
  readonly bundle: string
  readonly talk: (line: string) => void
  readonly only: string
}

/** The root of the guest, and perdured in it, with a key of its own. */
function rootOf({ image, work, perdured, bundle }: NvdimmSetting): string {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const firmware = readFileSync(bundle)
  const trust = publicKey.export({ type: 'spki', format: 'pem' }).toString()
  const more = archive([
    { path: 'perdured/perdured', content: readFileSync(perdured), executable: true },
    { path: 'perdured/firmware.js', content: firmware },
    { path: 'perdured/firmware.js.sig', content: sign(null, firmware, privateKey) },
    { path: 'perdured/trust.pem', content: Buffer.from(trust) },
    { path: 'perdured/conf', content: Buffer.from(COMMON) },
  ])
  const root = join(work, 'nvdimm-root.cpio')
  // The kernel takes archives one behind the other.
  writeFileSync(root, Buffer.concat([readFileSync(image.root), more]))
  return root
}

/** Tries both: a DIMM with energy, and one without. */
export async function casesOfNvdimms(setting: NvdimmSetting): Promise<readonly Outcome[]> {
  const { work, only, talk, image } = setting
  const root = rootOf(setting)
  const outcomes: Outcome[] = []
  for (const armed of [true, false]) {
    for (const way of WAYS) {
      const path = join(work, 'guest.nvdimm')
      writeFileSync(path, '')
      truncateSync(path, BYTES)
      const guest = new Guest({ ...image, root }, [], 'stock', { path, bytes: BYTES, armed })
      try {
        await guest.ready()
        const session = new Session(guest, null, talk, only)
        const name = `an NVDIMM ${armed ? 'with' : 'without'} energy, ${way.name}`
        await session.one(`${name}: claims`, () => claims(session, way, armed))
        await session.one(`${name}: serves`, () => serves(session))
        outcomes.push(...session.outcomes)
      } finally {
        await guest.stop()
      }
    }
  }
  return outcomes
}

async function claims(
  session: Session,
  { name, keys, prepare }: Way,
  armed: boolean,
): Promise<Found> {
  const told = `cp /perdured/conf /tmp/conf; echo '${keys}' >> /tmp/conf`
  const made = await session.client(`${told}; ${prepare}`, SECONDS)
  const checked = await session.client('/perdured/perdured --config /tmp/conf --check', SECONDS)
  const memory = memoryIn(checked)
  const wanted: Memory = { class: name, armed, durable: armed ? 'power' : 'nothing' }
  const wrong = (['class', 'armed', 'durable'] as const)
    .filter((field) => memory[field] !== wanted[field])
    .map((field) => `${field} is ${memory[field]}, not ${wanted[field]}`)
  const { forgetsBecause: because = '' } = memory
  const isSaid = armed ? because === '' : because.includes('nmem0')
  const unsaid = isSaid ? [] : [`it says because of '${because}'`]
  const failures = [...failuresOf(made), ...failuresOf(checked), ...wrong, ...unsaid]
  return { steps: 5, failures, ...(armed ? {} : { note: because }) }
}

function memoryIn({ lines }: CommandResult): Memory {
  const line = lines.find((one) => one.startsWith('{"bundle"'))
  if (line === undefined) return {}
  return (JSON.parse(line) as { memory?: Memory }).memory ?? {}
}

async function serves(session: Session): Promise<Found> {
  const result = await session.client(SERVE, SECONDS)
  const isServing = result.lines.some((line) => line.includes('serving link='))
  return { steps: 2, failures: [...failuresOf(result), ...(isServing ? [] : ['it never served'])] }
}
