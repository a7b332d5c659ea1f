/**
 * One arm64 virtual machine with an NVDIMM, from its start to its end, however often that is.
 *
 * Invariants:
 * - The part, the slots, the network and the console's place outlive the machine: after a kill or
 *   a reset it is reached at the same target, and has what its files have. A port of `smp` and
 *   `tunnel` that somebody else took meanwhile is another one then.
 * - A start that does not come to serve is over after its time, and says what the machine said.
 * - On Linux, whatever ends this process ends the machine with it; `close` leaves nothing behind
 *   but the files of the part and of the slots.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { isThere, Trouble } from '../tools/debian/programs.ts'
import {
  bootText,
  type CpuName,
  cardMac,
  configurationText,
  type Settings,
  WINDOW_SLOT,
} from './configuration.ts'
import { SerialConsole } from './console.ts'
import { MEMORY_MIB, machineArguments, writeDeviceTree } from './device-tree.ts'
import { firstRoot, type Image } from './image.ts'
import { BoardNetwork, type UdpAddress } from './network.ts'
import { partFront, preparePart } from './part-file.ts'
import { qmp } from './qmp.ts'
import { prepareSlots, slotsPath } from './slots-file.ts'
import { freePorts, LOOPBACK, PORT_TAKEN, type UserPorts, userNetwork } from './user-network.ts'

export interface MachineOptions {
  readonly image: Image
  /** File behind the NVDIMM; made where there is none, as is MEMORY.slots. */
  readonly memory: string
  /** Bytes of that file, its front included (part-file.ts): 64 MiB, or what it has. */
  readonly bytes?: number
  /** 'neoverse-n1' unless given. */
  readonly cpu?: CpuName
  /** Where hosts reach it; the loopback interface and any port unless given. */
  readonly udp?: UdpAddress
  /** The serial line: a path for a Unix socket, 'pty' for a pseudo terminal; else a socket. */
  readonly console?: string
  /** A file that the machine has as the memory of a PCIe device (ivshmem), and its bytes. */
  readonly window?: { readonly path: string; readonly bytes: number }
  /** More of perdured.conf, over what the board says. */
  readonly settings?: Settings
  /** PEM file of a key that may sign images beside that of the bundle. */
  readonly trust?: string
  /** How long a start may take, ms. */
  readonly startMs?: number
  /** How long its console may take for an answer, ms. */
  readonly answerMs?: number
  /** Told of every stage. */
  readonly onStage?: (stage: Stage) => void
}

/** A stage of a start, and the seconds from its beginning to when the stage was done. */
export interface Stage {
  readonly name: string
  readonly seconds: number
}

/** How a machine ended: QEMU's exit code, or the signal that ended it. */
interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

const START_MS = 120_000
const STOP_MS = 10_000

/** How often ports are chosen again for a start. */
const PORT_TRIES = 5

/** Lines of the machine's log that are kept. */
const LOG_LINES = 300

/**
 * Less to do at boot under TCG: no work-arounds for speculation, and no self-tests of what the
 * board does not use. The kernel's own words go to the log only where they are warnings.
 */
const KERNEL_LINE = [
  ...['console=hvc0', 'rdinit=/init', `mem=${MEMORY_MIB}M`, 'panic=1', 'quiet', 'loglevel=4'],
  ...['mitigations=off', 'kpti=off', 'nokaslr', 'ipv6.disable=1', 'cryptomgr.notests=1'],
  'initcall_blacklist=jent_mod_init,load_system_certificate_list,bpf_dummy_struct_ops_init,' +
    'bpf_tcp_ca_kfunc_init,init_kprobe_trace,sed_opal_init,init_encrypted',
].join(' ')

/** The machine's words: "board: SECONDS NAME", or why it failed. */
const STAGE_LINE = /^board: \d+\.\d+ (.+)$/
const FAILED_LINE = /^board: (failed: .*|off: .*|perdure-boot ended.*)$/

