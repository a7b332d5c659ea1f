/**
 * What the guest's clients try, what must come of it, and the power cut behind it.
 */

import { setTimeout } from 'node:timers/promises'
import { KIND_ACK, KIND_RNR, SYNDROME_KIND } from '../../firmware/wire/aeth.ts'
import { connect } from '../../host-driver/index.ts'
import { PATIENT } from '../support/run/patience.ts'
import type { DpuProcess, Told } from './dpu-process.ts'
import { differences, type Piece, piecesOf } from './expectations.ts'
import type { Guest } from './guest.ts'
import type { GuestImage } from './image.ts'
import { LOSSES, tryLosses } from './losses.ts'
import { tryPairs } from './pairs.ts'
import type { Relay } from './relay.ts'
import { CLIENT_SECONDS, type Found, failuresOf, Session, stepsOf } from './session.ts'
import type { Outcome } from './table.ts'

/** Ports of RDMA-CM, and the size of what each publishes. */
export const PORTS = {
  bytes: '64K',
  librpmaFlush: 7205,
  librpmaLog: 7207,
  exampleFlush: 7215,
  exampleLog: 7217,
  verbs: 7220,
  refusals: 7221,
  readOnly: 7222,
  writeOnly: 7223,
  nothing: 7299,
  others: 7224,
  stream: 7225,
  streamBytes: '1M',
  persisted: 7227,
  plain: 7228,
  through: 7229,
  published: [7205, 7207, 7215, 7217, 7220, 7221],
} as const

/** The card's own addresses, and those of the one that refuses the FLUSH of Linux. */
const IPV4 = '10.0.0.2'
const IPV6 = 'fd00::2'
const STRICT_IPV4 = '10.0.1.2'

const REMOTE_WRITE = 2
const REMOTE_READ = 4

/** How long a client is left waiting for what must not come, and where it leaves its exit code. */
const HANG_SECONDS = 3
const EXIT_CODE = '/exit-code'

/** How often a counter is looked at that will grow, ms. */
const LOOK_MS = 100

/** The verbs client uses this much of a region. */
const VERBS_BYTES = 32768

/**
 * Linux asks for its IPv6 neighbour, and is answered at once; but its RDMA address resolution then
 * often looks for the answer 5 s later only. A ping, which the card ignores, asks beforehand.
 */
const ASK_NEIGHBOUR = `(ping -c 1 -W 1 ${IPV6} >/dev/null &) ; sleep 0.2`

/** So much has to be durable, as a stream says, before the plug is pulled. */
const SAID_BEFORE_CUT = 150
/** Likewise where each waits for a host's CPU, and all behind it come again meanwhile. */
const SAID_OF_HOST = 40

/** Arguments of one command line that the serial line takes. */
const PIECES_A_LINE = 60

const WORDS = ['durable', 'entry-2!', 'and-3']

interface Stage {
  readonly image: GuestImage
  readonly guest: Guest
  readonly dpu: DpuProcess
  /** Where the host driver finds the card, and the strict one. */
  readonly address: string
  readonly strictAddress: string
  /** Path of the card's image. */
  readonly nvdimm: string
  /** The wire between both, which can lose frames. */
  readonly relay: Relay
  readonly talk: (line: string) => void
  /** The command `perdure`. */
  readonly command: string
  /** Part of the names of the cases that are tried; all have ''. */
  readonly only: string
}

export class Cases {
  private readonly stage: Stage
  private readonly session: Session

  constructor(stage: Stage) {
    this.stage = stage
    this.session = new Session(stage.guest, stage.dpu, stage.talk, stage.only)
  }

  async run(): Promise<readonly Outcome[]> {
    await this.session.one("Debian's kernel and soft-RoCE module, unmodified", () =>
      this.unmodified(),
    )
    await this.librpma()
    const { verbs } = PORTS
    await this.session.one('verbs client, every operation, IPv4', () =>
      this.operations(IPV4, verbs, 0),
    )
    await this.session.one('verbs client, every operation, IPv6', async () => {
      await this.session.client(ASK_NEIGHBOUR)
      return this.operations(IPV6, verbs, VERBS_BYTES)
    })
    await this.session.one('verbs client, every refusal', () => this.refusals())
    await this.session.one('two clients at the same time', () => this.together())
    await this.session.one('clients that are killed, and one behind them', () => this.killed())
    await this.session.one("Linux's FLUSH was taken, and counted", () => this.flushesCounted())
    await this.session.one('strict ICRC: the FLUSH of Linux is dropped, and counted', () =>
      this.strict(),
    )
    await tryLosses({ session: this.session, relay: this.stage.relay, address: IPV4 }, 'as it is')
    await this.powerCut()
    await this.persisted()
    await this.persistedThrough()
    const { dpu, relay, address, command } = this.stage
    await tryPairs({ ...{ session: this.session, dpu, relay, address, command }, ipv4: IPV4 })
    return this.session.outcomes
  }

