/**
 * Sets up, builds and runs Perdure:
 * `node build.mjs start | test | test:thorough | test:interop | build | bench | evidence | check |
 * doc | structure [...]`,
 * `node build.mjs package [...]` for a package of Debian, `node build.mjs board:qemu [...]` for the
 * virtual machine, and `node build.mjs --board NAME [...]` for a board that is compiled.
 *
 * Invariants:
 * - A fresh clone needs Node 20.19 and npm, nothing else. Until `installed()` says that exactly the
 *   locked packages are there, only `node:` modules are loaded.
 * - A build leaves every product whole: each file is written aside and renamed into place, so a
 *   program that starts during a build reads the old file or the new one.
 * - Set-up talks on stderr; stdout belongs to the command that is run.
 *
 * The products, all in `dist/`:
 *   firmware.js   the firmware, for QuickJS: one script that leaves the global `perdure`. The
 *                 emulator reads it when it powers on.
 *   index.js      the host driver
 *   emulator.js   the emulated DPU
 *   perdure.js    the command
 *   monitor.*     the page of `perdure monitor --web`
 *   perdure.lua   the dissector for Wireshark, which `perdure capture` installs
 *   chunk-*.js    what these three share, once, so that an error class is the same class in each
 *   *.js.map      the sources of these: `node --enable-source-maps`, and debuggers
 *   boot.js       the script of perdure-boot, which leaves the global `perdureBoot`; made for
 *                 boards that are compiled
 *   types/        declarations, made by `build` only
 *   manual/       pages for `man`, made by `build` only
 */

