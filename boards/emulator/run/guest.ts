/**
 * The firmware bundle in QuickJS: the only file that knows the engine.
 *
 * Invariants:
 * - Every guest has its own WebAssembly module instance and its own memory of fixed size, so one
 *   that runs out of memory ruins nobody else, and a view of its memory stays valid permanently.
 * - Packet memory is one block inside that memory, seen by both sides without a copy.
 * - The guest has no clock, no randomness and no proxies: what it does follows from its frames.
 * - A guest that throws, runs out of memory or of stack, or does not come back is stopped for
 *   good: FirmwareStopped, with the stack as the guest saw it. The host's own errors, thrown by an
 *   observer inside a command list, come out as themselves.
 *
 * The engine's `newArrayBuffer` copies its argument into a fresh block of its memory and then
 * adopts that very block. Noting what its allocator returned in that moment gives the address; a
 * view there is what both sides share. Nothing may transfer or resize the guest's buffer.
 */

import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import {
  DefaultIntrinsics,
  newQuickJSWASMModuleFromVariant,
  newVariant,
  type QuickJSContext,
  type QuickJSHandle,
  RELEASE_SYNC,
} from 'quickjs-emscripten'
import type { Facts } from '../../../firmware/board/hal.ts'
import { MEMORY_BYTES } from '../../../firmware/board/memory-map.ts'
import { type FirmwareEngine, FirmwareStopped, type StopReason } from './engine.ts'
import type { EmulatedMachine } from './machine.ts'

/** All of the guest's memory, in pages of 64 KiB: engine, heap, stack and packets. */
const MEMORY_PAGES = 512

/**
 * The most that the guest may ask for at once, bytes. The engine counts blocks and not what is in
 * them (eight bytes each), so what it holds in all is limited by its pages alone.
 */
const HEAP_BYTES_MAX = 24 * 2 ** 20

const STACK_BYTES_MAX = 256 * 1024

if (2 * MEMORY_BYTES > HEAP_BYTES_MAX) throw new Error('packet memory must leave room for the heap')

/**
 * The engine asks once in about ten thousand loops whether to go on. A call that is asked so often
 * has hung: the longest honest one, recovery with a full scan of a gigabyte, is asked far less.
 */
const INTERRUPTS_MAX = 500_000

/** The part of the engine's module that is needed: its allocator. */
interface Allocator {
  _malloc(length: number): number
}

interface FixedMemory {
  readonly buffer: ArrayBuffer
}

/** What is needed of WebAssembly; Node's types leave it to those of the browser. */
interface WebAssemblyApi {
  readonly Memory: new (pages: { initial: number; maximum: number }) => FixedMemory
  readonly Module: new (code: Uint8Array) => object
}

const { Memory, Module } = (globalThis as unknown as { readonly WebAssembly: WebAssemblyApi })
  .WebAssembly

/** The engine's code, compiled once per process; an instance of it costs two milliseconds. */
let compiled: object | null = null

function compile(): object {
  if (compiled === null) {
    const library = createRequire(createRequire(import.meta.url).resolve('quickjs-emscripten'))
    const file = library.resolve('@jitl/quickjs-wasmfile-release-sync/wasm')
    compiled = new Module(readFileSync(file))
  }
  return compiled
}

/** What a guest needs of the machine around it. */
export interface GuestMachine {
  readonly facts: Facts
  run(count: number): number
  /** From now on nothing has an effect. */
  die(): void
}

interface GuestOptions<M extends GuestMachine = EmulatedMachine> {
  /** The bundle: a script that defines the global `perdure` with its function `start`. */
  readonly source: string
  /** The name that stands in stacks. */
  readonly sourceName?: string
  /** Makes the machine around the packet memory that the guest shares. */
  readonly machineFor: (packets: Uint8Array) => M
  /** All of the guest's memory, in pages of 64 KiB; never more than it has otherwise. */
  readonly memoryPages?: number
  /** How often the engine may ask whether to go on, within one call. */
  readonly interruptsMax?: number
}

