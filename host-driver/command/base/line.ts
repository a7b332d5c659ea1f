/**
 * Lines to a card, as the command line names them: a Unix socket, a serial line, and the console
 * that the driver of rshim makes.
 */

import { EventEmitter } from 'node:events'
import { accessSync, constants, createReadStream, createWriteStream } from 'node:fs'
import { connect } from 'node:net'
import { Duplex } from 'node:stream'
import { ArgumentError, PerdureError } from '../../base/errors.ts'
import { checkFile } from './system-errors.ts'

/** Speed of a serial line, unless another one is said. */
export const BAUD = 115_200

const SOCKET = 'unix:'
/** What these are takes none of a serial line's settings. */
const RSHIM = '/dev/rshim'

/**
 * Opens 'unix:PATH', '/dev/rshim0/console' or '/dev/ttyUSB0'; `give` says what may be given where
 * it is none of these. Rejects with PERDURE_ARGUMENT, with PERDURE_UNREACHABLE, or with the error
 * of the system where the path cannot be opened.
 */
export async function openLine(target: string, baudRate: number, give: string): Promise<Duplex> {
  if (target.startsWith(SOCKET)) {
    return await opened(connect(target.slice(SOCKET.length)), 'connect', target)
  }
  if (!target.startsWith('/')) throw new ArgumentError(`${target}: ${give}`)
  // What the package of serial lines says of a file has no code.
  checkFile(target)
  accessSync(target, constants.W_OK)
  if (target.startsWith(RSHIM)) return plainFile(target)
  return await opened(await serialLine(target, baudRate), 'open', target)
}

function opened(line: Duplex, event: 'connect' | 'open', target: string): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    line.once(event, () => resolve(line))
    line.once('error', (cause) => {
      const why = `${target}: ${cause.message}`
      reject(new PerdureError('PERDURE_UNREACHABLE', why, { cause }))
    })
  })
}

function plainFile(path: string): Duplex {
  const writable = createWriteStream(path, { flags: 'r+' })
  return Duplex.from({ readable: createReadStream(path), writable })
}

/**
 * The package has a part of its own for each system, so it is loaded only by who needs it, and may
 * be left out (`npm install --omit=optional`).
 */
async function serialLine(path: string, baudRate: number): Promise<Duplex> {
  const { SerialPort } = await import('serialport').catch((cause: unknown) => {
    const how = "'npm install serialport' beside perdure brings it"
    const why = `${path}: a serial line needs the package serialport, which is not here: ${how}`
    throw new PerdureError('PERDURE_UNREACHABLE', why, { cause })
  })
  const port = new SerialPort({ path, baudRate })
  // By itself `destroy` leaves the descriptor open, and what polls it.
  port._destroy = (error, done) => {
    if (port.isOpen) port.close(() => done(error))
    else done(error)
  }
  port.once('open', () => wakes(port.port))
  return port
}

/**
 * Since Node 26.4, promises behind an event of the package's poller wait until something else runs:
 * so something else does, at once.
 */
function wakes(binding: object | undefined): void {
  if (binding === undefined || !('poller' in binding)) return
  if (binding.poller instanceof EventEmitter) {
    binding.poller.on('readable', () => setImmediate(() => {}))
  }
}
