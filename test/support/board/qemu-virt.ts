/**
 * The arm64 virtual machine as a board: its part is an NVDIMM whose file this machine has, its
 * network a cable of ours, its console a serial line. A kill ends QEMU, a power cut resets the
 * machine in it.
 */

import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Settings } from '../../../boards/qemu-virt/configuration.ts'
import { type Image, prepareImage, RUNTIME, whyNot } from '../../../boards/qemu-virt/image.ts'
import { VirtualMachine } from '../../../boards/qemu-virt/machine.ts'
import { Trouble } from '../../../boards/tools/debian/programs.ts'
import { PATIENT_MACHINE } from '../run/patience.ts'
import type { BoardKind, BoardOptions, BoardUnderTest } from './board.ts'
import { signedBundle } from './bundle.ts'
import { perduredMissing, perduredPath } from './perdured.ts'

/** The smallest part that such a machine has, its front included, bytes. */
const FILE_BYTES = 2 ** 24
const FRONT_BYTES = 2 ** 21

export const QEMU_VIRT: BoardKind = {
  name: 'qemu-virt',
  title: 'the arm64 virtual machine with an NVDIMM (QEMU)',
  hasConsole: true,
  cutsPower: true,
  canBeVolatile: false,
  dropsFlush: true,
  isQuick: false,
  killsInShort: 2,
  missing(options) {
    const flavour = options?.dropFlush === true ? 'drop-flush' : ''
    return perduredMissing('arm64', flavour) ?? prepared().trouble
  },
  make: (options) => new MachineBoard(options),
}

interface Prepared {
  readonly image: Image | null
  /** Why there is none, and what helps; null where there is. */
  readonly trouble: string | null
}

let once: Prepared | null = null

/** What machines are started from; fetched where it is not there yet, at most once. */
function prepared(): Prepared {
  once ??= prepare()
  return once
}

function prepare(): Prepared {
  const trouble = whyNot()
  if (trouble !== null) return { image: null, trouble }
  try {
    return { image: prepareImage(() => {}), trouble: null }
  } catch (error) {
    if (!(error instanceof Trouble)) throw error
    return { image: null, trouble: `${error.message}: npm run board:qemu` }
  }
}

class MachineBoard implements BoardUnderTest {
  readonly kind = QEMU_VIRT
  target = ''
  bundleHash = ''
  private readonly folder = mkdtempSync(join(tmpdir(), 'perdure-board-'))
  private readonly part = join(this.folder, 'part.nvdimm')
  private readonly image: Image
  private readonly settings: Settings
  private machine: VirtualMachine | null = null

  constructor({ shadow = false, dropFlush = false }: BoardOptions) {
    const { image, trouble } = prepared()
    if (image === null) throw new Error(trouble!)
    const perdured = perduredPath('arm64', dropFlush ? 'drop-flush' : '')
    const runtime = { ...RUNTIME, perdured, ...signedBundle(this.folder) }
    this.image = { ...image, runtime }
    this.settings = { shadow: shadow ? 'yes' : 'no' }
    // All zeros, as the machine would make it: the part can be read and written before that.
    const file = openSync(this.part, 'wx')
    writeSync(file, new Uint8Array(1), 0, 1, FILE_BYTES - 1)
    closeSync(file)
  }

  async start(): Promise<void> {
    const { image, part: memory, settings } = this
    this.machine ??= await VirtualMachine.open({ ...PATIENT_MACHINE, image, memory, settings })
    await this.machine.start()
    this.target = this.machine.target
    const told = (await this.command('hash')) as { bundle: string }
    this.bundleHash = told.bundle
  }

  async kill(): Promise<void> {
    await this.machine?.kill()
  }

  async stop(): Promise<number | null> {
    return (await this.machine?.stop())?.code ?? null
  }

  async powerCut(): Promise<void> {
    await this.machine!.reset()
  }

  async command(line: string): Promise<Readonly<Record<string, unknown>>> {
    return (await this.machine!.command(line)) as Record<string, unknown>
  }

  readImage(): Uint8Array {
    const bytes = new Uint8Array(FILE_BYTES - FRONT_BYTES)
    const file = openSync(this.part, 'r')
    try {
      readSync(file, bytes, 0, bytes.length, FRONT_BYTES)
    } finally {
      closeSync(file)
    }
    return bytes
  }

  writeImage(bytes: Uint8Array): void {
    const file = openSync(this.part, 'r+')
    try {
      writeSync(file, bytes, 0, bytes.length, FRONT_BYTES)
    } finally {
      closeSync(file)
    }
  }

  story(): string {
    return `${this.target} ${this.machine?.story ?? 'never started'}`
  }

  async close(): Promise<void> {
    await this.machine?.close()
    rmSync(this.folder, { recursive: true, force: true })
  }
}