  /** An unsigned or changed module, or a forced one, taints the kernel. */
  private async unmodified(): Promise<Found> {
    const { lines, status } = await this.session.client(
      'cat /proc/sys/kernel/tainted && rdma link show rxe0/1',
    )
    const [tainted, link = ''] = lines
    const failures = [
      ...(status === 0 && tainted === '0' ? [] : [`the kernel says tainted: ${tainted}`]),
      ...(link.includes('state ACTIVE') ? [] : [`no active soft-RoCE device: ${link}`]),
    ]
    return { steps: 2, failures }
  }

  /** librpma's own examples where their source could be had, and our client on librpma always. */
  private async librpma(): Promise<void> {
    const { examples } = this.stage.image
    const { librpmaFlush, librpmaLog, exampleFlush, exampleLog } = PORTS
    if (examples === true) {
      await this.session.one("librpma's example 05, flush to persistent", () =>
        this.flush(`librpma-05 ${IPV4} ${exampleFlush}`, exampleFlush),
      )
      await this.session.one("librpma's example 07, atomic write", () =>
        this.log(`librpma-07 ${IPV4} ${exampleLog} ${WORDS.join(' ')}`, exampleLog),
      )
    }
    await this.session.one('librpma: write, flush to persistent (as example 05)', () =>
      this.flush(`librpma-client flush ${IPV4} ${librpmaFlush}`, librpmaFlush),
    )
    await this.session.one('librpma: atomic write (as example 07)', () =>
      this.log(`librpma-client log ${IPV4} ${librpmaLog} ${WORDS.join(' ')}`, librpmaLog),
    )
  }

  /** A client that writes one text to the begin of the region, and says which. */
  private async flush(command: string, port: number): Promise<Found> {
    const { lines, status } = await this.session.client(command)
    const text = lines.map((line) => /^Next value: (.+)$/.exec(line)?.[1]).find(Boolean)
    if (text !== undefined) {
      this.session.durable.push({ port, at: 0, bytes: Buffer.from(`${text}\0`), tag: null })
    }
    const failures = [
      ...failuresOf({ lines, status }),
      ...(text === undefined ? ['it never said what it wrote'] : []),
    ]
    return { steps: 2, failures }
  }

  /** A client that appends words to a log, whose first eight bytes say how much is used. */
  private async log(command: string, port: number): Promise<Found> {
    const result = await this.session.client(command)
    let end = 0
    for (const word of WORDS) {
      const bytes = Buffer.from(`${word}\0`)
      // The first word of an empty log lies where its length is written afterwards.
      if (end >= 8) this.session.durable.push({ port, at: end, bytes, tag: null })
      end += bytes.length
    }
    const used = Buffer.alloc(8)
    used.writeBigUInt64LE(BigInt(end))
    this.session.durable.push({ port, at: 0, bytes: used, tag: null })
    return { steps: 1 + 4 * WORDS.length, failures: failuresOf(result) }
  }

  private async operations(address: string, port: number, from: number): Promise<Found> {
    const result = await this.session.client(`verbs-client operations ${address} ${port} ${from}`)
    this.session.durable.push(...piecesOf('durable', port, result.lines))
    return stepsOf(result)
  }

  private async refusals(): Promise<Found> {
    const { refusals, readOnly, writeOnly, nothing, others } = PORTS
    const dpu = await connect(this.stage.address, PATIENT)
    const name = `port-${refusals}`
    try {
      await dpu.publish({ name, port: readOnly, rights: REMOTE_READ, stock: true })
      await dpu.publish({ name, port: writeOnly, rights: REMOTE_WRITE, stock: true })
      await dpu.publish({ name, port: others, stock: true, from: ['10.0.0.192/26'] })
    } finally {
      await dpu.close()
    }
    const ports = [refusals, readOnly, writeOnly, nothing, others].join(' ')
    return stepsOf(await this.session.client(`verbs-client refusals ${IPV4} ${ports}`))
  }

