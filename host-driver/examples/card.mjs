/**
 * A card for an example: the one that its user names, or an emulated one in this process. That one
 * runs the firmware of the real cards, and its power can be cut. Its memory is this process's: what
 * is durable there outlives the power of the card, and not the process.
 */

import { connect } from 'perdure'
import { EmulatedDpu, EmulatedPort, HostRam, Nvdimm, openTunnel, RealClock } from 'perdure/emulator'

const PART_BYTES = 4 << 20
const HOST_BYTES = 4 << 20

/** How long the card is without power, ms. */
const DARK_MS = 50

/**
 * What an example needs to know of its card.
 *
 * @typedef {object} Card
 * @property {string} target  what `connect` is given
 * @property {EmulatedPort | null} port  the end of the card's own host; null of a card elsewhere
 * @property {((record: number, returns?: boolean) => Promise<void>) | null} cutPower  has the
 *   power go inside the commit of that record, counted from 1 from now on, and come back unless
 *   that is refused; resolves when it is gone. Null of a card elsewhere
 * @property {() => Promise<void>} close
 */

/**
 * The card at `target`, or an emulated one where there is no target.
 *
 * @param {string | undefined} target
 * @returns {Promise<Card>}
 */
export async function openCard(target) {
  if (target === undefined) return await startCard()
  return { target, port: null, cutPower: null, close: async () => {} }
}

/** @returns {Promise<Card>} */
async function startCard() {
  const clock = new RealClock()
  const nvdimm = new Nvdimm({ bytes: PART_BYTES, volatile: true })
  const port = new EmulatedPort({ ram: new HostRam(HOST_BYTES), clock })
  let onPowerCut = () => {}
  const dpu = new EmulatedDpu({
    ...{ nvdimm, clock, port },
    transmit: (frame) => tunnel.send(frame),
    onPowerCut: () => onPowerCut(),
  })
  const tunnel = await openTunnel({ receive: (frame) => dpu.deliver(frame) })
  await dpu.powerOn()
  const target = `perdure://127.0.0.1:${tunnel.port}`
  const empty = await connect(target)
  await empty.format()
  await empty.close()

  return {
    target,
    port,
    cutPower: (record, returns = true) =>
      new Promise((resolve) => {
        onPowerCut = () => {
          if (returns) setTimeout(() => dpu.powerOn(), DARK_MS)
          resolve()
        }
        dpu.armCut({ record: dpu.statistics.records + record })
      }),
    close: async () => {
      onPowerCut = () => {}
      if (dpu.isOn) dpu.powerCut()
      await tunnel.close()
      clock.close()
    },
  }
}