import { spawn, spawnSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { constants, tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bundleBoot } from './boards/linux/boot/bundle.mjs'

const ROOT = dirname(fileURLToPath(import.meta.url))
const DIST = join(ROOT, 'dist')
const MODULES = join(ROOT, 'node_modules')

/** Node version that every product runs on; `await using` and the like are lowered to it. */
const NODE_TARGET = 'node20.19'

/** The package has the sources that these lead to. */
const MAPS = { sourcemap: true, sourcesContent: false }

/** A failure that is explained by its message alone. */
class Stop extends Error {}

/**
 * Whether node_modules holds what package-lock.json says, package by package.
 *
 * npm writes its own record of an installation as the last step, so one that was interrupted is
 * not taken for whole. A package for another platform may be absent.
 */
function installed() {
  const record = join(MODULES, '.package-lock.json')
  if (!existsSync(record)) return false
  const there = JSON.parse(readFileSync(record, 'utf8')).packages
  const locked = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')).packages
  for (const [path, wanted] of Object.entries(locked)) {
    if (path === '') continue
    const found = there[path]
    if (found === undefined && wanted.optional) continue
    if (found === undefined || found.version !== wanted.version) return false
    if (found.integrity !== wanted.integrity || !existsSync(join(ROOT, path))) return false
  }
  return true
}

/** Installs the locked packages, with every install script refused, when they are not there. */
function setUp() {
  const [major, minor] = process.versions.node.split('.').map(Number)
  if (major < 20 || (major === 20 && minor < 19)) {
    throw new Stop(`Perdure needs Node 20.19 or later; this is ${process.versions.node}.`)
  }
  if (installed()) return
  process.stderr.write('perdure: installing the locked packages (npm ci --ignore-scripts)\n')
  const flags = ['ci', '--ignore-scripts', '--include=dev', '--no-audit', '--no-fund']
  const npm = process.env.npm_execpath ?? ''
  const own = basename(npm) === 'npm-cli.js'
  const done = own
    ? spawnSync(process.execPath, [npm, ...flags], { cwd: ROOT, stdio: ['ignore', 2, 2] })
    : spawnSync('npm', flags, { cwd: ROOT, stdio: ['ignore', 2, 2] })
  if (done.error) throw new Stop(`npm could not be started: ${done.error.message}`)
  if (done.status !== 0) throw new Stop('npm could not install the locked packages; see above.')
  if (!installed()) throw new Stop('npm left packages that differ from package-lock.json.')
}

/** Bundles `entries` (name in dist → source) and returns the files, not yet written. */
async function bundle(entries, options) {
  const { build } = await import('esbuild')
  for (const source of Object.values(entries)) {
    if (!existsSync(join(ROOT, source))) throw new Stop(`${source} is missing: cannot build.`)
  }
  try {
    const result = await build({
      absWorkingDir: ROOT,
      entryPoints: Object.entries(entries).map(([out, source]) => ({ in: source, out })),
      outdir: DIST,
      bundle: true,
      write: false,
      charset: 'utf8',
      legalComments: 'none',
      logLevel: 'warning',
      ...options,
    })
    return result.outputFiles
  } catch {
    throw new Stop('The build failed; see above.')
  }
}

/**
 * The firmware: nothing of Node can be imported, and what QuickJS pays for at every read is made
 * cheap (boards/tools/bundle/tighten.mjs). Its syntax stays as it was written: of the short forms
 * that a bundler makes (`a && b`, and commas for statements) QuickJS makes more work, not less.
 */
async function bundleFirmware() {
  const { tightened } = await import('./boards/tools/bundle/tighten.mjs')
  const [file] = await bundle(
    { firmware: 'firmware/main.ts' },
    { platform: 'neutral', target: 'es2023', format: 'iife', globalName: 'perdure' },
  )
  const text = tightened(file.text)
  return [{ path: file.path, text, contents: Buffer.from(text) }]
}

function bundleForNode(entries, options = {}) {
  return bundle(entries, {
    platform: 'node',
    target: NODE_TARGET,
    format: 'esm',
    packages: 'external',
    ...options,
  })
}

/** One program for Node that runs for minutes: its constants are worth something. */
async function bundleOfConstants(entry) {
  const { constsForVars } = await import('./boards/tools/bundle/constants.mjs')
  const [{ path, text }] = await bundleForNode(entry)
  return { path, contents: constsForVars(text) }
}

/** The dissector for Wireshark, made of the tables of the wire and of sources of Lua. */
async function makeDissector() {
  const folder = 'host-driver/command/capture/dissector'
  const [{ contents }] = await bundleForNode({ dissector: `${folder}/generate.ts` })
  const url = `data:text/javascript;base64,${Buffer.from(contents).toString('base64')}`
  const { dissectorText } = await import(url)
  return { path: join(DIST, 'perdure.lua'), contents: dissectorText(join(ROOT, folder)) }
}

/**
 * The page of a monitor. What is bundled with it (uPlot, MIT) asks that its licence goes with it,
 * so that stands at the top of the script and of the style.
 */
async function bundlePage() {
  const folder = 'host-driver/command/monitor/page'
  const licence = `/*! uPlot\n${readFileSync(join(MODULES, 'uplot/LICENSE'), 'utf8')}*/`
  const options = {
    ...{ platform: 'browser', format: 'iife', target: 'es2022', minify: true },
    banner: { js: licence, css: licence },
  }
  const sources = [`${folder}/client.ts`, `${folder}/page.css`]
  const files = await Promise.all(sources.map((source) => bundle({ monitor: source }, options)))
  const html = {
    path: join(DIST, 'monitor.html'),
    contents: readFileSync(join(ROOT, folder, 'page.html')),
  }
  return [...files.flat(), html]
}

/** Puts `files` into dist, the shared pieces first, each by one rename. */
function place(files) {
  mkdirSync(DIST, { recursive: true })
  const isChunk = (file) => basename(file.path).startsWith('chunk-')
  for (const file of [...files].sort((a, b) => Number(isChunk(b)) - Number(isChunk(a)))) {
    const aside = `${file.path}.${process.pid}`
    const runs = basename(file.path) === 'perdure.js'
    writeFileSync(aside, file.contents)
    if (runs) chmodSync(aside, 0o755)
    renameSync(aside, file.path)
  }
}

/** The script that perdure-boot is linked with. */
async function placeBoot() {
  const { build } = await import('esbuild')
  try {
    const text = await bundleBoot(build)
    place([{ path: join(DIST, 'boot.js'), text, contents: Buffer.from(text) }])
  } catch {
    throw new Stop('The script of perdure-boot cannot be built; see above.')
  }
}

/** Removes shared pieces that no product names any more. */
function sweep(files) {
  const kept = new Set(files.map((file) => basename(file.path)))
  for (const name of readdirSync(DIST)) {
    // What another build is about to place has another ending.
    if (!/^chunk-\w+\.js(\.map)?$/.test(name) || kept.has(name)) continue
    rmSync(join(DIST, name), { force: true })
  }
}

/** Builds everything that runs. About 0.2 s. */
async function build() {
  const [firmware, dissector, page, node] = await Promise.all([
    bundleFirmware(),
    makeDissector(),
    bundlePage(),
    bundleForNode(
      {
        index: 'host-driver/index.ts',
        emulator: 'boards/emulator/index.ts',
        perdure: 'host-driver/command/main.ts',
      },
      { splitting: true, chunkNames: 'chunk-[hash]', ...MAPS },
    ),
  ])
  const network = await bundleForNode({
    'board-qemu-network': 'boards/qemu-virt/network-worker.ts',
  })
  place([...firmware, dissector, ...page, ...node, ...network])
  sweep(node)
}

/** Puts the manual of the command into dist; resolves to an exit code. */
async function placeManual() {
  place(await bundleForNode({ manual: 'host-driver/command/manual/main.ts' }))
  const folder = join(DIST, 'manual')
  rmSync(folder, { recursive: true, force: true })
  return run(join(DIST, 'manual.js'), [ROOT, folder])
}

/** Runs a program of this repository to its end; resolves to its exit code. */
function run(file, args, stdio = 'inherit') {
  // An interrupt reaches the program as well, and it is the program that decides what follows.
  const hold = () => {}
  process.on('SIGINT', hold)
  const child = spawn(process.execPath, [file, ...args], { cwd: process.cwd(), stdio })
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('exit', (code, signal) => {
      process.off('SIGINT', hold)
      resolve(code ?? (signal === 'SIGINT' ? 130 : 1))
    })
  })
}