/** Boots the bundle. Throws FirmwareStopped if it cannot even start. */
export async function bootGuest<M extends GuestMachine>(
  options: GuestOptions<M>,
): Promise<Guest<M>> {
  const pages = options.memoryPages ?? MEMORY_PAGES
  const memory = new Memory({ initial: pages, maximum: pages })
  const fixed = newVariant(RELEASE_SYNC, { wasmMemory: memory, wasmModule: compile() })
  let allocator: Allocator | null = null
  const quickjs = await newQuickJSWASMModuleFromVariant({
    ...fixed,
    async importModuleLoader() {
      const load = loaderOf(await fixed.importModuleLoader())
      return async (settings) => {
        const module = await load(settings)
        allocator = module as unknown as Allocator
        return module
      }
    },
  })
  const runtime = quickjs.newRuntime({
    memoryLimitBytes: HEAP_BYTES_MAX,
    maxStackSizeBytes: STACK_BYTES_MAX,
  })
  const intrinsics = { ...DefaultIntrinsics, Date: false, Proxy: false }
  const context = runtime.newContext({ intrinsics })
  return new Guest(context, memory, allocator!, options)
}

export class Guest<M extends GuestMachine = EmulatedMachine> implements FirmwareEngine {
  /** Packet memory: shared with the guest, at a fixed place. */
  readonly packets: Uint8Array
  readonly machine: M
  private readonly context: QuickJSContext
  private readonly buffer: QuickJSHandle
  private readonly firmware: QuickJSHandle
  private readonly serveHandle: QuickJSHandle
  private readonly idleHandle: QuickJSHandle
  private stopped: FirmwareStopped | null = null
  private interrupts = 0
  private hostError: { readonly error: unknown } | null = null

  /** Use `bootGuest`. */
  constructor(
    context: QuickJSContext,
    memory: FixedMemory,
    allocator: Allocator,
    options: GuestOptions<M>,
  ) {
    const interruptsMax = options.interruptsMax ?? INTERRUPTS_MAX
    this.context = context
    context.runtime.setInterruptHandler(() => ++this.interrupts > interruptsMax)
    this.evaluate('delete Math.random', 'board').dispose()
    const shared = share(context, allocator)
    this.buffer = shared.handle
    this.packets = new Uint8Array(memory.buffer, shared.address, MEMORY_BYTES)
    this.machine = options.machineFor(this.packets)
    this.evaluate(options.source, options.sourceName ?? 'firmware.js').dispose()
    this.firmware = this.start()
    this.serveHandle = context.getProp(this.firmware, 'serve')
    this.idleHandle = context.getProp(this.firmware, 'idle')
    if (context.typeof(this.serveHandle) !== 'function') {
      throw new FirmwareStopped('bundle', 'what start returned cannot serve')
    }
  }

  /** Calls `perdure.start` with the machine. */
  private start(): QuickJSHandle {
    const { context } = this
    const entry = this.evaluate('perdure.start', 'board')
    const machine = this.evaluate(`({ facts: ${JSON.stringify(this.machine.facts)} })`, 'board')
    const run = context.newFunction('run', (count) => {
      return context.newNumber(this.runList(context.getNumber(count)))
    })
    context.setProp(machine, 'memory', this.buffer)
    context.setProp(machine, 'run', run)
    run.dispose()
    const firmware = this.call(entry, [machine])
    machine.dispose()
    entry.dispose()
    return firmware
  }

  /** The host's side of `run`: an error of the host ends the machine and is thrown later. */
  private runList(count: number): number {
    try {
      return this.machine.run(count)
    } catch (error) {
      this.machine.die()
      this.hostError ??= { error }
      return this.machine.run(count)
    }
  }

  serve(count: number, nowUs: number): number {
    return this.callWithNumbers(this.serveHandle, [count, nowUs])
  }

  idle(nowUs: number): number {
    return this.callWithNumbers(this.idleHandle, [nowUs])
  }

