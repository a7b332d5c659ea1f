/** `perdure capture --install-dissector`: puts the dissector where Wireshark looks for it. */

import { spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Output } from '../base/output.ts'
import { systemCodeOf } from '../base/system-errors.ts'

const NAME = 'perdure.lua'

/** Installs it, and says where it is, what to do next, and how it is taken out again. */
export function installDissector(output: Output): void {
  const from = ownDissector()
  const folder = pluginFolder()
  const file = join(folder, NAME)
  const isNew = !existsSync(file)
  put(from, file)
  if (output.json) {
    output.printJson({ dissector: file, installed: isNew ? 'new' : 'replaced' })
    return
  }
  output.print(`${isNew ? 'installed' : 'replaced'}  ${file}`)
  output.say("Open a capture in Wireshark, or say: tshark -r FILE -Y 'perdure.op == 7'")
  output.say('A Wireshark that runs loads it with Ctrl-Shift-L. To take it out, delete that file.')
}

function put(from: string, file: string): void {
  try {
    mkdirSync(dirname(file), { recursive: true })
    copyFileSync(from, file)
  } catch (error) {
    const code = systemCodeOf(error)
    if (code === null) throw error
    const advice = `Without it: wireshark -X lua_script:${from}`
    throw new Error(`${file} cannot be written (${code}). ${advice}`, { cause: error })
  }
}

/** The dissector that came with this command: beside it, or in the `dist` of a folder above. */
function ownDissector(from: string = dirname(fileURLToPath(import.meta.url))): string {
  const beside = join(from, NAME)
  if (existsSync(beside)) return beside
  const built = join(from, 'dist', NAME)
  if (existsSync(built)) return built
  if (dirname(from) === from) throw new Error(`no ${NAME} here: build it with "npm run build"`)
  return ownDissector(dirname(from))
}

/** The folder for Lua of this user: tshark knows it best; without one it is the usual one. */
function pluginFolder(): string {
  const { stdout } = spawnSync('tshark', ['-G', 'folders'], { encoding: 'utf8' })
  const told = /^Personal Lua Plugins:\s+(.+)$/m.exec(stdout ?? '')
  if (told !== null) return told[1]!.trim()
  const { APPDATA } = process.env
  if (process.platform === 'win32' && APPDATA !== undefined) {
    return join(APPDATA, 'Wireshark', 'plugins')
  }
  return join(homedir(), '.local', 'lib', 'wireshark', 'plugins')
}