/** The JavaScript file behind a package's command. */
function command(name, bin) {
  const about = JSON.parse(readFileSync(join(MODULES, name, 'package.json'), 'utf8'))
  return join(MODULES, name, typeof about.bin === 'string' ? about.bin : about.bin[bin])
}

/** How long what is told to end may take for that, ms; then it is killed. */
const GRACE_MS = 5000
const LOOK_MS = 500

/** Calls back when npm, which started this process, is gone: it passes no signal on. */
function whenNpmGoes(callback) {
  if (process.env.npm_lifecycle_event === undefined) return null
  const npm = process.ppid
  return setInterval(() => process.ppid !== npm && callback(), LOOK_MS)
}

/**
 * Runs tests to their end; resolves to the exit code of vitest.
 *
 * They and all that they start are one process group, which ends with this process, whatever ends
 * it; what they leave in the temporary folder goes as well.
 */
async function runTests(args, environment) {
  const folder = mkdtempSync(join(tmpdir(), 'pt-'))
  const env = { ...process.env, TMPDIR: folder, ...environment }
  const vitest = [command('vitest', 'vitest'), 'run', '--root', ROOT, ...args]
  const child = spawn(process.execPath, vitest, { stdio: 'inherit', detached: true, env })
  const tell = (signal) => {
    try {
      process.kill(-child.pid, signal)
    } catch {
      // Nobody is left.
    }
  }
  const end = (signal) => {
    tell(signal)
    setTimeout(tell, GRACE_MS, 'SIGKILL').unref()
  }
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP']
  for (const signal of signals) process.on(signal, end)
  const look = whenNpmGoes(() => {
    clearInterval(look)
    end('SIGTERM')
  })
  try {
    return await new Promise((resolve, reject) => {
      child.on('error', reject)
      child.on('exit', (code, signal) => resolve(code ?? 128 + constants.signals[signal]))
    })
  } finally {
    clearInterval(look)
    tell('SIGKILL')
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
    for (const signal of signals) process.off(signal, end)
  }
}

/** Whether arguments of vitest choose files or tests: then these are played, whatever their tag. */
function choosesTests(args) {
  return args.some((word) => !word.startsWith('-') || /^(-t|--testNamePattern)/.test(word))
}

/** Types and style of every source. */
async function checkSources() {
  const tsc = command('typescript', 'tsc')
  const codes = [
    await run(tsc, ['-p', join(ROOT, 'tsconfig.json')]),
    await run(tsc, ['-p', join(ROOT, 'firmware/tsconfig.json')]),
    await run(tsc, ['-p', join(ROOT, 'host-driver/examples/tsconfig.json')]),
    await run(tsc, ['-p', join(ROOT, 'host-driver/command/monitor/page/tsconfig.json')]),
    await run(command('@biomejs/biome', 'biome'), ['check', '--error-on-warnings', ROOT]),
  ]
  return codes.find((code) => code !== 0) ?? 0
}

/** Tests that only read: layers, pages, names and numbers that others go by. */
const OF_TEXT = [
  'test/product/tidy.test.ts',
  'test/product/readme.test.ts',
  'test/product/layout.test.ts',
  'test/boards/linux/linux-build.test.ts',
  'test/evidence/short/evidence-names.test.ts',
]

