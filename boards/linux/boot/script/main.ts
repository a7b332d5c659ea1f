/** The entry: the program hands over what it gives, and gets back what it calls in its loop. */

import { sha256 } from '../../../flash/mcuboot.ts'
import { HAL_BYTES } from '../../../flash/payload.ts'
import { halHeader } from '../../hal-header.ts'
import { give } from './given.ts'
import type { Host, Script } from './host.ts'
import { checkWays, readSettings, SettingsError } from './settings.ts'
import { Supervisor } from './supervisor.ts'

const USAGE = `perdure-boot --config FILE [--notify PATH]
perdure-boot --version
  --config FILE   lines of key = value; # begins a comment
  --notify PATH   where perdured says how it is; /run/perdure/notify by default
  --version       say which release this is

Exit codes: 0 told to stop, 64 usage, 69 slots or ways of SMP cannot be had, 78 the configuration
is wrong.`
const NOTIFY_PATH = '/run/perdure/notify'
const SETTINGS_BYTES_MAX = 1 << 16

const EXIT_USAGE = 64
const EXIT_UNAVAILABLE = 69
const EXIT_CONFIG = 78

const NOTHING: Script = {
  watch: () => ({ readable: [], writable: [], untilMs: 0 }),
  turn: () => {},
}

export function start(host: Host): Script {
  give(host)
  const words = wordsOf(host.args)
  const end = (code: number, text: string): Script => {
    host.log('error', text)
    host.exit(code)
    return NOTHING
  }
  if (words === null) return end(EXIT_USAGE, USAGE)
  try {
    const settings = readSettings(textOf(host, words.config))
    checkWays(settings, () => textOf(host, settings.configuration))
    const hal = sha256(new TextEncoder().encode(halHeader())).subarray(0, HAL_BYTES)
    return new Supervisor({ host, settings, hal, notifyPath: words.notify })
  } catch (error) {
    const { message } = error as Error
    if (error instanceof SettingsError) return end(EXIT_CONFIG, `${words.config}, ${message}`)
    return end(EXIT_UNAVAILABLE, message)
  }
}

function textOf(host: Host, path: string): string {
  return new TextDecoder().decode(new Uint8Array(host.readFile(path, SETTINGS_BYTES_MAX)))
}

/** The words of the command line; null: they are none. */
function wordsOf(args: readonly string[]): { config: string; notify: string } | null {
  const said = new Map<string, string>()
  for (let i = 0; i < args.length; i += 2) {
    const [name, value] = [args[i]!, args[i + 1]]
    if (!['--config', '--notify'].includes(name) || value === undefined || said.has(name))
      return null
    said.set(name, value)
  }
  const config = said.get('--config')
  return config === undefined ? null : { config, notify: said.get('--notify') ?? NOTIFY_PATH }
}
