/** `perdure capture FILE`: one line for each packet of a capture; or the dissector for others. */

import { readFileSync } from 'node:fs'
import type { Command } from 'commander'
import { icrcGood } from '../../../boards/software/icrc.ts'
import { IPV4_DESTINATION, IPV4_SOURCE } from '../../../firmware/wire/ipv4.ts'
import { IPV6_DESTINATION, IPV6_SOURCE } from '../../../firmware/wire/ipv6.ts'
import { blankPacket, type Packet } from '../../../firmware/wire/packet.ts'
import { ipv6Text } from '../../base/addresses.ts'
import { ArgumentError, PerdureError } from '../../base/errors.ts'
import { type CapturedFrame, readPcap } from '../../way/pcap.ts'
import { Output } from '../base/output.ts'
import { checkFile } from '../base/system-errors.ts'
import { textOfFrame } from './frame-text.ts'
import { installDissector } from './install.ts'

export function addCapture(program: Command): void {
  program
    .command('capture')
    .description('print a capture, one line for each packet')
    .argument('[file]', 'a pcap file of Ethernet frames')
    .option('--install-dissector', 'teach Wireshark what Perdure says, instead')
    .option('--json', 'one JSON object for each packet, or about what was installed')
    .action(capture)
}

interface CaptureOptions {
  readonly installDissector?: boolean
  readonly json?: boolean
}

function capture(file: string | undefined, options: CaptureOptions): void {
  const output = new Output(options.json === true)
  if (options.installDissector === true) {
    if (file !== undefined) {
      throw new ArgumentError(`--install-dissector takes no file: leave out ${file}`)
    }
    installDissector(output)
    return
  }
  if (file === undefined) {
    throw new ArgumentError('name a pcap file of Ethernet frames, or say --install-dissector')
  }
  printCapture(output, file)
}

function printCapture(output: Output, file: string): void {
  checkFile(file)
  const packet = blankPacket()
  let first: bigint | null = null
  let number = 0
  for (const { timeNs, frame } of framesOf(file)) {
    first ??= timeNs
    number++
    const { good, text } = textOfFrame(packet, frame)
    const ends = good ? addresses(packet, frame) : null
    const icrc = good && icrcGood(frame, 0, frame.length)
    const timeUs = Number(timeNs - first) / 1000
    if (output.json) {
      const { destQp, psn, opcode, payloadLength } = packet
      const fields = good ? { ...ends, opcode, destQp, psn, payloadLength, icrc } : {}
      output.printJson({ number, timeUs, length: frame.length, ...fields, text })
      continue
    }
    const flow = ends === null ? '' : `${ends.source} > ${ends.destination}  `
    const bad = good && !icrc ? '  [bad ICRC]' : ''
    output.print(`${number}  ${timeUs.toFixed(3)} µs  ${flow}${text}${bad}`)
  }
}

/** The frames of a capture. Throws PERDURE_IMAGE, and names the file, where it is none. */
function* framesOf(file: string): Generator<CapturedFrame> {
  try {
    yield* readPcap(readFileSync(file))
  } catch (error) {
    if (!(error instanceof PerdureError)) throw error
    const advice = 'Name a pcap file of Ethernet frames.'
    throw new PerdureError(error.code, `${file}: ${error.message}. ${advice}`)
  }
}

function addresses(packet: Packet, frame: Uint8Array): { source: string; destination: string } {
  const { ipAt, ipVersion } = packet
  const text = (at: number): string => {
    if (ipVersion === 4) return frame.subarray(at, at + 4).join('.')
    return ipv6Text(frame.subarray(at, at + 16))
  }
  return ipVersion === 4
    ? { source: text(ipAt + IPV4_SOURCE), destination: text(ipAt + IPV4_DESTINATION) }
    : { source: text(ipAt + IPV6_SOURCE), destination: text(ipAt + IPV6_DESTINATION) }
}