  private async together(): Promise<Found> {
    const { verbs } = PORTS
    const one = `verbs-client operations ${IPV4} ${verbs} 0`
    const other = `verbs-client operations ${IPV6} ${verbs} ${VERBS_BYTES}`
    const both = `${one} & first=$!; ${other}; second=$?; wait $first && exit $second`
    const result = await this.session.client(both)
    return stepsOf(result)
  }

  private async killed(): Promise<Found> {
    const client = `verbs-client operations ${IPV4} ${PORTS.verbs} 0`
    const kill = `for i in 1 2 3 4 5 6 7 8; do ${client} >/dev/null & sleep 0.0$i; kill -9 $!; done`
    return stepsOf(await this.session.client(`(${kill}; wait) 2>/dev/null; ${client}`))
  }

  private async counter(address: string, name: string): Promise<bigint> {
    const dpu = await connect(address, PATIENT)
    try {
      return (await dpu.counters())[name] ?? 0n
    } finally {
      await dpu.close()
    }
  }

  private async flushesCounted(): Promise<Found> {
    const count = await this.counter(this.stage.address, 'LINUX_FLUSH_ICRC')
    const failures = count > 0n ? [] : ['LINUX_FLUSH_ICRC is 0']
    return { steps: 1, failures, note: `LINUX_FLUSH_ICRC ${count}` }
  }

  /** The client must not get an answer to its FLUSH, once the card has dropped that. */
  private async strict(): Promise<Found> {
    const { strictAddress } = this.stage
    const command = `librpma-client flush ${STRICT_IPV4} ${PORTS.librpmaFlush}`
    await this.session.client(`(${command}; echo $? >${EXIT_CODE}) >/dev/null 2>&1 &`)
    const dropped = await this.dropped(strictAddress)
    const ending = `sleep ${HANG_SECONDS}; cat ${EXIT_CODE}; killall librpma-client`
    const { lines } = await this.session.client(ending)
    const taken = await this.counter(strictAddress, 'LINUX_FLUSH_ICRC')
    const failures = [
      ...(lines.includes('0') ? ['the FLUSH was answered'] : []),
      ...(dropped > 0n ? [] : ['no frame was dropped for its ICRC']),
      ...(taken === 0n ? [] : ['a FLUSH with the ICRC of Linux was taken']),
    ]
    return { steps: 3, failures, note: `ICRC ${dropped}` }
  }

  /** How many frames were dropped for their ICRC, once one was; 0 where none is for long. */
  private async dropped(address: string): Promise<bigint> {
    const endMs = performance.now() + CLIENT_SECONDS * 1000
    const dpu = await connect(address, PATIENT)
    try {
      for (;;) {
        const { ICRC: count = 0n } = await dpu.counters()
        if (count > 0n || performance.now() > endMs) return count
        await setTimeout(LOOK_MS)
      }
    } finally {
      await dpu.close()
    }
  }

  /** The plug is pulled in the middle of a stream; every flushed byte must be there. */
  private async powerCut(): Promise<void> {
    const { nvdimm } = this.stage
    await this.session.one('the power is cut while a client writes', async () => {
      const found = await this.cutStream('stream', PORTS.stream)
      this.session.durable.push(...found.pieces)
      return found
    })
    await this.session.one('the NVDIMM image has every flushed byte', async () => {
      const failures = differences(nvdimm, this.session.durable)
      return { steps: this.session.durable.length, failures: [...failures, ...this.enough()] }
    })
    for (const port of [PORTS.verbs, PORTS.stream, LOSSES.port]) {
      await this.session.one(`port ${port}, read back by Linux after power-on`, () =>
        this.readBack(port),
      )
    }
  }

  /** The plug is pulled in the middle of what a client streams; what it has said is durable. */
  private async cutStream(
    mode: 'persisted' | 'stream',
    port: number,
    pull: 'cutPower' | 'cutBoth' = 'cutPower',
  ): Promise<Found & { readonly pieces: readonly Piece[] }> {
    let said = 0
    let cut: Promise<{ cut: Told }> | null = null
    const before = pull === 'cutBoth' ? SAID_OF_HOST : SAID_BEFORE_CUT
    const command = `verbs-client ${mode} ${IPV4} ${port}`
    const result = await this.session.client(command, CLIENT_SECONDS, (line) => {
      if (line.startsWith('durable ') && ++said === before) cut = this.stage.dpu[pull]()
    })
    const pieces = piecesOf('durable', port, result.lines)
    const { steps, failures } = stepsOf(result)
    if (cut === null) {
      return { steps, pieces, failures: [...failures, 'the power was never cut'] }
    }
    const { chunks } = (await (cut as Promise<{ cut: Told }>)).cut
    const note = `${chunks} pending words of 8 bytes lost`
    return { steps: steps + said, pieces, failures, note }
  }

