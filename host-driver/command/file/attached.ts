/** A region of another card, which the target offers for as long as the command takes. */

import { ArgumentError } from '../../base/errors.ts'
import { isPcieTarget, parsePcieTarget } from '../../card/target.ts'
import type { Attachment } from '../../control/attachment.ts'
import type { Dpu } from '../../dpu.ts'
import type { Region } from '../../records/region.ts'
import { whenInterrupted } from '../base/interrupts.ts'
import type { Output } from '../base/output.ts'
import { messageOf } from '../base/system-errors.ts'
import { isAddress } from '../base/target.ts'

/** Throws ArgumentError where the target has no network, or leads its host there itself. */
export function checkAttaches(target: string, resume: boolean): void {
  if (!isAddress(target)) {
    throw new ArgumentError(`${target}: an image has no network: --attach is for a card`)
  }
  if (isPcieTarget(target) && parsePcieTarget(target).peer === null) {
    throw new ArgumentError(`without --attach: to its own host another card is ${target}/ADDRESS`)
  }
  if (!resume) return
  const how = 'say the address of the other card, or leave --resume out'
  throw new ArgumentError(`--resume reads what is there, and nobody reads through a card: ${how}`)
}

/** Does that with the region, which the card has attached until then. */
export async function withAttached(
  dpu: Dpu,
  attachment: Attachment,
  output: Output,
  work: (region: Region) => Promise<void>,
): Promise<void> {
  const { name } = attachment
  const region = await dpu.attach(attachment)
  const detach = (): Promise<void> =>
    dpu.detach(name).catch((error: unknown) => {
      output.say(`perdure: '${name}' stays attached: ${messageOf(error)}`)
    })
  const listensNoMore = whenInterrupted(detach)
  try {
    await work(region)
  } finally {
    await detach()
    listensNoMore()
  }
}
