/**
 * `perdure check TARGET`: the health of a part, as monitoring systems ask for it: one line on
 * stdout with figures behind a bar, and the exit codes of Nagios plugins.
 *
 * Invariant: 0 is said only by a card that was asked and serves, promises what it is for, and has
 * lost nothing. What cannot be learnt is never OK.
 */

import { type Command, InvalidArgumentError } from 'commander'
import { PerdureError } from '../base/errors.ts'
import type { PartStatus, RegionInfo } from '../control/part.ts'
import { engineOption } from './base/arguments.ts'
import { Output } from './base/output.ts'
import { serves } from './base/part-text.ts'
import { messageOf } from './base/system-errors.ts'
import { TARGETS, withTarget } from './base/target.ts'

/** How grave it is: the exit codes of Nagios plugins, which are not those of other commands. */
const GRAVITY = { OK: 0, WARNING: 1, CRITICAL: 2, UNKNOWN: 3 } as const

type Gravity = keyof typeof GRAVITY

/** What is refused, if it is. */
type Refusing = Pick<RegionInfo, 'name' | 'refuses'>

/** Something that is not as it should be. */
interface Finding {
  readonly gravity: Gravity
  readonly text: string
}

/** What may be as it is: for a card on a desk. */
const ALLOWED = ['volatile', 'open'] as const

type Allowed = (typeof ALLOWED)[number]

interface Options {
  readonly json?: boolean
  readonly engine?: 'quickjs' | 'node'
  readonly timeout: number
  readonly allow?: readonly Allowed[]
}

const SECONDS = 10

export function addCheck(program: Command): void {
  program
    .command('check')
    .description('tell the health of a part, as plugins of Nagios do: 0 OK, 1 WARNING, 2 CRITICAL')
    .argument('<target>', TARGETS)
    .option('--timeout <seconds>', 'for an answer of the card', seconds, SECONDS)
    .option('--allow <what>', `no warning of that: ${ALLOWED.join(' or ')}; may be repeated`, allow)
    .addOption(engineOption())
    .option('--json', 'as one JSON object')
    .action(async (target: string, options: Options) => {
      process.exitCode = await check(target, options)
    })
}

function seconds(text: string): number {
  const value = Number(text)
  if (value > 0 && value <= 3600) return value
  throw new InvalidArgumentError('seconds, more than 0, to 3600')
}

function allow(text: string, before: readonly Allowed[] = []): readonly Allowed[] {
  const one = ALLOWED.find((name) => name === text)
  if (one === undefined) throw new InvalidArgumentError(ALLOWED.join(' or '))
  return [...before, one]
}

async function check(target: string, options: Options): Promise<number> {
  const { json = false, engine, timeout, allow = [] } = options
  const connect = { timeoutMs: timeout * 1000, warn: () => {} }
  const looking = { writes: false, anyState: true, engine, connect }
  const output = new Output(json)
  try {
    return await withTarget(target, looking, async ({ dpu }) => {
      const part = await dpu.status()
      const regions = serves(part) ? await dpu.regions() : []
      return tell(output, target, findingsOf(part, regions, allow), figuresOf(part, regions))
    })
  } catch (error) {
    const isSilent = error instanceof PerdureError && SILENT.includes(error.code)
    const gravity = isSilent ? 'CRITICAL' : 'UNKNOWN'
    return tell(output, target, [{ gravity, text: messageOf(error) }], {})
  }
}

/** What a card that is off, or gone, comes to. */
const SILENT: readonly string[] = [
  'PERDURE_UNREACHABLE',
  'PERDURE_TRANSPORT',
  'PERDURE_CARD_REMOVED',
  'PERDURE_DEADLINE',
]

/** What is not as it should be, of the part and its regions. */
export function findingsOf(
  part: PartStatus,
  regions: readonly Refusing[],
  allowed: readonly Allowed[],
): Finding[] {
  return [...ofPart(part, allowed), ...regions.flatMap(ofRegion)]
}

/** The gravest of them, or OK. */
export function gravest(findings: readonly Finding[]): Gravity {
  return ORDER.find((one) => findings.some((found) => found.gravity === one)) ?? 'OK'
}

const ORDER: readonly Gravity[] = ['CRITICAL', 'UNKNOWN', 'WARNING']

/** What there is to say of the part. */
function ofPart(part: PartStatus, allowed: readonly Allowed[]): Finding[] {
  const { state, fault, unsettled, superblockPages, operationsLost } = part
  const isServing = serves(part)
  // A card with peers tells a stranger neither its incarnation nor its superblock.
  const isTold = isServing && part.incarnation > 0
  const all: readonly (readonly [boolean, Gravity, string])[] = [
    [!isServing, 'CRITICAL', `the part does not serve (${fault ?? state})`],
    [state === 'failedClosed', 'CRITICAL', `the part takes no writes (${fault ?? state})`],
    [!part.armed, 'CRITICAL', 'the save energy is not there: nothing can be promised'],
    [part.saveFailed, 'CRITICAL', 'the last save of the NVDIMM failed'],
    [part.onTrial, 'WARNING', 'the firmware is on trial: it goes back unless it is confirmed'],
    [unsettled > 0, 'CRITICAL', `${unsettled} records are lost`],
    [
      isServing && !isTold,
      'UNKNOWN',
      'a card with peers tells who has no session neither what it holds nor what is lost',
    ],
    [
      isTold && superblockPages < 2,
      'WARNING',
      `${superblockPages} of 2 superblock pages are whole`,
    ],
    [operationsLost > 0, 'WARNING', `repetitions of ${operationsLost} clients are refused`],
    [
      !part.outlivesPower && !allowed.includes('volatile'),
      'WARNING',
      'what is durable does not outlive the power',
    ],
    [
      part.access === 'anybody' && !allowed.includes('open'),
      'WARNING',
      'whoever reaches the card may administer it',
    ],
  ]
  return all.filter(([is]) => is).map(([, gravity, text]) => ({ gravity, text }))
}

function ofRegion({ name, refuses }: Refusing): Finding[] {
  if (refuses === null) return []
  return [{ gravity: 'CRITICAL', text: `region '${name}' takes no writes (${refuses})` }]
}

/** Figures for a chart, by their names; what has a limit is critical above 0. */
function figuresOf(part: PartStatus, regions: readonly RegionInfo[]): Record<string, number> {
  const repaired = regions.reduce((all, region) => all + region.repaired, 0)
  return {
    regions: part.regions,
    lost: part.unsettled,
    repaired,
    refused: part.refusals.count,
    incarnation: part.incarnation,
  }
}

/** Says it; the exit code is that of the gravest. */
function tell(
  output: Output,
  target: string,
  findings: readonly Finding[],
  figures: Readonly<Record<string, number>>,
): number {
  const gravity = gravest(findings)
  const sorted = ORDER.flatMap((one) => findings.filter((found) => found.gravity === one))
  if (output.json) {
    output.printJson({ target, state: gravity, findings: sorted, figures })
    return GRAVITY[gravity]
  }
  const words = sorted.map(({ text }) => text.replaceAll('|', '/')).join('; ')
  const numbers = Object.entries(figures).map(([name, value]) => {
    return name === 'lost' ? `${name}=${value};;0;0` : `${name}=${value};;;0`
  })
  const behind = numbers.length === 0 ? '' : ` | ${numbers.join(' ')}`
  output.print(
    `PERDURE ${gravity}: ${words === '' ? 'serving, armed, nothing lost' : words}${behind}`,
  )
  return GRAVITY[gravity]
}
