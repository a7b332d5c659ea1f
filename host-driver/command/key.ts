/**
 * `perdure key new | show`: the key pair by which a client, or a card, is known in sessions.
 *
 * Invariant: a private key goes into its file and nowhere else: what is printed is public.
 */

import type { Command } from 'commander'
import { clientKeyPath, readKeyFile, writeKeyFile } from '../../boards/software/key-file.ts'
import { createKeyPair, keyText, publicKeyOf } from '../../boards/software/keys.ts'
import { Output } from './base/output.ts'
import { checkFile } from './base/system-errors.ts'

const BY_DEFAULT = '$PERDURE_KEY, or perdure/key below $XDG_CONFIG_HOME or ~/.config'

export function addKey(program: Command): void {
  const key = program
    .command('key')
    .description('make the key of a client, and show its public half')
  key
    .command('new')
    .description('make a key pair: the private key goes into a file, the public one is printed')
    .option('--out <file>', `for the private key; by default ${BY_DEFAULT}`)
    .option('--json', 'as one JSON object')
    .action(({ out, json = false }: { out?: string; json?: boolean }) => {
      create(new Output(json), out ?? clientKeyPath())
    })
  key
    .command('show')
    .description('print the public key of a private one')
    .argument('[file]', `with the private key; by default ${BY_DEFAULT}`)
    .option('--json', 'as one JSON object')
    .action((file: string | undefined, { json = false }: { json?: boolean }) => {
      show(new Output(json), file ?? clientKeyPath())
    })
}

function create(output: Output, file: string): void {
  const pair = createKeyPair()
  writeKeyFile(file, pair.secret)
  tell(output, file, pair.public)
  if (output.json) return
  output.say(`${file} has the private key: keep it, and show it to nobody.`)
  output.say('Give the public key to who runs the card, for a line of its peers file:')
  output.say(`${keyText(pair.public)} NAME admin`)
  output.say('or, in place of admin, read:REGION and write:REGION.')
}

function show(output: Output, file: string): void {
  checkFile(file, "'perdure key new' makes one.")
  tell(output, file, publicKeyOf(readKeyFile(file)))
}

function tell(output: Output, file: string, publicKey: Uint8Array): void {
  const text = keyText(publicKey)
  if (output.json) output.printJson({ publicKey: text, privateKey: file })
  else output.print(text)
}