interface Start {
  readonly resolve: () => void
  readonly reject: (error: Error) => void
}

export class VirtualMachine {
  /** Where the host driver reaches it. */
  readonly target: string
  /** Bytes of the part that the firmware has, and where they begin in the file. */
  readonly partBytes: number
  readonly partAt: number
  /** Whether the part's file was made, and is blank. */
  readonly made: boolean
  /** The stages of the last start. */
  stages: Stage[] = []
  /** Told when the machine is over, by whomever. */
  onEnd: (how: string) => void = () => {}

  private readonly options: MachineOptions
  private readonly folder: string
  private readonly network: BoardNetwork
  private readonly cpu: CpuName
  private readonly fileBytes: number
  /** Behind an address of a target: the card's own in its frames. */
  private readonly inside: string
  private ports: UserPorts
  private isPortTaken = false
  private child: ChildProcess | null = null
  private closed: Promise<Ended> = Promise.resolve({ code: null, signal: null })
  private serialPath: string
  private serial: SerialConsole | null = null
  private log: string[] = []
  private began = 0
  private starting: Start | null = null

  private constructor(
    options: MachineOptions,
    folder: string,
    network: BoardNetwork,
    ports: UserPorts,
    part: { readonly bytes: number; readonly made: boolean },
  ) {
    const host = options.udp?.host ?? '127.0.0.1'
    this.options = options
    this.folder = folder
    this.network = network
    this.ports = ports
    this.cpu = options.cpu ?? 'neoverse-n1'
    this.fileBytes = part.bytes
    this.partAt = partFront(options.image.kernel.pageKib)
    this.partBytes = part.bytes - this.partAt
    this.made = part.made
    const inside = options.settings?.ipv4
    this.inside = inside === undefined ? '' : `/${inside}`
    const shown = host.includes(':') ? `[${host}]` : host
    this.target = `perdure://${shown}:${network.port}${this.inside}`
    this.serialPath = options.console ?? join(folder, 'console')
  }

  /** Makes everything that a machine needs, and does not start it. Throws a Trouble. */
  static async open(options: MachineOptions): Promise<VirtualMachine> {
    const front = partFront(options.image.kernel.pageKib)
    const part = preparePart(options.memory, options.bytes, front)
    prepareSlots(slotsPath(options.memory))
    const folder = mkdtempSync(join(tmpdir(), 'perdure-vm-'))
    try {
      const { cpu = 'neoverse-n1', window } = options
      writeDeviceTree(join(folder, 'tree.dtb'), cpu, part.bytes)
      writeFileSync(join(folder, 'root.cpio'), rootOf(options, cpu))
      if (window !== undefined) makeWindow(window.path, window.bytes)
      const udp = options.udp ?? { host: '127.0.0.1', port: 0 }
      const network = await BoardNetwork.open({ udp, path: join(folder, 'net') })
      return new VirtualMachine(options, folder, network, await freePorts(), part)
    } catch (error) {
      rmSync(folder, { recursive: true, force: true })
      throw error
    }
  }

  /** Where SMP is asked over the network, as a port of `perdure flash`. */
  get smp(): string {
    return `udp:${LOOPBACK}:${this.ports.smp}`
  }

  /** Where the host driver reaches it by way of the machine's kernel. */
  get tunnel(): string {
    return `perdure://${LOOPBACK}:${this.ports.tunnel}${this.inside}`
  }

  get isRunning(): boolean {
    return this.child !== null
  }

  /** Seconds since the last start or reset. */
  get seconds(): number {
    return (performance.now() - this.began) / 1000
  }

  /** Process id of QEMU; undefined while there is none. */
  get pid(): number | undefined {
    return this.child?.pid
  }

  /** What the machine said last. */
  get story(): string {
    return this.log.join('\n')
  }

