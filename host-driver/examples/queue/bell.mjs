/**
 * Tells a consumer that an item may have come. A card notifies its own host of every batch, so
 * there the bell rings at once; other hosts look again every so often. A ring is a hint and no
 * more: whoever hears it takes what is there, and a ring that is lost costs time alone.
 */

/** @import { BatchWatch, Region } from 'perdure' */

/** How long to wait without a ring, where the card notifies and where it does not, ms. */
const NOTIFIED_MS = 1000
const POLLED_MS = 20

export class Bell {
  #hasRung = false
  #wake = () => {}
  /** @type {BatchWatch | null} */
  #watch = null

  /** @param {Region} region */
  static async open(region) {
    const bell = new Bell()
    try {
      bell.#watch = await region.onBatch(({ type }) => {
        if (type === 'ended') bell.#watch = null
        bell.#hasRung = true
        bell.#wake()
      })
    } catch (error) {
      // The card is not the local one.
      if (/** @type {{ code?: string }} */ (error).code !== 'PERDURE_ARGUMENT') throw error
    }
    return bell
  }

  /** Whether the card notifies. */
  get isNotified() {
    return this.#watch !== null
  }

  /** Resolves when it rings, or has since it was waited for last, or after a while. */
  async wait() {
    if (!this.#hasRung) {
      /** @type {NodeJS.Timeout | undefined} */
      let timer
      await new Promise((resolve) => {
        this.#wake = () => resolve(undefined)
        timer = setTimeout(resolve, this.isNotified ? NOTIFIED_MS : POLLED_MS)
      })
      clearTimeout(timer)
    }
    this.#hasRung = false
  }

  async close() {
    await this.#watch?.end()
  }
}
