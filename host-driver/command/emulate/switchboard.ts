/**
 * Who obeys the orders of `perdure emulate`: it switches card and host, and hands faults on.
 *
 * Invariant: one order is obeyed behind the other. What is refused is said, and the next one is
 * obeyed.
 */

import type { CutReport, EmulatedDpu } from '../../../boards/emulator/index.ts'
import { ArgumentError, PerdureError } from '../../base/errors.ts'
import type { Output } from '../base/output.ts'
import type { Faults } from './faults.ts'
import type { HostInside } from './host-inside.ts'
import { type Order, orderHelp, orderOf, type Party, readConsole } from './orders.ts'

/** What it switches, and how the emulation takes part. */
interface Parts {
  readonly card: EmulatedDpu
  readonly inside: HostInside | null
  readonly faults: Faults
  /** Gives power to the card, and tells of it. */
  startCard(): Promise<void>
  /** The host has come back to a card that has power: prepares that again. */
  prepare(): Promise<void>
  /** Something failed that is no refusal. */
  fail(error: Error): void
}

export class Switchboard {
  private readonly output: Output
  private readonly parts: Parts
  /** What was ordered last is done, and everything before it. */
  private obeyed: Promise<void> = Promise.resolve()

  constructor(output: Output, parts: Parts) {
    this.output = output
    this.parts = parts
  }

  /** Obeys the lines of the console; returns what ends that. */
  listen(): () => void {
    this.output.say("console: 'help' says what may be ordered")
    return readConsole((line) => {
      try {
        this.obey(orderOf(line))
      } catch (error) {
        this.output.fail(error)
      }
    })
  }

  /** One order behind the other; what the card refuses is said, and the next one is obeyed. */
  obey(order: Order): void {
    this.behind(() => this.carryOut(order))
  }

  /** Does it behind everything that was ordered before. */
  behind(work: () => Promise<void>): void {
    this.obeyed = this.obeyed.then(work).catch((error: Error) => {
      if (error instanceof PerdureError) this.output.fail(error)
      else this.parts.fail(error)
    })
  }

  private async carryOut(order: Order): Promise<void> {
    switch (order.kind) {
      case 'help':
        for (const line of orderHelp()) this.output.say(line)
        return
      case 'power':
        await this.switchPower(order.party, order.to)
        return
      case 'ddio':
        this.hostWithMemory().ddio = order.on
        this.output.tell(
          { hostNext: { ddio: order.on } },
          `host: DDIO ${order.on ? 'on' : 'off'} from its next start on`,
        )
        return
      case 'lose':
        this.hostWithMemory().loseNextWrite()
        this.output.tell(
          { hostLoses: 1 },
          'host: the next write into its memory gets lost on its way',
        )
        return
      default: {
        const text = await this.parts.faults.carryOut(order)
        this.output.tell({ fault: order, text }, text)
      }
    }
  }

  private hostWithMemory(): HostInside {
    const { inside } = this.parts
    if (inside?.persistent != null) return inside
    throw new ArgumentError('there is no host inside with persistent memory: --persistent')
  }

  private async switchPower(party: Party, to: 'off' | 'on' | 'reset'): Promise<void> {
    if (party !== 'card' && this.parts.inside === null) {
      throw new ArgumentError('there is no host inside: --persistent or --memory')
    }
    if (to !== 'on') this.switchOff(party)
    if (to !== 'off') await this.switchOn(party)
  }

  /** The power went: at a chosen place, or as it was ordered, which tells by itself. */
  wasCut(powerCut: CutReport): void {
    if (!this.parts.faults.takePlan()) return
    const { chunks, chunksKept } = powerCut
    const kept = `${chunks} words of 8 bytes were pending, and ${chunksKept} of them are kept`
    this.output.tell({ powerCut }, `power cut: ${kept}; 'card on' gives it back`)
  }

  /** Takes the power away, of both in the same instant: nothing that was pending survives. */
  private switchOff(party: Party): void {
    const { card, inside } = this.parts
    if (party !== 'card' && inside?.isOn === true) {
      const hostCut = inside.powerOff()
      this.output.tell({ hostCut }, `host off: ${lostText(hostCut)}`)
    }
    if (party !== 'host' && card.isOn) {
      this.parts.faults.takePlan()
      const powerCut = card.powerCut({ strategy: 'none' }, true)
      this.output.tell({ powerCut }, `power cut: ${lostText(powerCut)}`)
    }
  }

  /** Gives power, to the host first; when both have it the host takes its card into use. */
  private async switchOn(party: Party): Promise<void> {
    const { card, inside } = this.parts
    const hostComes = party !== 'card' && inside?.isOn === false
    const cardComes = party !== 'host' && !card.isOn
    if (hostComes) inside.powerOn()
    if (cardComes) await this.parts.startCard()
    else if (hostComes && card.isOn) {
      await inside.open()
      await this.parts.prepare()
    }
    if (hostComes) this.sayHostOn(inside)
  }

  sayHostOn({ ddio, placement, persistent }: HostInside): void {
    const how = `DDIO ${ddio ? 'on' : 'off'}, placement ${placement ?? 'not proven'}`
    const text = persistent === null ? 'host on' : `host on: ${how}`
    this.output.tell({ hostOn: { ddio, placement } }, text)
  }
}

function lostText(cut: CutReport | null): string {
  return `${cut?.chunks ?? 0} words of 8 bytes were pending and are lost`
}
