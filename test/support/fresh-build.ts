/**
 * Refuses to test an old firmware bundle: `npm test` has just built, a bare `vitest run` has not.
 *
 * A run of named files goes on with a warning, since most of them need no bundle.
 */

import { existsSync, readdirSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '../..')

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

export default function setup(): void {
  const reason = complaint()
  if (reason === null) return
  const files = process.argv.slice(2).filter((word) => !word.startsWith('-') && word !== 'run')
  if (files.length === 0) throw new Error(reason)
  process.stderr.write(`${reason}\n`)
}
