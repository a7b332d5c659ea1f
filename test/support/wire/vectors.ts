/**
 * The wire vectors and captures under test/vectors, as data.
 *
 * They come from Linux and from a generator that is independent of this code; nothing here was made
 * by the firmware, so agreeing with them means something.
 */

import { readdirSync, readFileSync } from 'node:fs'
import { framesOfCapture, hex, isRoce } from './frames.ts'

/** What the vector says stands in the packet; 64-bit numbers are hex strings. */
export interface Decode {
  readonly opcode: string
  readonly name: string
  readonly se: number
  readonly pad: number
  readonly tver: number
  readonly pkey: string
  readonly destQp: string
  readonly ackReq: number
  readonly psn: string
  readonly payloadLen: number
  readonly payloadOffsetFromBth: number
  readonly reth?: { readonly va: string; readonly rkey: string; readonly dmaLen: number }
  readonly aeth?: { readonly syndrome: string; readonly msn: number }
  readonly imm?: string
  readonly atomicEth?: {
    readonly va: string
    readonly rkey: string
    readonly swapOrAdd: string
    readonly compare: string
  }
  readonly feth?: { readonly plt: number; readonly sel: number }
  readonly invalidateRkey?: string
  readonly deth?: { readonly qkey: string; readonly srcQp: string }
}

/** One frame. */
export interface Vector {
  readonly name: string
  readonly group: string
  readonly l3: string
  readonly bytes: Uint8Array
  readonly icrcU32: number
  /** 'ok', 'bad' or 'nonstandard-rxe-flush'. */
  readonly icrcExpect: string
  /** For a negative vector: what a responder does with it. */
  readonly expect?: string
  readonly decode: Decode
}

interface StoredVector {
  readonly name: string
  readonly group: string
  readonly l3: string
  readonly frame: string
  readonly icrcU32: string
  readonly icrcExpect: string
  readonly expect?: string
  readonly decode: Decode
}

/** One row of the opcode table. */
interface StoredOpcode {
  readonly opcode: string
  readonly name: string
  readonly chain: readonly string[]
  readonly minBytesBthToIcrc: number
}

interface StoredStep {
  readonly in: string
  readonly inDecode: Decode
  readonly out: readonly { readonly frame: string; readonly decode: Decode }[]
}

interface StoredScenario {
  readonly name: string
  readonly steps: readonly StoredStep[]
}

interface Store {
  readonly tables: { readonly opcodes: readonly StoredOpcode[] }
  readonly vectors: readonly StoredVector[]
  readonly scenarios: readonly StoredScenario[]
}

const FOLDER = new URL('../../vectors/', import.meta.url)

const store: Store = JSON.parse(readFileSync(new URL('wire-vectors.json', FOLDER), 'utf8'))

export const VECTORS: readonly Vector[] = store.vectors.map((stored) => {
  const { frame, icrcU32, ...rest } = stored
  return { ...rest, bytes: hex(frame), icrcU32: Number(icrcU32) }
})

/** Every frame of the responder's scenarios, as a vector; they are all good. */
export const SCENARIO_FRAMES: readonly Vector[] = store.scenarios.flatMap(({ name, steps }) =>
  steps.flatMap((step, i) => [
    goodVector(`${name}, request ${i + 1}`, step.in, step.inDecode),
    ...step.out.map(({ frame, decode }, k) =>
      goodVector(`${name}, answer ${i + 1}.${k + 1}`, frame, decode),
    ),
  ]),
)

function goodVector(name: string, frame: string, decode: Decode): Vector {
  const bytes = hex(frame)
  const icrcU32 = new DataView(bytes.buffer).getUint32(bytes.length - 4, true)
  return { name, group: 'scenario', l3: 'ipv4', bytes, icrcU32, icrcExpect: 'ok', decode }
}

export const STORED_OPCODES: readonly StoredOpcode[] = store.tables.opcodes

/** The RoCEv2 frames of one capture. */
interface Capture {
  readonly name: string
  readonly frames: readonly Uint8Array[]
}

const CAPTURES_FOLDER = new URL('captures/', FOLDER)

export const CAPTURES: readonly Capture[] = readdirSync(CAPTURES_FOLDER)
  .sort()
  .map((name) => {
    const capture = new Uint8Array(readFileSync(new URL(name, CAPTURES_FOLDER)))
    return { name, frames: framesOfCapture(capture).filter(isRoce) }
  })