  /** A check of nothing would pass. */
  private enough(): string[] {
    return this.session.durable.length > 100
      ? []
      : [`only ${this.session.durable.length} pieces were flushed`]
  }

  /**
   * D-9: a WRITE into a region that is registered write-persist ends when it is durable, without a
   * FLUSH; and elsewhere it may end before, or a cut would prove nothing.
   */
  private async persisted(): Promise<void> {
    const { persisted, plain } = PORTS
    await this.session.one('write-persist: a WRITE ends when it is durable', async () => {
      const { steps, pieces, failures } = await this.cutStream('persisted', persisted)
      const lost = differences(this.stage.nvdimm, pieces)
      this.session.durable.push(...pieces)
      return { steps, failures: [...failures, ...lost], note: `${pieces.length} WRITEs ended` }
    })
    await this.session.one(`write-persist: port ${persisted}, read back by Linux`, () =>
      this.readBack(persisted),
    )
    await this.session.one('a WRITE elsewhere ends before it is durable', async () => {
      const { steps, pieces, failures } = await this.cutStream('persisted', plain)
      const { length } = differences(this.stage.nvdimm, pieces)
      const vain = length > 0 ? [] : ['the cut has taken nothing that was not flushed']
      const note = `${length} of ${pieces.length} WRITEs lost`
      return { steps, failures: [...failures, ...vain], note }
    })
  }

  /**
   * S1-M5: likewise in the memory of the host behind the card, through its caches: each WRITE draws
   * RNR NAKs until that host's CPU has written it back. The power of both is cut.
   */
  private async persistedThrough(): Promise<void> {
    const { through } = PORTS
    await this.session.one("through a host's caches: a WRITE ends when it is durable", async () => {
      const early = this.watchEarly()
      const { pieces, ...found } = await this.cutStream('persisted', through, 'cutBoth')
      this.session.durable.push(...pieces)
      const failures = [
        ...found.failures,
        ...(pieces.length > 0 ? [] : ['no WRITE ended']),
        ...(early.size === 0 ? [] : [`${early.size} WRITEs ended without an RNR NAK before`]),
      ]
      return { ...found, failures, note: `${pieces.length} WRITEs ended, ${found.note ?? ''}` }
    })
    await this.session.one(`through a host's caches: port ${through}, read back by Linux`, () =>
      this.readBack(through),
    )
  }

  /** From now on, the PSNs that the card acknowledges without having refused them as not ready. */
  private watchEarly(): ReadonlySet<number> {
    const refused = new Set<number>()
    const early = new Set<number>()
    this.stage.relay.onAcknowledge = (syndrome, psn) => {
      const kind = syndrome & SYNDROME_KIND
      if (kind === KIND_RNR) refused.add(psn)
      else if (kind === KIND_ACK && !refused.has(psn)) early.add(psn)
    }
    return early
  }

  private async readBack(port: number): Promise<Found> {
    const pieces = this.session.durable.filter((piece) => piece.port === port && piece.tag !== null)
    const failures: string[] = []
    for (let i = 0; i < pieces.length; i += PIECES_A_LINE) {
      const some = pieces.slice(i, i + PIECES_A_LINE)
      const places = some.map(({ at, bytes, tag }) => `${at}:${bytes.length}:${tag}`)
      const result = await this.session.client(
        `verbs-client check ${IPV4} ${port} ${places.join(' ')}`,
      )
      failures.push(...stepsOf(result).failures)
    }
    return { steps: pieces.length, failures }
  }
}

/**
 * With the mended module, whose FLUSH has the standard ICRC, against the card that insists on it:
 * what is lost is repeated, and a cut of the power takes nothing that was flushed.
 */
export async function casesOfMended(stage: Stage): Promise<readonly Outcome[]> {
  const { guest, dpu, relay, nvdimm, talk, only } = stage
  const session = new Session(guest, dpu, talk, only)
  await tryLosses({ session, relay, address: STRICT_IPV4 }, 'mended')
  await session.one('mended: the power is cut, and every flushed byte is there', async () => {
    await dpu.cutPower()
    const failures = differences(nvdimm, session.durable)
    return { steps: session.durable.length, failures }
  })
  return session.outcomes
}
