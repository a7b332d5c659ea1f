/**
 * `perdure peers list | add | remove TARGET`: who may come to a card. An admin of the card may ask
 * that, in a session of his own.
 *
 * Invariant: a peer is said in the words of a line of a peers file, and read by what reads these.
 */

import type { Command } from 'commander'
import { keyText } from '../../boards/software/keys.ts'
import { type Peer, parsePeers, rightsOf } from '../../boards/software/peers.ts'
import { ArgumentError } from '../base/errors.ts'
import type { Dpu } from '../dpu.ts'
import { Output } from './base/output.ts'
import { table } from './base/table.ts'
import { withTarget } from './base/target.ts'

interface Options {
  readonly json?: boolean
}

const TARGET = 'perdure://KEY@host[:port], or pcie:FILE for its own host'

export function addPeers(program: Command): void {
  const peers = program
    .command('peers')
    .description('show and change who may come to a card that has peers')
  peers
    .command('list')
    .description('show who may come, and what each may do')
    .argument('<target>', TARGET)
    .option('--json', 'as one JSON object')
    .action(list)
  peers
    .command('add')
    .description('let one more come, from now on')
    .argument('<target>', TARGET)
    .argument('<key>', "what 'perdure key show' prints")
    .argument('<name>', 'without blanks; nobody else has it there')
    .argument('<right...>', 'admin; or read:REGION, write:REGION, REGION percent-encoded or *')
    .option('--json', 'as one JSON object')
    .action(add)
  peers
    .command('remove')
    .description('let one come no more; what he has open there ends at once')
    .argument('<target>', TARGET)
    .argument('<peer>', 'his name, or his public key')
    .option('--json', 'as one JSON object')
    .action(remove)
}

async function list(target: string, { json = false }: Options): Promise<void> {
  const output = new Output(json)
  await asAdmin(target, async (dpu) => {
    const peers = await dpu.peers()
    if (json) {
      output.printJson({ target, peers: peers.map(shown) })
      return
    }
    const rows = peers.map((peer) => [keyText(peer.key), peer.name, rightsOf(peer).join(' ')])
    for (const line of table(['public key', 'name', 'rights'], rows)) output.print(line)
  })
}

async function add(
  target: string,
  key: string,
  name: string,
  rights: readonly string[],
  { json = false }: Options,
): Promise<void> {
  const output = new Output(json)
  const peer = peerOf([key, name, ...rights])
  await asAdmin(target, (dpu) => dpu.addPeer(peer))
  if (json) output.printJson({ target, added: shown(peer) })
  else output.say(`${peer.name} may come: ${rightsOf(peer).join(' ')}`)
}

/** The peer that these words say. */
function peerOf(words: readonly string[]): Peer {
  if (words.some((word) => /\s/.test(word) || word === '')) {
    throw new ArgumentError('a key, a name and a right have no blanks: write %20 in a region')
  }
  const [peer] = parsePeers(words.join(' '), 'a peer')
  if (peer === undefined) throw new ArgumentError('a peer begins with its public key')
  return peer
}

async function remove(target: string, who: string, { json = false }: Options): Promise<void> {
  const output = new Output(json)
  await asAdmin(target, async (dpu) => {
    const peer = await find(dpu, who)
    await dpu.removePeer(peer.key)
    if (json) output.printJson({ target, removed: shown(peer) })
    else output.say(`${peer.name} comes no more`)
  })
}

/** No name is as long as a key. */
async function find(dpu: Dpu, who: string): Promise<Peer> {
  const peers = await dpu.peers()
  const found = peers.find(({ key, name }) => name === who || keyText(key) === who.toLowerCase())
  if (found !== undefined) return found
  const names = peers.map(({ name }) => name).join(', ')
  throw new ArgumentError(`nobody of that name or key may come there: ${names} may`)
}

/** What is told of a peer to programs. */
function shown({ key, name, admin, read, write }: Peer): object {
  return { publicKey: keyText(key), name, admin, read, write }
}

async function asAdmin(target: string, use: (dpu: Dpu) => Promise<void>): Promise<void> {
  await withTarget(target, { writes: false, anyState: true }, async ({ dpu }) => await use(dpu))
}
