/**
 * The main job, end to end: a file is persisted record by record into the emulated DPU, the power
 * goes in the middle of a commit, the DPU boots again and recovers, the driver goes on, and the
 * file is read back.
 *
 * Invariant: everything that looks like chance comes from the seed, so a run can be had
 * again; the verdict does not rest on what the DPU says of itself: what was acknowledged before the
 * cut is compared with the part's own bytes after recovery, before the driver repairs anything, and
 * the file with its hash at the end.
 */

import { createHash } from 'node:crypto'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import {
  type CutReport,
  EmulatedDpu,
  Link,
  openNvdimm,
  Random,
  VirtualClock,
} from '../../../boards/emulator/index.ts'
import { makeFolder } from '../../../boards/folder.ts'
import { PASS } from '../../../firmware/board/fault.ts'
import { BURST_FRAMES, PATH_MTU_BYTES_MAX } from '../../../firmware/board/limits.ts'
import { strideOf } from '../../../firmware/medium/region.ts'
import { SLOT_HEADER_BYTES } from '../../../firmware/medium/slot.ts'
import { DATA_AT } from '../../../firmware/medium/superblock.ts'
import { has, PERSIST, REQUEST } from '../../../firmware/wire/opcode.ts'
import { blankPacket, checkPacket, type Packet } from '../../../firmware/wire/packet.ts'
import { ArgumentError } from '../../base/errors.ts'
import { connect } from '../../connect.ts'
import type { Dpu } from '../../dpu.ts'
import { linkWire } from '../../local.ts'
import type { Region } from '../../records/region.ts'
import { parseDurability } from '../../way/durability.ts'
import { PcapWriter } from '../../way/pcap.ts'
import type { Receipt } from '../../way/write.ts'
import { type Counts, costBetween } from './cost.ts'
import { TraceNearTheCut } from './near-the-cut.ts'
import type { DemoOptions, DemoResult, Recovered } from './result.ts'

/** Bytes of the file that the demo makes for itself. */
const OWN_FILE_BYTES = 4 << 20

/** How long the DPU is without power, µs. */
const DARK_US = 50_000

const REGION = 'file'

export async function runDemo(options: DemoOptions): Promise<DemoResult> {
  const demo = new Demo(options)
  try {
    return await demo.run()
  } finally {
    demo.close()
  }
}

class Demo {
  private readonly options: DemoOptions
  private readonly begun: number = performance.now()
  private readonly random: Random
  private readonly clock: VirtualClock = new VirtualClock()
  private readonly content: Buffer
  private readonly file: string
  private readonly records: number
  private readonly copies: number
  private readonly image: string
  private readonly capture: string
  private readonly pcap: PcapWriter
  private readonly traced: TraceNearTheCut
  private readonly link: Link
  private readonly card: EmulatedDpu
  private readonly durable: Set<number> = new Set()
  private readonly requests: Set<number> = new Set()
  private readonly packet: Packet = blankPacket()
  private cutReport: CutReport | null = null
  private acknowledgedBeforeCut = 0
  private acknowledgedLost = 0
  private darkness: Promise<void> = Promise.resolve()
  private finished = false

  constructor(options: DemoOptions) {
    this.options = options
    this.random = new Random(options.seed)
    this.copies = parseDurability(options.level).copies
    makeFolder(options.folder)
    this.file = options.file ?? join(options.folder, 'file.bin')
    this.content = options.file === undefined ? this.makeFile() : readFileSync(options.file)
    this.records = Math.max(1, Math.ceil(this.content.length / options.recordBytes))
    this.image = resolve(options.folder, 'part.nvdimm')
    this.capture = resolve(options.folder, 'wire.pcap')
    this.pcap = new PcapWriter(this.capture)
    this.traced = new TraceNearTheCut(resolve(options.folder, 'run.trace'))
    rmSync(this.image, { force: true })
    rmSync(`${this.image}.condition`, { force: true })
    const { clock } = this
    const nvdimm = openNvdimm({ path: this.image, bytes: this.partBytes() })
    const faults = { loss: options.loss }
    this.link = new Link({
      clock,
      seed: this.random.next(),
      faults,
      tap: (frame, timeUs) => {
        this.pcap.add(timeUs, frame)
        this.noteRequest(frame)
      },
    })
    this.card = new EmulatedDpu({
      nvdimm,
      clock,
      engine: options.engine,
      seed: this.random.next(),
      trace: this.traced.trace,
      transmit: (frame) => this.link.send('b', frame),
      onPowerCut: (report) => this.onCut(report),
    })
    this.link.attach('b', (frame) => {
      if (this.traced.waits && this.isOfRecord(frame) && this.packet.row!.ends) {
        this.traced.comes()
      }
      this.card.deliver(frame)
    })
  }

