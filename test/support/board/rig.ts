/**
 * A board of the conformance suite with what the suite needs of it: a cable, a part that is laid
 * out, and ways to end it and to start it again.
 */

import { type ConnectOptions, connect, type Dpu } from '../../../host-driver/index.ts'
import { PATIENT } from '../run/patience.ts'
import type { TestPeer } from '../wire/conversation.ts'
import { type Granted, grantedOn } from '../wire/replay.ts'
import { writeFrames } from '../wire/requests.ts'
import type { BoardKind, BoardOptions, BoardUnderTest } from './board.ts'
import { Cable } from './cable.ts'

/** Bytes of the part of a board, and of the plain region that recorded dialogues begin with. */
const PART_BYTES = 4 << 20
const REPLAY_BYTES = 16384

/** How a board may end. */
export type End = 'stop' | 'kill' | 'cut'

export class Rig {
  readonly board: BoardUnderTest
  private readonly who: ConnectOptions
  private open: Cable | null = null

  /** `who` lays it out and uses it, where it has peers. */
  constructor(kind: BoardKind, options: Partial<BoardOptions> = {}, who: ConnectOptions = {}) {
    this.who = who
    this.board = kind.make({ bytes: PART_BYTES, ...options })
  }

  /** Switches the board on, and lays its part out if it is blank. */
  async start(): Promise<this> {
    await this.board.start()
    await this.use(async (dpu) => {
      if ((await dpu.status()).state === 'blank') await dpu.format()
    })
    return this
  }

  /** Raw frames to the board as it runs now. */
  get cable(): Cable {
    this.open ??= new Cable(this.board.target)
    return this.open
  }

  /** Ends it, and starts it again; what `stop` said. */
  async restart(end: End): Promise<number | null> {
    await this.open?.close()
    this.open = null
    if (end === 'cut') {
      await this.board.powerCut()
      return null
    }
    const code = end === 'stop' ? await this.board.stop() : await this.board.kill()
    await this.board.start()
    return code ?? null
  }

  /** Lets a client of the driver do something. */
  async use<Result>(
    work: (dpu: Dpu) => Promise<Result>,
    options: ConnectOptions = {},
  ): Promise<Result> {
    const dpu = await connect(this.board.target, { ...PATIENT, ...this.who, ...options })
    try {
      return await work(dpu)
    } finally {
      await dpu.close()
    }
  }

  /** A queue pair with that path MTU, and a region for recorded conversations, all zeros. */
  replayGround(pathMtu: number, name = 'replay', bytes: number = REPLAY_BYTES): Granted {
    const grant = grantedOn(this.cable.client, pathMtu, name, bytes)
    const qp: TestPeer = this.cable.client.connect(4096)
    const zeros = new Uint8Array(bytes)
    this.cable.ask(...writeFrames(qp, grant, grant.baseLow, zeros))
    return grant
  }

  async close(): Promise<void> {
    await this.open?.close()
    await this.board.close()
  }
}
