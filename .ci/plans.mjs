/**
 * What the gate and the thorough run play.
 *
 * A plan is a list of groups, which are played one after the other. A group has lanes, which are
 * played beside each other; a lane has steps. The cheapest stands first.
 *
 * Invariants of the gate: it plays the same tests with the same seeds every time; nothing in
 * it depends on how fast the machine is; what cannot be downloaded is not run, and not red.
 */

/** Debian packages: of captures, native runtime, raw link, Linux clients, completion. */
const PACKAGES = [
  ...['tshark', 'gcc', 'libc6-dev', 'libsodium-dev', 'libbrotli-dev', 'cppcheck', 'xz-utils'],
  ...['zstd', 'iproute2', 'qemu-system-x86', 'zsh', 'fish'],
]
/** Beside these, of the arm64 virtual machine. */
const PACKAGES_OF_ARM64 = [
  ...['gcc-aarch64-linux-gnu', 'libc6-dev-arm64-cross', 'qemu-system-arm'],
  ...['device-tree-compiler', 'cpio', 'qemu-user-static'],
]
/** Beside these, of pages in a browser, of metrics, and of what is packed. */
const PACKAGES_TO_LOOK = ['chromium', 'prometheus', 'groff', 'man-db', 'mandoc', 'lintian']

const npm = (script, ...args) => [
  ...['npm', 'run', '--silent', script],
  ...(args.length > 0 ? ['--', ...args] : []),
]
const packages = (...names) => ({
  name: 'packages',
  command: ['bash', '.ci/packages', ...names],
})
const board = (name, ...flavour) => ({
  name,
  command: ['node', 'build.mjs', '--board', 'linux', ...flavour],
  stops: true,
})

const BUILD = { name: 'build', command: npm('build'), stops: true }
const CHECK = { name: 'check', command: npm('check'), stops: true }
const INTEROP = {
  name: 'interop',
  command: npm('test:interop'),
  environment: { SEED: '1' },
  tells: /FAILED|^test:interop|SEED/,
}
const OF_EVIDENCE = /VIOLATION|NOT REACHED|--replay|asked|seed/

/** Node beside the oldest that is supported, which plays all the rest: the newest of each line. */
const OTHER_NODES = ['22.23.5', '24.22.3', '26.12.1']
/** What a Node of another version could break: all that runs in the user's own. */
const OF_NODE = ['test/driver', 'test/command', 'test/boards/emulator', 'test/boards/flash']
/** Of it the driver, the command, the emulator and the package, each in some seconds. */
const OF_NODE_SHORT = [
  'test/driver/records/driver.test.ts',
  'test/command/cli.test.ts',
  'test/boards/emulator/run/engines.test.ts',
  'test/product/package-alone.test.ts',
]
const otherNode = (version, ...tests) => ({
  name: `node-${version.split('.')[0]}`,
  command: ['bash', '.ci/other-node', version, ...tests],
})

/** The seed with which the short evidence reaches what it is asked. */
const CUT = ['--cut', '--seed', '20266']
/** The suite has a test of the stage of failures; the others say how large the product is. */
const CUT_STAGES = 'crash,images,wide,host,model,simulate,attack,quickjs,fuzz'

const GATE = [
  [[packages(...PACKAGES), BUILD]],
  // One core compiles the board; what needs no board has the other.
  [
    [
      board('board'),
      { name: 'kills', command: npm('kill', '--board', 'linux', '--kills', '60', '--seed', '1') },
    ],
    [
      CHECK,
      otherNode(OTHER_NODES.at(-1), ...OF_NODE_SHORT),
      // A gate that does not see that a fence is left out sees nothing.
      { name: 'canary', command: npm('evidence', '--replay', 'mutants', 'f1-dropped') },
      {
        name: 'evidence',
        command: npm('evidence', ...CUT, '--workers', '1', '--stage', CUT_STAGES),
        tells: OF_EVIDENCE,
        reaches: true,
      },
    ],
  ],
  // The clients wait for another machine half of the time.
  [
    [INTEROP],
    [
      {
        name: 'suite',
        command: ['npm', 'test'],
        environment: { PERDURE_BOARDS: 'emulator,linux' },
      },
    ],
  ],
]

const THOROUGH = [
  [[packages(...PACKAGES, ...PACKAGES_OF_ARM64, ...PACKAGES_TO_LOOK), BUILD]],
  [
    [board('board-arm64', '--arch', 'arm64'), board('board-losing', '--drop-flush')],
    [CHECK, board('board'), board('board-sanitize', '--sanitize')],
  ],
  [
    [
      {
        name: 'suite',
        command: npm('test:thorough'),
        environment: { PERDURE_PICTURES: 'perdure-evidence/pictures' },
      },
    ],
  ],
  [OTHER_NODES.map((version) => otherNode(version, ...OF_NODE))],
  // The kills and the clients wait for other machines half of the time.
  [
    [
      { name: 'kills', command: npm('kill', '--board', 'linux') },
      { name: 'kills-losing', command: npm('kill', '--drop-flush', '--kills', '20') },
      { name: 'kills-arm64', command: npm('kill', '--board', 'qemu-virt') },
      { ...INTEROP, environment: {} },
    ],
    [{ name: 'evidence', command: npm('evidence'), tells: OF_EVIDENCE, reaches: true }],
  ],
]

/**
 * A run ends after so many seconds, with its table, whatever is not played yet: where it runs for
 * others it would be ended without a word at 5,400.
 */
export const SECONDS_MAX = { gate: 4800, thorough: 4 * 3600 }

export const PLANS = { gate: GATE, thorough: THOROUGH }
