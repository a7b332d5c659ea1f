/**
 * The manual of the runtime: perdured(8), perdured.conf(5), perdure-boot(8), perdure-boot.conf(5).
 *
 * Invariant: keys, commands and exit codes are those of the pages beside this file, which sources
 * decide; options of the command line are here, and a test holds them to what the programs take
 * (test/boards/linux/shipped/linux-manual.test.ts).
 */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { below, blocksOfPage } from '../tools/manual/markdown.ts'
import { type Block, type ManualFile, manualPage, type Section } from '../tools/manual/roff.ts'
import { ROOT } from './engine.ts'

const page = (path: string): string => readFileSync(join(ROOT, 'boards/linux', path), 'utf8')

/** The blocks up to the first table, that table, and what stands behind it. */
function around(blocks: readonly Block[]): [before: Block[], table: Block, after: Block[]] {
  const at = blocks.findIndex((block) => 'rows' in block)
  return [blocks.slice(0, at), blocks[at]!, blocks.slice(at + 1)]
}

const SERVICE = [
  ['/usr/lib/systemd/system/perdured.service', 'the unit of systemd, which starts perdure-boot'],
  ['/run/perdure/console', 'the console: `perdure console unix:/run/perdure/console status`'],
] as const

const OPTIONS = [
  ['--config <FILE>', 'the configuration: perdured.conf(5)'],
  ['--firmware <FILE>', 'the bundle, in place of the key `firmware`; with --signature'],
  ['--signature <FILE>', 'its signature, in place of the key `signature`'],
  ['--trust <KEY>', 'who may sign it, in place of the key `trust`'],
  ['--check', 'verify configuration, bundle, key, peers and memory, say what they are'],
  ['--json', 'say where it serves as a JSON object'],
  ['--version', 'say which release this is'],
  ['--help', 'say how it is called, with every key of the configuration'],
] as const

const BOOT_OPTIONS = [
  ['--config <FILE>', 'the configuration: perdure-boot.conf(5)'],
  ['--notify <PATH>', 'where perdured says how it is; /run/perdure/notify by default'],
  ['--version', 'say which release this is'],
] as const

const ENVIRONMENT = [
  ['NOTIFY_SOCKET', 'where a service manager hears that it serves: sd_notify(3)'],
  ['WATCHDOG_USEC, WATCHDOG_PID', 'how often, and which process, the manager watches'],
  ['PERDURE_ON_TRIAL', '1 from perdure-boot(8): clients are told of a trial, until SIGURG ends it'],
] as const

const DESCRIPTION: readonly Block[] = [
  {
    paragraph:
      'The firmware of Perdure on Linux, without Node: records of persistent memory, ' +
      'crash-atomic, for clients that speak RoCEv2. It reads bundle, signature and trusted ' +
      'key, verifies, and only then evaluates the very bytes that it verified. The first ' +
      'lines of standard output say where it serves, a line for each link.',
  },
  {
    paragraph:
      'Where perdure-boot(8) starts it, as the service of the package does, it takes new ' +
      'firmware too, by `perdure flash`.',
  },
]

function perdured(version: string): ManualFile {
  const readme = page('README.md')
  const sections: Section[] = [
    {
      title: 'SYNOPSIS',
      blocks: [
        {
          usage: [
            ['perdured --config', '<FILE> [--firmware <FILE> --signature <FILE>] [--trust <KEY>]'],
            ['perdured --config', '<FILE> --check'],
            ['perdured --version', ''],
          ],
        },
      ],
    },
    {
      title: 'DESCRIPTION',
      blocks: DESCRIPTION,
    },
    {
      title: 'OPTIONS',
      blocks: [
        {
          rows: OPTIONS,
        },
      ],
    },
    { title: 'CONSOLE', blocks: blocksOfPage(below(readme, 'The console')) },
    {
      title: 'SIGNALS',
      blocks: [
        {
          paragraph:
            'SIGTERM and SIGINT end it between two bursts. A SIGKILL at any instant loses ' +
            'nothing that was acknowledged.',
        },
      ],
    },
    { title: 'EXIT STATUS', blocks: blocksOfPage(below(readme, 'Exit codes')) },
    {
      title: 'ENVIRONMENT',
      blocks: [
        {
          rows: ENVIRONMENT,
        },
      ],
    },
    {
      title: 'FILES',
      blocks: [{ rows: [['/etc/perdure/perdured.conf', 'the configuration'], ...SERVICE] }],
    },
    {
      title: 'EXAMPLES',
      blocks: [
        { paragraph: 'What the configuration of the package comes to:' },
        { example: ['perdured --config /etc/perdure/perdured.conf --check'] },
      ],
    },
    {
      title: 'SEE ALSO',
      blocks: [{ paragraph: 'perdured.conf(5), perdure-boot(8), perdure(1)' }],
    },
  ]
  const about = 'the firmware of Perdure on Linux'
  const head = { name: 'perdured', section: 8, about, version } as const
  return { name: 'perdured.8', text: manualPage(head, sections) }
}