  /** Switches it on; resolves when perdured serves. */
  async start(): Promise<void> {
    if (this.child !== null) throw new Error('the machine is on')
    for (let tries = 1; ; tries++) {
      try {
        await this.switchOn()
        break
      } catch (error) {
        if (!this.isPortTaken || tries === PORT_TRIES) throw error
        this.ports = await freePorts()
      }
    }
    if (this.options.console === 'pty') this.serialPath = await this.pseudoTerminal()
  }

  private async switchOn(): Promise<void> {
    this.isPortTaken = false
    const served = this.awaitServing()
    const [program, ...args] = this.commandLine()
    // A session of its own: an interrupt at our terminal is ours to answer.
    const child = spawn(program!, args, { stdio: ['ignore', 'pipe', 'pipe'], detached: true })
    this.child = child
    for (const input of [child.stdout!, child.stderr!]) {
      createInterface({ input }).on('line', (line) => this.hear(line))
    }
    child.on('error', (error) => this.ended(error.message))
    this.closed = new Promise((resolve) => {
      child.on('close', (code, signal) => {
        this.ended(`QEMU ended, ${signal ?? `exit ${code}`}`)
        resolve({ code, signal })
      })
    })
    await served
  }

  /** Power away and back, without a word (QMP system_reset); resolves when it serves again. */
  async reset(): Promise<void> {
    const served = this.awaitServing()
    this.dropSerial()
    const asked = this.monitor('system_reset')
    asked.catch((error: Error) => this.settle(error))
    await served
  }

  /** Ends QEMU by SIGKILL, at any moment. */
  async kill(): Promise<Ended> {
    this.child?.kill('SIGKILL')
    return await this.closed
  }

  /** Ends QEMU by its own command: for the machine that is the power's end as well. */
  async quit(): Promise<Ended> {
    await this.monitor('quit')
    return await this.closed
  }

  /**
   * Tells perdured to stop, and the machine goes off behind it. One that is still on after 10 s,
   * because somebody else has the serial line, is ended by QEMU.
   */
  async stop(): Promise<Ended> {
    if (this.child === null) return await this.closed
    if (this.options.console === 'pty') return await this.quit()
    const late = setTimeout(() => this.quit().catch(() => {}), STOP_MS)
    // It may be off before its answer has come through the line.
    this.command('stop').catch(() => {})
    const ended = await this.closed
    clearTimeout(late)
    return ended
  }

  /** One command to perdured's console, by way of perdure-boot; what it answers. */
  async command(line: string): Promise<unknown> {
    if (this.options.console === 'pty') throw new Error('the console is a pseudo terminal')
    this.serial ??= await SerialConsole.open(this.serialPath, this.options.answerMs)
    return await this.serial.ask(line)
  }

  /** Where the serial line is: a Unix socket, or once it serves a pseudo terminal. */
  get console(): string {
    return this.serialPath
  }

  private async pseudoTerminal(): Promise<string> {
    const all = (await this.monitor('query-chardev')) as { label: string; filename: string }[]
    const found = all.find(({ label }) => label === 'serial')?.filename
    if (found === undefined) throw new Trouble('QEMU has no pseudo terminal for the serial line')
    return found.replace(/^pty:/, '')
  }

  /** Gives the serial line to another client: it takes one at a time. */
  dropSerial(): void {
    this.serial?.close()
    this.serial = null
  }

  /** A command to QEMU (QMP). */
  async monitor(command: string): Promise<unknown> {
    return await qmp(join(this.folder, 'qmp'), command)
  }

  /** Ends the machine, the network, and everything but the files of the part and the slots. */
  async close(): Promise<void> {
    if (this.child !== null) await this.kill()
    await this.network.close()
    rmSync(this.folder, { recursive: true, force: true })
  }

