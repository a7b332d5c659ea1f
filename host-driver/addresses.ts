/**
 * Addresses in the frames where the user names none: those of the emulated DPU, and a neighbour of
 * it for us. Over the UDP tunnel they mean nothing outside the frames.
 */

import type { Endpoint } from './wire.ts'

/** The port of the emulated DPU. */
export const DPU_ENDPOINT: Endpoint = {
  mac: [0x02, 0, 0, 0, 0, 0x02],
  ipv4: [10, 0, 0, 2],
}

/** Another host of the DPU's network; which one is drawn, so that clients differ. */
export function neighbour(random: () => number): Endpoint {
  const drawn = random()
  const high = 1 + ((drawn >>> 16) % 255)
  const middle = (drawn >>> 8) & 0xff
  const low = 1 + ((drawn & 0xff) % 254)
  return { mac: [0x02, 0x50, 0x44, high, middle, low], ipv4: [10, high, middle, low] }
}
