/**
 * Bundles the script of `perdure-boot`.
 *
 * Invariant: nothing of Node is in it. What it has of `node:crypto`, of `node:zlib` and of
 * the globals of Node and browsers are files of its own; packages are bundled in.
 */

import { fileURLToPath } from 'node:url'

const SCRIPT = new URL('./script/', import.meta.url)
const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const at = (name) => fileURLToPath(new URL(name, SCRIPT))

/**
 * The script: one that leaves the global `perdureBoot`. `build` is that of esbuild, which says on
 * stderr what fails.
 */
export async function bundleBoot(build) {
  const { outputFiles } = await build({
    // Its comments name the files from there, wherever node_modules is a link to.
    absWorkingDir: ROOT,
    preserveSymlinks: true,
    entryPoints: [at('main.ts')],
    bundle: true,
    write: false,
    charset: 'utf8',
    legalComments: 'none',
    logLevel: 'warning',
    platform: 'neutral',
    mainFields: ['module', 'main'],
    target: 'es2023',
    format: 'iife',
    globalName: 'perdureBoot',
    alias: { 'node:crypto': at('node-crypto.ts'), 'node:zlib': at('node-zlib.ts') },
    inject: [at('globals.ts')],
  })
  return outputFiles[0].text
}
