/** What the machine is told: the texts of `perdured.conf` and `boot.conf` (boards/linux). */

import { isIPv4 } from 'node:net'
import { SMP_PORT } from '../flash/smp-packet.ts'
import { macOfCard } from '../software/card-address.ts'

/** Where the card has what its configurations name. */
export const INSIDE = {
  memory: '/dev/dax0.0',
  slots: '/dev/vda',
  perdured: '/perdure/perdured',
  configuration: '/perdure/perdured.conf',
  firmware: '/perdure/firmware.js',
  signature: '/perdure/firmware.js.sig',
  trust: '/perdure/trust.pem',
  /** Of whoever else may sign images. */
  otherTrust: '/perdure/trust-2.pem',
  serial: '/dev/ttyAMA0',
  console: '/run/console',
} as const

/** What the kernel itself has on the second network card (init.c), and what is asked there. */
export const KERNEL_ADDRESS = '10.0.2.15'
export const KERNEL_PORTS: Readonly<Record<'smp' | 'tunnel', number>> = {
  smp: SMP_PORT,
  tunnel: 4791,
}

/** The card's Ethernet address: where the host driver looks for a card of that IPv4 address. */
export function cardMac({ ipv4 = '' }: Settings = {}): string {
  const mac = macOfCard((isIPv4(ipv4) ? ipv4 : USUAL_IPV4).split('.').map(Number))
  return mac.map((byte) => byte.toString(16).padStart(2, '0')).join(':')
}

/** That of perdured where nothing is said. */
const USUAL_IPV4 = '10.0.0.2'

/** Where ivshmem sits on the machine's PCI bus, and the file of its memory. */
export const WINDOW_SLOT = '05.0'
const WINDOW = `pci:0000:00:${WINDOW_SLOT}/resource2_wc`

/**
 * The processors: by name, and what a clean of the cache has to reach. A Neoverse N1 has DC CVAP
 * (Armv8.2), as BlueField-3's A78 has; a Cortex-A72, BlueField-2's, has not.
 */
export const CPUS = { 'neoverse-n1': 'auto', 'cortex-a72': 'coherency' } as const
export type CpuName = keyof typeof CPUS

/** Keys of perdured.conf and their values. */
export type Settings = Readonly<Record<string, string>>

/** The text, `settings` over what the board says by itself. */
export function configurationText(cpu: CpuName, window: boolean, settings: Settings = {}): string {
  const all: Readonly<Record<string, string | readonly string[]>> = {
    board: 'qemu-virt',
    firmware: INSIDE.firmware,
    signature: INSIDE.signature,
    trust: INSIDE.trust,
    memory: INSIDE.memory,
    clean: CPUS[cpu],
    link: ['packet:eth0', `udp:${KERNEL_ADDRESS}:${KERNEL_PORTS.tunnel}`],
    mac: cardMac(settings),
    console: `unix:${INSIDE.console}`,
    log: 'json',
    ...(window ? { 'host-window': WINDOW } : {}),
    ...settings,
  }
  return linesOf(
    Object.entries(all).flatMap(([key, value]) => [value].flat().map((one) => [key, one])),
  )
}

/** The text of perdure-boot; `others`: another key may sign images. */
export function bootText(others: boolean): string {
  return linesOf([
    ['board', 'qemu-virt'],
    ['trust', INSIDE.trust],
    ...(others ? [['trust', INSIDE.otherTrust] as const] : []),
    ['slots', INSIDE.slots],
    ['smp', `tty:${INSIDE.serial}`],
    ['smp', `udp:${KERNEL_ADDRESS}:${KERNEL_PORTS.smp}`],
    ['runtime', INSIDE.perdured],
    ['configuration', INSIDE.configuration],
    ['console', `unix:${INSIDE.console}`],
  ])
}

function linesOf(lines: readonly (readonly [string, string])[]): string {
  return lines.map(([key, value]) => `${key} = ${value}\n`).join('')
}
