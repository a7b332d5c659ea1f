/**
 * The guest as a process: QEMU, and the serial line over which it is told what to do.
 *
 * Invariant: every command has a limit of its own in the guest, and a longer one here, so
 * that nothing waits forever; when QEMU ends, whoever waits hears why.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { Trouble } from '../../boards/tools/debian/programs.ts'
import { PATIENCE_MS } from '../support/run/patience.ts'
import type { GuestImage } from './image.ts'

/** What a command may take longer here than in the guest. */
const SLACK_MS = 60_000

/** Nothing of a guest lives longer than this, seconds. */
const GUEST_SECONDS_MAX = 1800

const PARAMETERS = [
  'console=ttyS0 quiet nokaslr mitigations=off panic=-1 no_timer_check tsc=reliable',
  '8250.nr_uarts=1 cryptomgr.notests lsm= audit=0',
].join(' ')

/** An NVDIMM of the guest. */
interface GuestNvdimm {
  /** A file of this machine, of so many bytes. */
  readonly path: string
  readonly bytes: number
  /** Whether it has the energy for a save, as the kernel is told. */
  readonly armed: boolean
}

/** How QEMU is told of it. */
function nvdimmArguments({ path, bytes, armed }: GuestNvdimm): string[] {
  return [
    ...['-M', 'nvdimm=on', '-m', '256,slots=1,maxmem=1G'],
    ...['-object', `memory-backend-file,id=dimm,share=on,mem-path=${path},size=${bytes}`],
    ...['-device', `nvdimm,id=nvdimm,memdev=dimm,unarmed=${armed ? 'off' : 'on'}`],
  ]
}

/** What a command in the guest printed, and how it ended. */
export interface CommandResult {
  readonly lines: readonly string[]
  /** Its exit code; 124 and 137 say that its time was over, -1 that the guest fell silent. */
  readonly status: number
}

interface Waiting {
  readonly mark: RegExp
  readonly resolve: (lines: readonly string[]) => void
  readonly reject: (error: Error) => void
}

export class Guest {
  private readonly qemu: ChildProcess
  private lines: string[] = []
  private partial = ''
  private waiting: Waiting | null = null
  private ended: string | null = null
  private commands = 0
  private errors = ''
  /** Told each line as it comes. */
  private onLine: (line: string) => void = () => {}

  /** Starts QEMU with one network card for each socket, and with that soft-RoCE module. */
  constructor(
    image: Pick<GuestImage, 'kernel' | 'root'>,
    sockets: readonly string[],
    module: 'mended' | 'stock',
    nvdimm?: GuestNvdimm,
  ) {
    const cards = sockets.flatMap((path, i) => [
      '-netdev',
      `stream,id=n${i},server=off,addr.type=unix,addr.path=${path}`,
      '-device',
      `virtio-net-pci,netdev=n${i},mac=52:54:00:00:00:0${i + 1},romfile=`,
    ])
    const machine = '-M q35 -accel tcg -cpu max,la57=off -m 192 -nodefaults -no-user-config'
    const more = module === 'mended' ? ' rxe=-mended' : ''
    const args = [
      ...`${machine} -display none -serial stdio -no-reboot`.split(' '),
      ...[
        '-kernel',
        image.kernel,
        '-initrd',
        image.root,
        '-append',
        `${PARAMETERS}${more}`,
        ...cards,
        ...(nvdimm === undefined ? [] : nvdimmArguments(nvdimm)),
      ],
    ]
    this.qemu = spawn('timeout', [`${GUEST_SECONDS_MAX}`, 'qemu-system-x86_64', ...args])
    this.qemu.stdout!.setEncoding('latin1').on('data', (text: string) => this.take(text))
    this.qemu.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.errors += text
    })
    this.qemu.stdin!.on('error', () => {})
    this.qemu.on('error', (error) => this.end(error.message))
    // `timeout` hands this on to QEMU.
    const kill = (): boolean => this.qemu.kill('SIGTERM')
    process.once('exit', kill)
    this.qemu.on('exit', (code) => {
      process.off('exit', kill)
      this.end(`QEMU ended with code ${code}. ${this.errors.trim()}`)
    })
  }

  /** Waits for the boot; resolves to what the guest says about itself: kernel, seconds. */
  async ready(): Promise<{ kernel: string; seconds: string }> {
    const lines = await this.until(/^@ready /, PATIENCE_MS)
    const broken = lines.filter((line) => line.startsWith('@broken'))
    if (broken.length > 0) throw new Trouble(`the guest is not whole:\n${lines.join('\n')}`)
    const [, kernel, seconds] = lines.at(-1)!.split(' ')
    return { kernel: kernel ?? '', seconds: seconds ?? '' }
  }

  /**
   * Runs a shell command in the guest, for so many seconds at most. One at a time. `onLine` hears
   * each line of it while it runs.
   */
  async run(
    command: string,
    seconds: number,
    onLine: (line: string) => void = () => {},
  ): Promise<CommandResult> {
    const number = ++this.commands
    this.onLine = onLine
    this.qemu.stdin!.write(`${number} ${seconds} ${command}\n`)
    const mark = new RegExp(`^@done ${number} (\\d+)$`)
    try {
      const lines = await this.until(mark, seconds * 1000 + SLACK_MS)
      return { lines: lines.slice(0, -1), status: Number(mark.exec(lines.at(-1)!)![1]) }
    } catch (error) {
      return { lines: [...this.lines, (error as Error).message], status: -1 }
    }
  }

  /** Ends the guest, whatever it does. */
  async stop(): Promise<void> {
    if (this.ended !== null) return
    const gone = new Promise((resolve) => this.qemu.once('exit', resolve))
    this.qemu.kill('SIGTERM')
    await gone
  }

  private until(mark: RegExp, waitMs: number): Promise<readonly string[]> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.waiting = null
        reject(new Trouble(`the guest said nothing for ${waitMs / 1000} s`))
      }, waitMs)
      this.waiting = {
        mark,
        resolve: (lines) => {
          clearTimeout(timer)
          resolve(lines)
        },
        reject: (error) => {
          clearTimeout(timer)
          reject(error)
        },
      }
      if (this.ended !== null) this.end(this.ended)
      else this.look()
    })
  }

  private take(text: string): void {
    const pieces = (this.partial + text).split('\n')
    this.partial = pieces.pop()!
    for (const piece of pieces) {
      const line = piece.replaceAll('\r', '')
      this.lines.push(line)
      this.onLine(line)
    }
    this.look()
  }

  private look(): void {
    const { waiting } = this
    if (waiting === null) return
    const at = this.lines.findIndex((line) => waiting.mark.test(line))
    if (at < 0) return
    this.waiting = null
    waiting.resolve(this.lines.splice(0, at + 1))
  }

  private end(why: string): void {
    this.ended = why
    const { waiting } = this
    this.waiting = null
    waiting?.reject(new Trouble([why, ...this.lines.slice(-20)].join('\n')))
  }
}
