/** The thread behind a cable (cable.ts): a socket towards a board (carrier.ts). */

import { type MessagePort, workerData } from 'node:worker_threads'
import { Carrier } from './carrier.ts'

/** What came back, or why nothing did. */
export type Carried = Uint8Array[] | string

interface Given {
  readonly host: string
  readonly port: number
  readonly wire: MessagePort
  readonly flag: Int32Array
}

const { host, port, wire, flag } = workerData as Given
const carrier = new Carrier()

async function carry(frames: readonly Uint8Array[]): Promise<Uint8Array[]> {
  carrier.got = []
  for (const frame of frames) carrier.send(frame)
  await carrier.settle()
  return carrier.got
}

function tell(carried: Carried): void {
  wire.postMessage(carried)
  Atomics.store(flag, 0, 1)
  Atomics.notify(flag, 0)
}

await carrier.open(host, port)
wire.on('message', (frames: Uint8Array[]) => {
  carry(frames).then(tell, (error: Error) => tell(error.message))
})
