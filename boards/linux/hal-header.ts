/**
 * The numbers that firmware and native runtime agree on, as a header for C.
 *
 * Invariant: every number comes from `firmware/`; nobody writes one of them twice.
 */

import * as hal from '../../firmware/board/hal.ts'
import {
  BURST_FRAMES,
  COMMANDS_MAX,
  DOORBELLS,
  FRAME_BYTES_MAX,
  FRAME_OFFSET_BYTES,
  FRAME_STRIDE_BYTES,
  HOST_PIECES,
  LINE_BYTES,
  PAGE_BYTES,
  PEER_LINE_BYTES,
  PEER_REGIONS,
  PEERS,
  QUEUE_PAIRS,
  REGION_NAME_BYTES,
  TRANSMIT_FRAMES,
} from '../../firmware/board/limits.ts'
import { HEADER_PAGE_BYTES, MEMORY_BYTES } from '../../firmware/board/memory-map.ts'
import { HEADER_INTERRUPTS } from '../../firmware/host/header-page.ts'
import {
  ATTRIBUTE_CONNECT,
  MAD_ATTRIBUTE,
  MAD_BODY,
  MAD_CLASS,
  MAD_FAULT,
  MAD_VERSION,
  SEALED_VERSION,
} from '../../firmware/wire/management.ts'
import { TAG_KEY_BYTES, TAG_WINDOW, TRAILER_BYTES, TRAILER_TAG } from '../../firmware/wire/tag.ts'

const LIMITS: Readonly<Record<string, number>> = {
  ATTRIBUTE_CONNECT,
  BURST_FRAMES,
  COMMANDS_MAX,
  DOORBELLS,
  FRAME_BYTES_MAX,
  FRAME_OFFSET_BYTES,
  FRAME_STRIDE_BYTES,
  HEADER_INTERRUPTS,
  HEADER_PAGE_BYTES,
  HOST_PIECES,
  LINE_BYTES,
  MAD_ATTRIBUTE,
  MAD_BODY,
  MAD_CLASS,
  MAD_FAULT,
  MAD_VERSION,
  MEMORY_BYTES,
  PAGE_BYTES,
  PEER_LINE_BYTES,
  PEER_REGIONS,
  PEERS,
  REGION_NAME_BYTES,
  QUEUE_PAIRS,
  SEALED_VERSION,
  TAG_KEY_BYTES,
  TAG_WINDOW,
  TRAILER_BYTES,
  TRAILER_TAG,
  TRANSMIT_FRAMES,
}

/**
 * The text of `hal.h`: each number of firmware/board/hal.ts, and the limits it needs, as HAL_NAME.
 */
export function halHeader(): string {
  // In one order, whatever has loaded the module: images name the interface by this text's hash.
  const sorted = Object.entries(hal).sort(([one], [other]) => (one < other ? -1 : 1))
  const numbers = [...sorted, ...Object.entries(LIMITS)].filter(
    (entry): entry is [string, number] => typeof entry[1] === 'number',
  )
  const lines = numbers.map(([name, value]) => `#define HAL_${name} ${literal(value)}`)
  return [
    '/* Made by the build from numbers of the firmware, most of firmware/board/hal.ts. */',
    '#ifndef PERDURE_HAL_H',
    '#define PERDURE_HAL_H',
    ...lines,
    '#endif',
    '',
  ].join('\n')
}

function literal(value: number): string {
  if (!Number.isSafeInteger(value)) throw new RangeError(`${value} is no integer`)
  return value > 0x7fffffff ? `${value}ull` : `${value}`
}