/** All that is read and not run; with `sources`, what the compiler and the linter read. */
async function check([only]) {
  const code = await checkSources()
  if (only === 'sources') return code
  await build()
  return (await runTests(['--tags-filter=!thorough', ...OF_TEXT], {})) || code
}

const COMMANDS = {
  async start(args) {
    await build()
    return run(join(DIST, 'perdure.js'), ['demo', ...args])
  },
  /** The quick suite; of everything, where arguments choose files or tests. */
  async test(args) {
    await build()
    return runTests(args, { PERDURE_TESTS: choosesTests(args) ? '' : 'quick' })
  },
  async 'test:thorough'(args) {
    await build()
    return runTests(args, { PERDURE_TESTS: '' })
  },
  async 'test:interop'(args) {
    await build()
    place(await bundleForNode({ interop: 'test/interop/rig.ts' }))
    return run(join(DIST, 'interop.js'), args)
  },
  async build() {
    await build()
    rmSync(join(DIST, 'types'), { recursive: true, force: true })
    const code = await run(command('typescript', 'tsc'), ['-p', join(ROOT, 'tsconfig.types.json')])
    return code || placeManual()
  },
  /** The package of Debian with the command. Its path alone goes to stdout. */
  async package(args) {
    const code = await COMMANDS.build()
    if (code !== 0) return code
    place(await bundleForNode({ package: 'host-driver/command/package/main.ts' }))
    return run(join(DIST, 'package.js'), args)
  },
  async bench(args) {
    await build()
    place(await bundleForNode({ bench: 'test/bench/bench.ts' }))
    return run(join(DIST, 'bench.js'), args)
  },
  async 'bench:native'(args) {
    await build()
    place(await bundleForNode({ 'bench-native': 'test/bench/native/bench-native.ts' }))
    return run(join(DIST, 'bench-native.js'), args)
  },
  async evidence(args) {
    await build()
    place([await bundleOfConstants({ evidence: 'test/evidence/main.ts' })])
    return run(join(DIST, 'evidence.js'), args)
  },
  async kill(args) {
    await build()
    place(await bundleForNode({ kill: 'test/kill/main.ts' }))
    return run(join(DIST, 'kill.js'), args)
  },
  check,
  /** Writes what sources decide into the pages. */
  async doc() {
    place(await bundleForNode({ doc: 'test/pages/main.ts' }))
    return run(join(DIST, 'doc.js'), [])
  },
  /** How the repository is built up, in figures. */
  async structure(args) {
    const { callsCounted } = await import('./test/structure/counted.mjs')
    const plugins = [callsCounted(ROOT)]
    place(await bundleForNode({ structure: 'test/structure/main.ts' }, { plugins }))
    return run(join(DIST, 'structure.js'), args)
  },
  /** The virtual machine, and before it what it runs. Its address alone goes to stdout. */
  async 'board:qemu'(args) {
    await build()
    const entries = {
      'board-linux': 'boards/linux/build.ts',
      'board-qemu': 'host-driver/command/board-qemu/main.ts',
    }
    place(await bundleForNode(entries))
    const arm64 = ['--arch', 'arm64', '--install']
    const isHelp = args.includes('--help') || args.includes('-h')
    if (!isHelp) await placeBoot()
    const code = isHelp ? 0 : await run(join(DIST, 'board-linux.js'), arm64, ['inherit', 2, 2])
    return code === 0 ? run(join(DIST, 'board-qemu.js'), args) : code
  },
  /** A board says itself what it is made of: `boards/NAME/build.ts`. */
  async '--board'([board, ...args]) {
    const at = join(ROOT, 'boards')
    const boards = readdirSync(at).filter((name) => existsSync(join(at, name, 'build.ts')))
    if (!boards.includes(board)) {
      throw new Stop(`--board takes one of: ${boards.join(', ')}.`)
    }
    await build()
    await placeBoot()
    place(await bundleForNode({ [`board-${board}`]: `boards/${board}/build.ts` }))
    return run(join(DIST, `board-${board}.js`), args)
  },
}

async function main([name = 'build', ...args]) {
  if (!Object.hasOwn(COMMANDS, name)) {
    throw new Stop(`Unknown command ${name}: ${Object.keys(COMMANDS).join(', ')}.`)
  }
  setUp()
  return COMMANDS[name](args)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    process.exitCode = await main(process.argv.slice(2))
  } catch (error) {
    if (!(error instanceof Stop)) throw error
    process.stderr.write(`perdure: ${error.message}\n`)
    process.exitCode = 1
  }
}