  private callWithNumbers(callee: QuickJSHandle, numbers: readonly number[]): number {
    const { context } = this
    const handles = numbers.map((number) => context.newNumber(number))
    const result = this.call(callee, handles)
    const value = context.getNumber(result)
    result.dispose()
    for (const handle of handles) handle.dispose()
    return value
  }

  private call(callee: QuickJSHandle, handles: QuickJSHandle[]): QuickJSHandle {
    if (this.stopped !== null) throw this.stopped
    this.interrupts = 0
    const result = this.context.callFunction(callee, this.context.undefined, handles)
    if (this.hostError !== null) throw this.hostError.error
    if (result.error !== undefined) this.stop(result.error)
    return result.unwrap()
  }

  private evaluate(source: string, name: string): QuickJSHandle {
    this.interrupts = 0
    const result = this.context.evalCode(source, name, { type: 'global', strict: true })
    if (result.error !== undefined) this.stop(result.error)
    return result.unwrap()
  }

  /** Maps what the guest threw; never returns. */
  private stop(thrown: QuickJSHandle): never {
    // After a lack of memory the engine may not even be able to say so.
    const error: unknown = this.context.dump(thrown)
    const { name, message, stack } = partsOf(error)
    const text = message ?? (error === null || error === '' ? 'out of memory' : String(error))
    const reason = reasonOf(name ?? '', text)
    this.stopped = new FirmwareStopped(reason, `${name ?? 'error'}: ${text}`, stack ?? '')
    throw this.stopped
  }

  memoryUsed(): number {
    const usage = this.context.runtime.computeMemoryUsage()
    const dumped = this.context.dump(usage) as { readonly memory_used_size: number }
    usage.dispose()
    return dumped.memory_used_size
  }

  /** An instance that was stopped is left to the collector: it may not be fit to be taken down. */
  dispose(): void {
    const wasStopped = this.stopped !== null || this.hostError !== null
    this.stopped ??= new FirmwareStopped('threw', 'it was disposed of')
    if (wasStopped) return
    const { context } = this
    const { runtime } = context
    for (const handle of [this.serveHandle, this.idleHandle, this.firmware, this.buffer]) {
      handle.dispose()
    }
    context.dispose()
    runtime.dispose()
  }
}

/** The loader, however the module format of the engine's package has wrapped it. */
function loaderOf<T>(imported: T | { default: T | { default: T } }): T {
  let loader: unknown = imported
  while (typeof loader !== 'function') loader = (loader as { readonly default: unknown }).default
  return loader as T
}

/** Makes packet memory: a buffer of the guest, and where it lies in the guest's memory. */
function share(
  context: QuickJSContext,
  allocator: Allocator,
): { readonly handle: QuickJSHandle; readonly address: number } {
  const allocate = allocator._malloc
  let address = 0
  allocator._malloc = (length) => {
    const block = allocate(length)
    if (length === MEMORY_BYTES) address = block
    return block
  }
  try {
    const handle = context.newArrayBuffer(new ArrayBuffer(MEMORY_BYTES))
    return { handle, address }
  } finally {
    allocator._malloc = allocate
  }
}

interface ErrorParts {
  readonly name?: string
  readonly message?: string
  readonly stack?: string
}

/** How the engine says an error of its own that it has no memory to show as an object. */
const IN_SHORT = 'InternalError: '

function partsOf(error: unknown): ErrorParts {
  if (typeof error === 'object' && error !== null) return error
  if (typeof error !== 'string' || !error.startsWith(IN_SHORT)) return {}
  return { name: 'InternalError', message: error.slice(IN_SHORT.length) }
}

function reasonOf(name: string, message: string): StopReason {
  if (message === 'interrupted') return 'hung'
  if (message === 'out of memory') return 'memory'
  if (name === 'InternalError' && message === 'stack overflow') return 'stack'
  if (message.includes("'perdure' is not defined")) return 'bundle'
  return 'threw'
}
