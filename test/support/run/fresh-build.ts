/**
 * Refuses to test an old firmware bundle: `npm test` has just built, a bare `vitest run` has not.
 * Gives the tests a temporary folder, which goes with them, whatever they leave there.
 *
 * A run of named files goes on with a warning, since most of them need no bundle.
 */

import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '../../..')

function complaint(): string | null {
  const bundle = join(ROOT, 'dist/firmware.js')
  if (!existsSync(bundle)) return 'dist/firmware.js is missing: run `npm run build` first.'
  const builtMs = statSync(bundle).mtimeMs
  const sources = readdirSync(join(ROOT, 'firmware'), { recursive: true, encoding: 'utf8' })
  const newer = sources.find(
    (name) => name.endsWith('.ts') && statSync(join(ROOT, 'firmware', name)).mtimeMs > builtMs,
  )
  if (newer === undefined) return null
  return `dist/firmware.js is older than firmware/${newer}: run \`npm run build\` first.`
}

/** Longest name of a temporary folder, bytes: a Unix socket's path below it has room for 107. */
const TMPDIR_BYTES = 50

/** Makes the temporary folder; how it is removed. */
function temporary(): () => void {
  const above = tmpdir()
  if (Buffer.byteLength(above) > TMPDIR_BYTES) {
    throw new Error(`TMPDIR is ${above}: the tests' sockets need one of ${TMPDIR_BYTES} bytes`)
  }
  const folder = mkdtempSync(join(above, 'perdure-'))
  process.env.TMPDIR = folder
  return () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
}

export default function setup(): () => void {
  refuseOld()
  return temporary()
}

function refuseOld(): void {
  const reason = complaint()
  if (reason === null) return
  const files = process.argv.slice(2).filter((word) => !word.startsWith('-') && word !== 'run')
  if (files.length === 0) throw new Error(reason)
  process.stderr.write(`${reason}\n`)
}
