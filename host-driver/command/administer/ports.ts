/** `perdure publish | withdraw | detach TARGET`: what a card offers others, and has of others. */

import { type Command, Option } from 'commander'
import { ArgumentError } from '../../base/errors.ts'
import type { Publication } from '../../control/publication.ts'
import type { Dpu } from '../../dpu.ts'
import { several, wholeNumber } from '../base/arguments.ts'
import { Output } from '../base/output.ts'
import { isAddress, withTarget } from '../base/target.ts'

interface Options {
  readonly json?: boolean
}

interface PublishOptions extends Options {
  readonly form?: NonNullable<Publication['form']>
  readonly stock?: true
  readonly from?: readonly string[]
  readonly connections?: number
}

const CARD = 'perdure://[key@]host[:port], or pcie:FILE[/address]'
const PORT_MAX = 65535
const CONNECTIONS_MAX = 65535

export function addPorts(program: Command): void {
  const forms = ['librpma', 'capability', 'announced']
  program
    .command('publish')
    .description('offer a region on a port of RDMA-CM, until the card loses its power')
    .argument('<target>', CARD)
    .argument('<region>', 'its name')
    .argument('<port>', `1 to ${PORT_MAX}`, wholeNumber(1, PORT_MAX))
    .addOption(new Option('--form <form>', 'how clients are told of the region').choices(forms))
    .option('--stock', 'clients without sessions may come: a card with peers asks for that')
    .option('--from <address>', 'who may connect, as 10.0.0.0/24; may be repeated', several)
    .option('--connections <n>', 'at once', wholeNumber(1, CONNECTIONS_MAX))
    .option('--json', 'as one JSON object')
    .action(publish)
  program
    .command('withdraw')
    .description('offer nothing on a port any more')
    .argument('<target>', CARD)
    .argument('<port>', `1 to ${PORT_MAX}`, wholeNumber(1, PORT_MAX))
    .option('--json', 'as one JSON object')
    .action(withdraw)
  program
    .command('detach')
    .description('end what a client has had this card attach: a region of another card')
    .argument('<target>', CARD)
    .argument('<region>', 'its name here')
    .option('--json', 'as one JSON object')
    .action(detach)
}

async function publish(
  target: string,
  name: string,
  port: number,
  options: PublishOptions,
): Promise<void> {
  const { json = false, ...more } = options
  await withCard(target, async (dpu) => {
    const output = new Output(json)
    await dpu.publish({ name, port, ...more })
    if (json) output.printJson({ target, published: { name, port, ...more } })
    else output.say(`'${name}' is offered on port ${port}, until the card loses its power`)
  })
}

async function withdraw(target: string, port: number, { json = false }: Options): Promise<void> {
  await withCard(target, async (dpu) => {
    const output = new Output(json)
    await dpu.withdraw(port)
    if (json) output.printJson({ target, withdrawn: port })
    else output.say(`nothing is offered on port ${port} now`)
  })
}

async function detach(target: string, name: string, { json = false }: Options): Promise<void> {
  await withCard(target, async (dpu) => {
    const output = new Output(json)
    const own = (await dpu.regions()).find((region) => region.name === name)
    if (own !== undefined) {
      const how = "'perdure region remove TARGET NAME' ends it"
      throw new ArgumentError(`'${name}' is a region of this card itself: ${how}`)
    }
    await dpu.detach(name)
    if (json) output.printJson({ target, detached: name })
    else output.say(`'${name}' of another card is offered here no more`)
  })
}

/** Does that with a card: what is offered ends with it, and that of an image ends at once. */
async function withCard(target: string, use: (dpu: Dpu) => Promise<void>): Promise<void> {
  if (!isAddress(target)) {
    const how = "'perdure emulate IMAGE' starts a card that stays"
    throw new ArgumentError(`${target}: a card is what offers a region: ${how}`)
  }
  await withTarget(target, { writes: false }, async ({ dpu }) => await use(dpu))
}