  private commandLine(): string[] {
    const { image, memory, window, console, settings } = this.options
    const at = (name: string): string => join(this.folder, name)
    const part = `memory-backend-file,id=nv,share=on,mem-path=${memory},size=${this.fileBytes}`
    const serial =
      console === 'pty' ? 'pty,id=serial' : `socket,id=serial,path=${this.serialPath}${SERVER}`
    return [
      // Linux ends QEMU with us, however we end.
      ...(isThere('setpriv') ? ['setpriv', '--pdeathsig', 'KILL'] : []),
      'qemu-system-aarch64',
      ...machineArguments(this.cpu, this.fileBytes, part),
      ...['-dtb', at('tree.dtb'), '-kernel', image.kernel.path, '-initrd', at('root.cpio')],
      ...['-append', KERNEL_LINE, '-qmp', `unix:${at('qmp')}${SERVER}`],
      ...['-chardev', serial, '-serial', 'chardev:serial'],
      ...['-chardev', 'stdio,id=log,signal=off', '-device', 'virtio-serial-pci,addr=02.0'],
      ...['-device', 'virtconsole,chardev=log'],
      ...['-netdev', `stream,id=net,server=off,addr.type=unix,addr.path=${at('net')}`],
      '-device',
      `virtio-net-pci,netdev=net,mac=${cardMac(settings)},host_mtu=9000,romfile=,addr=03.0`,
      ...(window === undefined ? [] : windowArguments(window)),
      ...['-drive', `if=none,id=slots,format=raw,file=${slotsPath(memory)}`],
      ...['-device', 'virtio-blk-pci,drive=slots,addr=06.0', ...userNetwork(this.ports, '07.0')],
    ]
  }

  private awaitServing(): Promise<void> {
    this.began = performance.now()
    this.stages = []
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => {
        this.settle(new Trouble(`the machine does not come to serve. It said:\n${this.story}`))
      }, this.options.startMs ?? START_MS)
      const over = (then: () => void): void => {
        clearTimeout(late)
        this.starting = null
        then()
      }
      this.starting = {
        resolve: () => over(resolve),
        reject: (error) => over(() => reject(error)),
      }
    })
  }

  private settle(error: Error | null): void {
    if (error === null) this.starting?.resolve()
    else this.starting?.reject(error)
  }

  private hear(text: string): void {
    const line = text.trimEnd()
    this.log.push(line)
    if (this.log.length > LOG_LINES) this.log.shift()
    if (PORT_TAKEN.test(line)) this.isPortTaken = true
    const name = STAGE_LINE.exec(line)?.[1]
    if (name !== undefined) {
      const stage = { name, seconds: this.seconds }
      this.stages.push(stage)
      this.options.onStage?.(stage)
      if (name === 'serving') this.settle(null)
    }
    const failed = FAILED_LINE.exec(line)?.[1]
    if (failed !== undefined) this.settle(new Trouble(`the machine: ${failed}\n${this.story}`))
  }

  private ended(how: string): void {
    this.child = null
    this.dropSerial()
    const story = `${how}. The machine said:\n${this.story}`
    this.settle(new Trouble(story))
    this.onEnd(story)
  }
}

const SERVER = ',server=on,wait=off'

function rootOf({ image, window, settings, trust }: MachineOptions, cpu: CpuName): Buffer {
  return firstRoot(image, {
    configuration: configurationText(cpu, window !== undefined, settings),
    boot: bootText(trust !== undefined),
    ...(trust !== undefined && { trust }),
  })
}

function windowArguments({ path, bytes }: { path: string; bytes: number }): string[] {
  const object = `memory-backend-file,id=window,share=on,mem-path=${path},size=${bytes}`
  return ['-object', object, '-device', `ivshmem-plain,memdev=window,addr=${WINDOW_SLOT}`]
}

/** Makes the file if it is not there; its size is a power of two, as that of every PCIe BAR. */
function makeWindow(path: string, bytes: number): void {
  if (!Number.isInteger(Math.log2(bytes)) || bytes < 2 ** 20) {
    throw new Trouble(`a window of ${bytes} bytes: it is a power of two, from 1 MiB`)
  }
  if (!existsSync(path)) {
    writeFileSync(path, '')
    truncateSync(path, bytes)
  }
  const found = statSync(path).size
  if (found !== bytes) throw new Trouble(`${path} has ${found} bytes, not ${bytes}`)
}