function perduredConf(version: string): ManualFile {
  const [before, keys, after] = around(blocksOfPage(page('doc/configuration.md')))
  const sections: Section[] = [
    { title: 'DESCRIPTION', blocks: before },
    { title: 'KEYS', blocks: [keys] },
    { title: 'NOTES', blocks: after },
    {
      title: 'EXAMPLES',
      blocks: [
        { paragraph: 'For trying it out, with a part that is a plain file:' },
        {
          example: [
            'memory = /var/lib/perdure/part',
            'memory-bytes = 64M',
            'memory-create = yes',
            'development = yes',
            'link = udp:127.0.0.1:4791',
            'console = unix:/run/perdure/console',
            'user = nobody',
          ],
        },
      ],
    },
    { title: 'SEE ALSO', blocks: [{ paragraph: 'perdured(8), perdure-boot.conf(5)' }] },
  ]
  const about = 'configuration of perdured'
  const head = { name: 'perdured.conf', section: 5, about, version } as const
  return { name: 'perdured.conf.5', text: manualPage(head, sections) }
}

/** What perdure-boot.md has in front of its trials: the program, its keys, and what they mean. */
function ofBoot(): [before: Block[], keys: Block, after: Block[]] {
  return around(blocksOfPage(page('doc/perdure-boot.md').split('\n## ')[0]!))
}

function boot(version: string): ManualFile {
  const trial = blocksOfPage(below(page('doc/perdure-boot.md'), 'A trial'))
  const codes = trial.findIndex((block) => 'rows' in block)
  const [before] = ofBoot()
  const sections: Section[] = [
    {
      title: 'SYNOPSIS',
      blocks: [
        {
          usage: [
            ['perdure-boot --config', '<FILE> [--notify <PATH>]'],
            ['perdure-boot --version', ''],
          ],
        },
      ],
    },
    { title: 'DESCRIPTION', blocks: before.filter((block) => !('example' in block)) },
    { title: 'OPTIONS', blocks: [{ rows: BOOT_OPTIONS }] },
    { title: 'TRIALS', blocks: trial.slice(0, codes) },
    { title: 'EXIT STATUS', blocks: trial.slice(codes) },
    {
      title: 'FILES',
      blocks: [
        {
          rows: [
            ['/etc/perdure/boot.conf', 'the configuration'],
            ['/var/lib/perdure/slots', 'the slots of firmware'],
            ['/run/perdure/smp', 'where it is flashed: `perdure flash list --port unix:PATH`'],
            ...SERVICE,
          ],
        },
      ],
    },
    {
      title: 'SEE ALSO',
      blocks: [{ paragraph: 'perdure-boot.conf(5), perdured(8), perdure-flash(1)' }],
    },
  ]
  const about = 'starts and watches perdured, and takes new firmware'
  const head = { name: 'perdure-boot', section: 8, about, version } as const
  return { name: 'perdure-boot.8', text: manualPage(head, sections) }
}

function bootConf(version: string): ManualFile {
  const [, keys, after] = ofBoot()
  const sections: Section[] = [
    {
      title: 'DESCRIPTION',
      blocks: [
        {
          paragraph:
            'Lines of `key = value`; `#` begins a comment. An unknown key, a key too often or a ' +
            'value that cannot be is refused, naming the line and what is allowed. The package ' +
            'has the file as /etc/perdure/boot.conf.',
        },
      ],
    },
    { title: 'KEYS', blocks: [keys] },
    { title: 'NOTES', blocks: after },
    { title: 'SEE ALSO', blocks: [{ paragraph: 'perdure-boot(8), perdured.conf(5)' }] },
  ]
  const about = 'configuration of perdure-boot'
  const head = { name: 'perdure-boot.conf', section: 5, about, version } as const
  return { name: 'perdure-boot.conf.5', text: manualPage(head, sections) }
}

/** Every page of the runtime's manual. */
export function runtimeManual(version: string): ManualFile[] {
  return [perdured(version), perduredConf(version), boot(version), bootConf(version)]
}