  private makeFile(): Buffer {
    const bytes = Buffer.alloc(OWN_FILE_BYTES)
    for (let at = 0; at < bytes.length; at += 4) bytes.writeUInt32LE(this.random.next() >>> 0, at)
    writeFileSync(this.file, bytes)
    return bytes
  }

  private partBytes(): number {
    const page = SUPER_PAGE
    const area = Math.ceil((this.records * strideOf(this.options.recordBytes)) / page) * page
    return DATA_AT + this.copies * area
  }

  async run(): Promise<DemoResult> {
    const { options, clock } = this
    const say = options.say ?? (() => {})
    await this.card.powerOn()
    clock.start()
    const dpu = await connect(linkWire(this.link, clock), {
      seed: this.random.next(),
      pathMtu: PATH_MTU_BYTES_MAX,
      inFlight: BURST_FRAMES,
      durability: options.level,
      timeoutMs: 60_000,
    })
    await dpu.format()
    const region = await dpu.provision({
      name: REGION,
      slots: this.records,
      capacity: options.recordBytes,
      copies: this.copies,
    })
    const cutRecord = this.planCut()
    this.traced.plan(cutRecord)
    say(
      cutRecord === null
        ? 'no power cut is planned'
        : `seed ${options.seed}: the power will go inside the commit of record ${cutRecord} ` +
            `of ${this.records}${options.loss > 0 ? ', lost ones counted again' : ''}`,
    )
    const before = this.counts(dpu)
    await this.persistFile(region)
    await this.darkness
    const writing = costBetween(before, this.counts(dpu))
    const recovery = this.cutReport === null ? null : await this.recovery(dpu)
    const { sha: shaRead, torn } = await this.readBack(region)
    const scan = await dpu.scan(REGION)
    await dpu.close()
    const shaWritten = sha256(this.content)
    const lost = this.acknowledgedLost + torn + scan.lost + scan.unsettled
    return {
      file: this.file,
      fileBytes: this.content.length,
      records: this.records,
      recordBytes: options.recordBytes,
      level: options.level,
      seed: options.seed,
      engine: options.engine,
      loss: options.loss,
      cutRecord: this.cutReport === null ? null : cutRecord,
      cut: this.cutReport,
      acknowledgedBeforeCut: this.acknowledgedBeforeCut,
      acknowledgedLost: this.acknowledgedLost,
      recovery,
      writing,
      scan,
      shaWritten,
      shaRead,
      torn,
      virtualMs: clock.nowUs / 1000,
      realMs: performance.now() - this.begun,
      image: this.image,
      capture: this.capture,
      trace: this.traced.path,
      timeline: resolve(options.folder, 'timeline.html'),
      ok: lost === 0 && shaWritten === shaRead,
    }
  }

  /** Requests by queue pair and PSN: a repetition has both alike. */
  private noteRequest(frame: Uint8Array): void {
    const { packet } = this
    if (this.isOfRecord(frame) && packet.row!.begins) {
      this.requests.add(packet.destQp * 2 ** 24 + packet.psn)
    }
  }

  /** Is it a packet of a request for a record? Then `packet` is it. */
  private isOfRecord(frame: Uint8Array): boolean {
    const { packet } = this
    if (checkPacket(packet, frame, 0, frame.length) !== PASS || packet.row === null) return false
    const { properties } = packet.row
    return has(properties, PERSIST) && has(properties, REQUEST)
  }

  private counts(dpu: Dpu): Counts {
    return {
      client: dpu.statistics(),
      dpu: this.card.statistics,
      toDpu: { ...this.link.counts('a') },
      toHost: { ...this.link.counts('b') },
      requests: this.requests.size,
    }
  }

