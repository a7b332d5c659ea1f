/**
 * The firmware's sources, powered on again and again on one state, which is put back to what a new
 * one is: making it again was a quarter of all that a simulation does, most of it as garbage.
 *
 * Invariants:
 * - A state is made by the firmware itself, once for each packet memory and each address of a card.
 *   All that can be reached from it is written down then, field by field, and each power-on writes
 *   it back: no list of what a burst may change is kept by hand.
 * - What is not put back is not of the state: packet memory, which the card clears; the machine and
 *   its facts, which are new at every power-on; the work of a host behind PCIe, where there is
 *   none: it is one blank object for all such cards.
 * - An engine of an earlier power-on on that memory must not be called any more.
 *
 * That nothing is left behind is shown by evidence-simulate.test.ts: the same seeds on states that
 * are new give the same command lists, byte for byte.
 */

import type { FirmwareEngine } from '../../../boards/emulator/run/engine.ts'
import type { EmulatedMachine } from '../../../boards/emulator/run/machine.ts'
import type { Facts, Machine } from '../../../firmware/board/hal.ts'
import { seedRandom } from '../../../firmware/board/random.ts'
import type { State } from '../../../firmware/core.ts'
import { createState, startWith } from '../../../firmware/main.ts'

type Fields = Record<string, unknown>
type View = Int32Array | Uint8Array | Float64Array

/** Writes the fields of objects as they were. */
type PutBack = (objects: readonly Fields[], images: readonly Fields[]) => void

/**
 * Objects with the same fields in the same order, and what was in them: the same image where the
 * one before was the same, as those of a table are.
 */
interface Kind {
  readonly putBack: PutBack
  readonly objects: Fields[]
  readonly images: Fields[]
}

/** What a state refers to in place of its machine: it stays, as the machines come and go. */
class Socket implements Machine {
  readonly memory: ArrayBuffer
  readonly facts: Facts
  machine: EmulatedMachine

  constructor(machine: EmulatedMachine) {
    this.machine = machine
    this.memory = machine.memory
    this.facts = machine.facts
  }

  run(count: number): number {
    return this.machine.run(count)
  }
}

/** All that can be reached from an object, as it is now. */
class Image {
  private readonly kinds: Map<string, Kind> = new Map()
  private readonly lists: unknown[][] = []
  private readonly listImages: unknown[][] = []
  private readonly views: View[] = []
  private readonly viewImages: (View | null)[] = []
  private readonly seen: Set<unknown>

  /** `apart` is what belongs to somebody else. */
  constructor(root: object, apart: readonly unknown[]) {
    this.seen = new Set(apart)
    this.note(root)
  }

  private note(value: unknown): void {
    if (typeof value !== 'object' || value === null || this.seen.has(value)) return
    this.seen.add(value)
    if (ArrayBuffer.isView(value)) this.noteView(value as View)
    else if (Array.isArray(value)) {
      this.lists.push(value)
      this.listImages.push(value.slice())
      for (const one of value) this.note(one)
    } else if (value instanceof Map || value instanceof Set || value instanceof ArrayBuffer) {
      throw new TypeError('a state with something that is not written down here')
    } else this.noteObject(value as Fields)
  }

  private noteObject(object: Fields): void {
    const names = Object.keys(object)
    const key = names.join()
    let kind = this.kinds.get(key)
    if (kind === undefined) {
      kind = { putBack: putBackOf(names), objects: [], images: [] }
      this.kinds.set(key, kind)
    }
    kind.objects.push(object)
    const before = kind.images.at(-1)
    const same =
      before !== undefined && names.every((name) => Object.is(before[name], object[name]))
    kind.images.push(same ? before : { ...object })
    for (const name of names) this.note(object[name])
  }

  /** A view of a buffer that is shared, as packet memory is, belongs to whoever has it. */
  private noteView(view: View): void {
    if (this.seen.has(view.buffer)) return
    this.views.push(view)
    this.viewImages.push(view.some((value) => value !== 0) ? view.slice() : null)
  }

  putBack(): void {
    for (const { putBack, objects, images } of this.kinds.values()) putBack(objects, images)
    const { lists, listImages, views, viewImages } = this
    for (let i = 0; i < lists.length; i++) {
      const list = lists[i]!
      const image = listImages[i]!
      list.length = image.length
      for (let j = 0; j < image.length; j++) if (list[j] !== image[j]) list[j] = image[j]
    }
    for (let i = 0; i < views.length; i++) {
      const image = viewImages[i]!
      if (image === null) views[i]!.fill(0)
      else views[i]!.set(image)
    }
  }
}

/**
 * One assignment for each field, made as code: the names are those of the firmware's own objects,
 * and a loop over names takes as long as making the object.
 */
function putBackOf(names: readonly string[]): PutBack {
  const keys = names.map((name) => JSON.stringify(name))
  const body = [
    'for (let i = 0; i < objects.length; i++) {',
    'const into = objects[i], from = images[i]',
    ...keys.map((key) => `into[${key}] = from[${key}]`),
    '}',
  ]
  return new Function('objects', 'images', body.join('\n')) as PutBack
}

class Desk {
  readonly facts: Facts
  private readonly socket: Socket
  private readonly state: State
  private readonly image: Image

  constructor(machine: EmulatedMachine) {
    this.facts = machine.facts
    this.socket = new Socket(machine)
    this.state = createState(this.socket)
    const { socket, state } = this
    const apart = [socket, socket.facts, socket.memory]
    const hasHost = machine.facts.dmaBytes > 0
    this.image = new Image(state, hasHost ? apart : [...apart, state.hostWork])
  }

  start(machine: EmulatedMachine): FirmwareEngine {
    const { socket, state, image } = this
    image.putBack()
    socket.machine = machine
    Object.assign(state, { facts: machine.facts })
    seedRandom(state.words, machine.facts.entropy)
    const firmware = startWith(state)
    return {
      serve: (count, nowUs) => firmware.serve(count, nowUs),
      idle: (nowUs) => firmware.idle(nowUs),
      memoryUsed: () => process.memoryUsage().heapUsed,
      dispose: () => {},
    }
  }
}

/** What a state is made from, beside the entropy. */
function isSame(a: Facts, b: Facts): boolean {
  const isSameHost = a.dmaBytes === b.dmaBytes && a.hostBytes === b.hostBytes
  const isSameCard = a.mac[5] === b.mac[5] && a.ipv4[3] === b.ipv4[3]
  return isSameCard && isSameHost && a.identity === b.identity
}

const desks = new WeakMap<ArrayBuffer, Desk[]>()

/** As `bootDirect`; the packet memory of the machine is new, or that of one that is gone. */
export function bootRenewed(machine: EmulatedMachine): FirmwareEngine {
  let here = desks.get(machine.memory)
  if (here === undefined) {
    here = []
    desks.set(machine.memory, here)
  }
  let desk = here.find(({ facts }) => isSame(facts, machine.facts))
  if (desk === undefined) {
    desk = new Desk(machine)
    here.push(desk)
  }
  return desk.start(machine)
}
