/** The thread behind network.ts: a switch, hosts by UDP, machines by QEMU's stream backend. */

import { parentPort, workerData } from 'node:worker_threads'
import { openNetdev } from '../emulator/network/netdev.ts'
import { NETWORK_PEERS_MAX } from '../emulator/network/peers.ts'
import { EthernetSwitch, type SwitchPort } from '../emulator/network/switch.ts'
import { openTunnel } from '../emulator/network/tunnel.ts'
import type { NetworkPlaces, NetworkSays } from './network.ts'

const { udp, path } = workerData as NetworkPlaces

function say(message: NetworkSays): void {
  parentPort?.postMessage(message)
}

async function serve(): Promise<void> {
  const network = new EthernetSwitch()
  const port: SwitchPort = (frame) => tunnel.send(frame)
  const receive = (frame: Uint8Array): void => network.forward(port, frame)
  const tunnel = await openTunnel({ ...udp, receive })
  network.attach(port, [], NETWORK_PEERS_MAX)
  const netdev = await openNetdev(path, network)
  parentPort?.once('message', () => {
    tunnel.close().then(() => netdev.close())
  })
  say({ port: tunnel.port })
}

serve().catch((error: Error) => say({ failed: error.message }))
