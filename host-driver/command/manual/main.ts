/** Part of `node build.mjs build`: writes the manual into a folder, `dist/manual` as a rule. */

import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createProgram } from '../program.ts'
import { manualOf } from './pages.ts'

const [root, folder] = process.argv.slice(2) as [string, string]
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  version: string
}
mkdirSync(folder, { recursive: true })
for (const { name, text } of manualOf(createProgram(version), version)) {
  const aside = join(folder, `.${name}.${process.pid}`)
  writeFileSync(aside, text)
  renameSync(aside, join(folder, name))
}
