/**
 * The address of a card behind a port in a file: 'pcie:FILE', or 'pcie:FILE/10.0.0.3' for another
 * DPU that the card leads to.
 */

import { accessSync } from 'node:fs'
import { isIPv4 } from 'node:net'
import type { HostPort } from '../../boards/host-port.ts'
import { PORT_AT, PORT_EPOCH } from '../../firmware/board/hal.ts'
import { cardAt } from '../base/addresses.ts'
import { sleep } from '../base/clock.ts'
import { PerdureError } from '../base/errors.ts'
import type { Endpoint } from '../base/wire.ts'
import { openFilePort } from './file-port.ts'

interface PcieTarget {
  readonly path: string
  /** The DPU behind the card; null for the card itself. */
  readonly peer: Endpoint | null
}

const SCHEME = 'pcie:'

export function isPcieTarget(target: string): boolean {
  return target.startsWith(SCHEME)
}

/**
 * Parses an address. A last part that is an IPv4 address is one, unless it is all there is: what is
 * in front of it is the file. Throws PERDURE_TARGET.
 */
export function parsePcieTarget(target: string): PcieTarget {
  const rest = target.slice(SCHEME.length)
  const slash = rest.lastIndexOf('/')
  const last = rest.slice(slash + 1)
  const leads = slash > 0 && isIPv4(last)
  const path = leads ? rest.slice(0, slash) : rest
  if (path === '') {
    throw new PerdureError('PERDURE_TARGET', `'${target}' is no target: say pcie:FILE[/address]`)
  }
  return { path, peer: leads ? cardAt(last.split('.').map(Number)) : null }
}

/** How long a card may take to see that there is a host, and how often we look, µs. */
const SEEN_US = 3_000_000
const LOOK_US = 1000

/** What a register says when there is no card. */
const NO_CARD = 0xffffffff

/**
 * Opens the port, and waits a moment for its card. Rejects with PERDURE_UNREACHABLE where no card
 * has made the file, or none serves it: a driver alone is of no use.
 */
export async function openPort({ path }: PcieTarget): Promise<HostPort> {
  try {
    accessSync(path)
  } catch (cause) {
    const message = `${path} is not there: 'perdure emulate --host ${path}' makes it`
    throw new PerdureError('PERDURE_UNREACHABLE', message, { cause })
  }
  const port = await openFilePort({ path })
  const endUs = port.now() + SEEN_US
  const register = PORT_EPOCH - PORT_AT
  while (port.readRegister(register) >>> 0 === NO_CARD && port.now() < endUs) {
    await sleep(port, LOOK_US)
  }
  if (port.readRegister(register) >>> 0 !== NO_CARD) return port
  port.close()
  const message = `no card serves ${path}: start one with 'perdure emulate --host ${path}'`
  throw new PerdureError('PERDURE_UNREACHABLE', message)
}
