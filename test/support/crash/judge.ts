/**
 * The judge of a card that started on a crash image.
 *
 * Invariant: what is right is decided by the oracle, from the bytes of the part, and from
 * what the actor says was begun and acknowledged. Of a lean boot the bytes, the report and the
 * operations that the firmware knows are looked at; where a card can be asked over the wire, what
 * it answers and what it reads must agree with them.
 */

import type { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import {
  type ClientLine,
  copyAt,
  LANES,
  LANES_AT,
  LINE_BYTES,
  lineKnows,
  OPERATIONS_AT,
  OPERATIONS_BYTES,
  type RecordOracle,
  sameBytes,
  TableOracle,
} from '../judges/oracle.ts'
import type { Actor } from './actor.ts'
import type { Asker, Reader, Started } from './booth.ts'
import type { Scenario } from './scenario.ts'

/** Number of the action 'lost' in the report, and of the state 'serving' (doc/control.md). */
const LOST_ACTION = 3
const SERVING = 1

/** The operations of one client that wrote a record, and their versions. */
interface Asked {
  readonly client: number
  readonly versions: readonly number[]
  readonly operations: readonly number[]
  /** What a line says of them: bit v for version v. */
  readonly masks: Map<ClientLine, number>
}

export class Judge {
  private readonly part: Nvdimm
  private readonly actor: Actor
  private readonly scenario: Scenario
  private readonly table = new TableOracle()
  private readonly laneWords: Int32Array
  /** The client whose line of the table was looked up last in this image, or -1; and that line. */
  private client = -1
  private line: ClientLine | null = null
  /** Records that were written, and what is asked of each. */
  private written: RecordOracle[] = []
  private asked: Asked[][] = []
  /** What must stay as it is since the last point: where it lies, and what it held. */
  private outside: (readonly [Uint8Array, Uint8Array])[] = []
  /**
   * A line of the operation table that has a media error, or -1: what it alone knew is forgotten,
   * which is no violation (operations.ts), and counted here.
   */
  tableLine = -1
  forgotten = 0

  constructor(part: Nvdimm, actor: Actor, scenario: Scenario) {
    this.part = part
    this.actor = actor
    this.scenario = scenario
    const words = (LANES * LINE_BYTES) / 4
    this.laneWords = part.durableWords.subarray(LANES_AT / 4, LANES_AT / 4 + words)
  }

  /** A new point: what was written by now is known. Says what is wrong with what never was. */
  begin(): string[] {
    const records = [...this.actor.records.values()]
    const { durable } = this.part
    this.written = records.filter(({ started }) => started > 0)
    this.asked = this.written.map(askedOf)
    this.outside = this.rangesOutside().map(([from, end]) => {
      return [durable.subarray(from, end), durable.slice(from, end)]
    })
    const { wronglySaid } = this.actor
    const untouched = records.flatMap((record) => {
      return record.started > 0 ? [] : (record.complaint(durable) ?? [])
    })
    return wronglySaid === '' ? untouched : [wronglySaid, ...untouched]
  }

  /** All but superblock, lanes, operation table and the slots written to. */
  private rangesOutside(): (readonly [number, number])[] {
    const inside: [number, number][] = [
      [0, LANES_AT + LANES * LINE_BYTES],
      [OPERATIONS_AT, OPERATIONS_AT + OPERATIONS_BYTES],
    ]
    for (const { region, record } of this.written) {
      for (let copy = 0; copy < region.copies; copy++) {
        const at = copyAt(region, copy, record)
        inside.push([at, at + region.stride])
      }
    }
    inside.sort(([a], [b]) => a - b)
    inside.push([this.part.bytes, this.part.bytes])
    return inside.flatMap(([from], i): [number, number][] => {
      const end = i === 0 ? 0 : inside[i - 1]![1]
      return end < from ? [[end, from]] : []
    })
  }

  /** Everything that is wrong with a part that was left by a cut, and nothing else. */
  judge(started: Started, read: Reader | null, ask: Asker): string[] {
    const { part, written } = this
    const said: string[] = []
    this.client = -1
    if (started.state !== SERVING) said.push(`the part does not serve${why(started)}`)
    if (started.unsettled !== 0) said.push('a record was given up as lost')
    for (let i = 0; i < written.length; i++) {
      const record = written[i]!
      const version = this.versionOf(record)
      if (version < 0) {
        said.push(record.complaint(part.durable)!)
        continue
      }
      if (read !== null) this.judgeRead(said, record, read(record.record, capacityOf(record)), 0)
      // Without check codes a torn line of the table says anything: it has no other structure.
      if (this.scenario.damage?.checkless === true) continue
      this.judgeOperations(said, record, version, this.knownOf(said, i, ask))
    }
    this.judgeOrder(said)
    if (!this.outsideSame()) said.push('a byte changed that nothing was written to')
    if (!this.lanesClear()) said.push('a lane was not cleared')
    return said
  }

  /** The version that all copies are, if it is one that may be; -1 otherwise. */
  private versionOf(record: RecordOracle): number {
    const { durable } = this.part
    const version = record.versionIn(durable, 0)
    if (version < record.acknowledged || version > record.started) return -1
    for (let copy = 1; copy < record.region.copies; copy++) {
      if (record.versionIn(durable, copy) !== version) return -1
    }
    return version
  }

  private lanesClear(): boolean {
    const { laneWords } = this
    for (let i = 0; i < laneWords.length; i++) if (laneWords[i] !== 0) return false
    return true
  }

  private outsideSame(): boolean {
    for (const [now, before] of this.outside) if (!sameBytes(now, before)) return false
    return true
  }

  /**
   * With a media error that may lose the record: it is not older than acknowledged, or lost, and
   * then said to be and left alone. `before` is what its copies held. Returns whether it is lost.
   */
  judgeLoss(
    said: string[],
    record: RecordOracle,
    before: Uint8Array,
    started: Started,
    read: Reader | null,
    ask: Asker,
  ): boolean {
    this.client = -1
    const known = this.knownOf(said, this.written.indexOf(record), ask)
    const data = read === null ? null : read(record.record, capacityOf(record))
    const lost = started.unsettled === 1 && data === null
    if (!lost) {
      if (read !== null) this.judgeRead(said, record, data, record.acknowledged)
      else this.judgeFirst(said, record)
      this.judgeOperations(said, record, record.versionIn(this.part.durable, 0), known)
      return false
    }
    if (((known >> record.started) & 1) === 1) {
      said.push('the operation of a lost record is known as durable')
    }
    if (!sameBytes(this.copiesOf(record), before)) said.push('a lost record was written to')
    const line = started.report.find((entry) => entry.record === record.record)
    if (line === undefined || line.action !== LOST_ACTION) {
      said.push('the report does not say that the record is lost')
    }
    return true
  }

  /** Every copy of a record, one behind the other. */
  copiesOf(record: RecordOracle): Uint8Array {
    const copies = Array.from({ length: record.region.copies }, (_, copy) => copy)
    return Buffer.concat(copies.map((copy) => record.copyIn(this.part.durable, copy)))
  }

  /** A READ would be served from the first copy that is whole and can be read. */
  private judgeFirst(said: string[], record: RecordOracle): void {
    const { durable } = this.part
    const { region, acknowledged } = record
    for (let copy = 0; copy < region.copies; copy++) {
      const version = record.versionIn(durable, copy)
      const at = copyAt(region, copy, record.record)
      if (version < 0 || !this.part.readable(at, region.stride)) continue
      if (version >= acknowledged) return
      said.push(`record ${record.record} is v${version}, v${acknowledged} was acknowledged`)
      return
    }
    said.push(`record ${record.record} cannot be read`)
  }

  /** What a READ brought must be the version in copy A, and that one `atLeast` or later. */
  private judgeRead(
    said: string[],
    record: RecordOracle,
    data: Uint8Array | null,
    atLeast: number,
  ): void {
    const version = record.versionIn(this.part.durable, 0)
    const wanted = new Uint8Array(capacityOf(record))
    if (version >= 0) wanted.set(record.versions[version]!.data)
    if (data === null) said.push(`record ${record.record} cannot be read`)
    else if (version < atLeast || !sameBytes(data, wanted)) {
      said.push(`record ${record.record} reads as something else than v${version}`)
    }
  }

  /** Of a batch in order the first records are there, and none behind one that is not. */
  private judgeOrder(said: string[]): void {
    const { inOrder } = this.scenario
    if (inOrder === undefined) return
    const there = inOrder.map((slot) => {
      const record = this.actor.record(slot)
      return record.started > 0 && record.versionIn(this.part.durable, 0) === record.started
    })
    const missing = there.indexOf(false)
    const later = there.lastIndexOf(true)
    if (missing < 0 || later < missing) return
    said.push(`record ${later} of the batch is there, and record ${missing} is not`)
  }

  /**
   * The versions of a record whose operations are known as durable, on the medium and, as the card
   * says, by itself: that they differ is a violation. Bit v is version v.
   */
  private knownOf(said: string[], i: number, ask: Asker): number {
    let known = 0
    for (const asked of this.asked[i]!) {
      const there = this.knownOnMedium(asked)
      known |= there
      const answers = ask(asked.client, asked.operations)
      for (let at = 0; at < answers.length; at++) {
        const is = ((there >> asked.versions[at]!) & 1) === 1
        if (answers[at] === is) continue
        said.push(`operation ${asked.operations[at]}: medium ${is}, answer ${answers[at]}`)
      }
    }
    return known
  }

  private knownOnMedium({ client, versions, operations, masks }: Asked): number {
    if (client !== this.client) {
      const lost = this.tableLine >= 0 && this.part.isPoisoned(this.tableLine)
      const unreadable = lost ? this.tableLine * LINE_BYTES : -1
      this.line = this.table.lineOf(this.part.durable, client, 0n, unreadable)
      this.client = client
    }
    const { line } = this
    if (line === null) return 0
    let mask = masks.get(line)
    if (mask === undefined) {
      mask = 0
      for (let i = 0; i < versions.length; i++) {
        if (lineKnows(line, BigInt(operations[i]!))) mask |= 1 << versions[i]!
      }
      masks.set(line, mask)
    }
    return mask
  }

  /**
   * An operation is known exactly when its record is that version or a later one: what was
   * acknowledged is known, what is known is durable, and what recovery finished is not done again.
   */
  private judgeOperations(
    said: string[],
    record: RecordOracle,
    version: number,
    known: number,
  ): void {
    for (let v = 1; v <= record.started; v++) {
      const is = ((known >> v) & 1) === 1
      if (is === v <= version) continue
      if (!is && this.tableLine >= 0) {
        this.forgotten += 1
        continue
      }
      const what = `record ${record.record} is v${version} (v${record.acknowledged} acknowledged)`
      said.push(`${what}, and v${v} is ${is ? '' : 'not '}known as durable`)
    }
  }

  /** Which versions the table knows now, as a number. */
  tableState(): number {
    let state = 0
    this.client = -1
    for (const asked of this.asked) {
      let known = 0
      for (const one of asked) known |= this.knownOnMedium(one)
      state = state * 64 + known
    }
    return state
  }
}

function why({ fault }: Started): string {
  return fault === 0 ? '' : `: fault ${fault}`
}

function capacityOf({ region }: RecordOracle): number {
  return region.capacity
}

function askedOf({ versions }: RecordOracle): Asked[] {
  return [...new Set(versions.map(({ client }) => client))].flatMap((client) => {
    const own = [...versions.keys()].filter((v) => v > 0 && versions[v]!.client === client)
    const operations = own.map((v) => versions[v]!.operation)
    return own.length === 0 ? [] : [{ client, versions: own, operations, masks: new Map() }]
  })
}
