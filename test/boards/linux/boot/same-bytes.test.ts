/**
 * The same sources make the same bytes, wherever they lie: perdure-boot, which has the engine and
 * files of the runtime's own in it, is built in two copies of the tree. (perdured is made in the
 * same way; it takes minutes, and is compared by hand.)
 */

import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build } from 'esbuild'
import { afterAll, describe, expect, test } from 'vitest'
import { run } from '../../../../boards/tools/debian/programs.ts'
import { noCompiler, titled } from '../../../support/native/harness.ts'
import { THOROUGH } from '../../../support/run/thorough.ts'
import { ROOT } from '../../../support/source/sources.ts'

const folder = mkdtempSync(join(tmpdir(), 'perdure-same-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const LINUX = join(ROOT, 'dist/linux')
const unpacked = (existsSync(LINUX) ? readdirSync(LINUX) : []).find((name) => {
  return name.startsWith('quickjs-')
})

/** What is run in a copy: the script, and the program around it; its path alone on stdout. */
const BUILD = `
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { build } from 'esbuild'
import { compileBoot, shippedBoot } from './boards/linux/boot/compile.ts'
import { hostArchitecture } from './boards/linux/toolchain.ts'
const options = { sanitize: false, dropFlush: false, install: false, say: () => {} }
const boot = shippedBoot({ ...options, architecture: hostArchitecture() })
const { bundleBoot } = await import(join(process.cwd(), 'boards/linux/boot/bundle.mjs'))
writeFileSync(boot.script, await bundleBoot(build))
process.stdout.write(compileBoot(boot))
`

/** Builds in a copy of the tree at that path; the script and the program. */
async function builtAt(copy: string): Promise<{ script: Buffer; program: Buffer }> {
  mkdirSync(join(copy, 'dist/linux'), { recursive: true })
  for (const name of ['boards', 'firmware', 'build.mjs', 'package.json', 'tsconfig.json']) {
    cpSync(join(ROOT, name), join(copy, name), { recursive: true })
  }
  symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'))
  symlinkSync(join(LINUX, unpacked!), join(copy, 'dist/linux', unpacked!))
  await build({
    stdin: { contents: BUILD, resolveDir: copy },
    ...{ bundle: true, platform: 'node', format: 'esm', packages: 'external' },
    outfile: join(copy, 'dist/build.js'),
  })
  const program = run(process.execPath, ['dist/build.js'], { cwd: copy }).toString()
  return { script: readFileSync(join(copy, 'dist/boot.js')), program: readFileSync(program) }
}

const why =
  noCompiler ?? (unpacked === undefined ? 'no QuickJS: node build.mjs --board linux' : null)

describe.skipIf(why !== null)(titled('two folders', why), () => {
  test('make the same script and the same program, which names neither', THOROUGH, async () => {
    const [one, other] = [join(folder, 'one'), join(folder, 'two/much-deeper')]
    const [first, second] = [await builtAt(one), await builtAt(other)]
    expect(first.script.equals(second.script)).toBe(true)
    expect(first.program.equals(second.program)).toBe(true)
    expect(first.program.includes(folder)).toBe(false)
  })
})
