/** What the machine's perdured is told: the text of `perdured.conf` (boards/linux/README.md). */

/** Where the card has what its configuration names. */
export const INSIDE = {
  memory: '/dev/dax0.0',
  firmware: '/perdure/firmware.js',
  signature: '/perdure/firmware.js.sig',
  trust: '/perdure/trust.pem',
} as const

/** The card's Ethernet address: that of the emulator's card, where the host driver looks. */
export const CARD_MAC = '02:00:00:00:00:02'

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
  const all: Settings = {
    board: 'qemu-virt',
    firmware: INSIDE.firmware,
    signature: INSIDE.signature,
    trust: INSIDE.trust,
    memory: INSIDE.memory,
    clean: CPUS[cpu],
    link: 'packet:eth0',
    mac: CARD_MAC,
    console: 'tty:/dev/ttyAMA0',
    log: 'json',
    ...(window ? { 'host-window': WINDOW } : {}),
    ...settings,
  }
  return Object.entries(all)
    .map(([key, value]) => `${key} = ${value}\n`)
    .join('')
}