  /** Arms the cut; null if there is to be none. */
  private planCut(): number | null {
    const { cut } = this.options
    if (cut === 0) return null
    if (cut !== undefined && cut > this.records) {
      throw new ArgumentError(`cut ${cut}: the file has ${this.records} records`)
    }
    const within = Math.max(1, Math.floor(this.records * 0.6))
    const first = Math.min(this.records, Math.ceil(this.records * 0.2) + 1)
    const drawn = first + ((this.random.next() >>> 0) % within)
    const record = cut ?? Math.min(this.records, drawn)
    this.card.armCut({ record, choice: { random: this.random.fork() } })
    return record
  }

  /** Persists every record, as many at a time as the driver allows. */
  private async persistFile(region: Region): Promise<void> {
    const { recordBytes, progress } = this.options
    const reached = progress?.(this.records)
    const writes: Promise<Receipt>[] = []
    for (let slot = 0; slot < this.records; slot++) {
      const bytes = this.content.subarray(slot * recordBytes, (slot + 1) * recordBytes)
      const { persisted } = region.persist(slot, bytes)
      writes.push(persisted)
      void persisted.then(
        () => {
          this.durable.add(slot)
          this.traced.reached(this.durable.size)
          reached?.(this.durable.size)
        },
        () => {},
      )
      if (writes.length >= IN_FLIGHT) await writes.shift()
    }
    await Promise.all(writes)
  }

  /** The power is gone: the clock stands while the DPU boots, then everybody goes on. */
  private onCut(report: CutReport): void {
    if (this.finished) return
    this.cutReport = report
    this.acknowledgedBeforeCut = this.durable.size
    this.traced.cut(this.durable.size)
    const acknowledged = [...this.durable]
    this.options.say?.(
      `power cut: ${report.chunks} chunks of 8 bytes were pending, ${report.chunksKept} of them ` +
        `survived (${report.mode}, ${report.strategy}); ` +
        `${acknowledged.length} records were acknowledged`,
    )
    const { clock } = this
    clock.schedule(clock.nowUs + DARK_US, () => {
      clock.stop()
      this.darkness = this.card.powerOn().then(() => {
        this.acknowledgedLost = this.missing(acknowledged)
        clock.start()
      })
    })
  }

  /** Acknowledged records that the part does not hold, whole, in every copy. */
  private missing(acknowledged: readonly number[]): number {
    const { recordBytes } = this.options
    const { live } = this.card.nvdimm
    const stride = strideOf(recordBytes)
    const area = Math.ceil((this.records * stride) / SUPER_PAGE) * SUPER_PAGE
    let missing = 0
    for (const slot of acknowledged) {
      const wanted = this.content.subarray(slot * recordBytes, (slot + 1) * recordBytes)
      for (let copy = 0; copy < this.copies; copy++) {
        const at = DATA_AT + copy * area + slot * stride + SLOT_HEADER_BYTES
        const held = live.subarray(at, at + wanted.length)
        if (Buffer.compare(held, wanted) !== 0) {
          missing += 1
          break
        }
      }
    }
    return missing
  }

  private async recovery(dpu: Dpu): Promise<Recovered> {
    const [status, entries, regions] = [await dpu.status(), await dpu.report(), await dpu.regions()]
    return { status, entries, regions }
  }

  private async readBack(region: Region): Promise<{ sha: string; torn: number }> {
    const hash = createHash('sha256')
    let torn = 0
    for (let slot = 0; slot < this.records; slot++) {
      try {
        hash.update((await region.read(slot)).data)
      } catch {
        torn += 1
      }
    }
    return { sha: hash.digest('hex'), torn }
  }

  close(): void {
    this.finished = true
    this.clock.stop()
    if (this.card.isOn) this.card.powerCut({ strategy: 'all' })
    this.card.nvdimm.backing?.close()
    this.pcap.close()
    this.traced.close()
  }
}

/** Records that the demo keeps on their way. */
const IN_FLIGHT = 2 * BURST_FRAMES

const SUPER_PAGE = 4096

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}
