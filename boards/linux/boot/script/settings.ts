/**
 * The configuration of the supervisor: lines of `key = value`, `#` for comments.
 *
 * Invariant: an unknown key, a key twice (only `smp` and `trust` may be) or a value that
 * cannot be is refused, naming the line and what is allowed.
 */

export interface Settings {
  /** The board, as images name what they are for. */
  readonly board: string
  /** Files of the public keys that images may be signed by: one, or two while keys change. */
  readonly trust: readonly string[]
  /** The file of the slots, or a block device. */
  readonly slots: string
  /** Where SMP is asked. */
  readonly smp: readonly SmpPlace[]
  /** The program that came with the package, and its configuration. */
  readonly runtime: string
  readonly configuration: string
  /** Unix socket of its console; ''. */
  readonly console: string
  /** A trial that nobody has confirmed by then goes back, s. */
  readonly trial: number
  /** What gives no sign of life for so long is ended, s. */
  readonly silence: number
}

export type SmpPlace =
  | { readonly kind: 'unix' | 'tty'; readonly path: string }
  | { readonly kind: 'udp'; readonly address: string; readonly port: number }

/** A configuration that is refused; its message says where and why. */
export class SettingsError extends Error {}

interface Key {
  /** What it takes, in words. */
  readonly takes: string
  /** As it would stand in the file; null: it has to be said. */
  readonly fallback: string | null
  /** Lines of it there may be. */
  readonly most: number
  readonly isGood: (value: string) => boolean
}

const SMP_PORT_MAX = 65535
const isPath = (value: string): boolean => /^\/[^\0]{1,1022}$/.test(value)
const file = (fallback: string): Key => {
  return { takes: 'a path from the root', fallback, most: 1, isGood: isPath }
}
const seconds = (fallback: string): Key => {
  const isGood = (value: string): boolean => /^[1-9]\d{0,4}$/.test(value) && Number(value) <= 86_400
  return { takes: 'seconds, 1 to 86400', fallback, most: 1, isGood }
}

/** Every key there may be. */
export const KEYS: Readonly<Record<string, Key>> = {
  board: {
    ...{ takes: 'a name, as image create --board has it', fallback: null, most: 1 },
    isGood: (value) => /^[a-z0-9-]{1,32}$/.test(value),
  },
  trust: { ...file('/etc/perdure/trust.pem'), most: 2 },
  slots: file('/var/lib/perdure/slots'),
  smp: {
    ...{ takes: 'unix:PATH, tty:DEVICE or udp:ADDRESS:PORT', fallback: '', most: 8 },
    isGood: (value) => smpPlace(value) !== null,
  },
  runtime: file('/usr/sbin/perdured'),
  configuration: file('/etc/perdure/perdured.conf'),
  console: {
    ...{ takes: 'unix:PATH, as that of perdured', fallback: 'unix:/run/perdure/console', most: 1 },
    isGood: (value) => value.startsWith('unix:') && isPath(value.slice('unix:'.length)),
  },
  trial: seconds('600'),
  silence: seconds('120'),
}

/** The place that a text names, or null. An address of IPv6 stands in brackets. */
function smpPlace(text: string): SmpPlace | null {
  const [, kind, where = ''] = /^(unix|tty|udp):(.*)$/.exec(text) ?? []
  if (kind === undefined) return null
  if (kind !== 'udp') return isPath(where) ? { kind: kind as 'unix' | 'tty', path: where } : null
  const udp = /^(?:\[([\da-fA-F:.]+(?:%[\w.-]+)?)\]|([\d.]+)):(\d{1,5})$/.exec(where)
  const port = Number(udp?.[3])
  if (udp === null || port > SMP_PORT_MAX) return null
  return { kind: 'udp', address: (udp[1] ?? udp[2])!, port }
}

/** Reads a configuration. Throws SettingsError. */
export function readSettings(text: string): Settings {
  const said = new Map<string, string[]>()
  for (const [i, line] of text.split('\n').entries()) takeLine(said, i + 1, line.trim())
  for (const [name, { fallback, takes }] of Object.entries(KEYS)) {
    if (said.has(name)) continue
    if (fallback === null) throw new SettingsError(`${name} is missing; it takes ${takes}`)
    said.set(name, fallback === '' ? [] : [fallback])
  }
  const one = (name: string): string => said.get(name)![0]!
  return {
    ...{ board: one('board'), trust: said.get('trust')!, slots: one('slots') },
    smp: said.get('smp')!.map((value) => smpPlace(value)!),
    ...{ runtime: one('runtime'), configuration: one('configuration') },
    console: one('console').slice('unix:'.length),
    ...{ trial: Number(one('trial')), silence: Number(one('silence')) },
  }
}

/**
 * Over UDP nobody shows who he is, so a card with peers takes no SMP there. `text` reads what
 * perdured is configured by, and is asked where there is such a way. Throws SettingsError.
 */
export function checkWays({ smp, configuration }: Settings, text: () => string): void {
  if (!smp.some(({ kind }) => kind === 'udp')) return
  const lines = text().split('\n')
  const at = lines.findIndex((line) => /^\s*peers\s*=\s*\S/.test(line))
  if (at < 0) return
  throw new SettingsError(
    `smp = udp:… is not for a card with peers, which ${configuration} names in line ${at + 1}: ` +
      'nobody shows who he is there; give unix:PATH or tty:DEVICE',
  )
}

function takeLine(said: Map<string, string[]>, number: number, line: string): void {
  if (line === '' || line.startsWith('#')) return
  const refuse = (words: string): never => {
    throw new SettingsError(`line ${number}: ${words}`)
  }
  const equals = line.indexOf('=')
  if (equals < 0) refuse(`expected key = value, found ${line}`)
  const [name, value] = [line.slice(0, equals).trim(), line.slice(equals + 1).trim()]
  if (!Object.hasOwn(KEYS, name)) {
    refuse(`no key is called ${name}. There are: ${Object.keys(KEYS).join(', ')}`)
  }
  const key = KEYS[name]!
  const values = said.get(name) ?? []
  if (values.length === key.most) refuse(`${name} is given more than ${key.most} times`)
  if (!key.isGood(value)) refuse(`${name} = ${value} is not valid; it takes ${key.takes}`)
  said.set(name, [...values, value])
}
