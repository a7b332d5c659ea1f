/**
 * The cards' Debian packages and the bf.cfg that brings them: what is in them, that dpkg takes
 * them, that a damaged one is not installed, and that what they hold boots.
 *
 * No card is in sight: dpkg works in a folder, the installer is a stand-in, the machine is QEMU's.
 */

import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { readSettings } from '../../../boards/linux/boot/script/settings.ts'
import { runtimeManual } from '../../../boards/linux/manual.ts'
import { linuxCard, packCard } from '../../../boards/linux/package.ts'
import { hostArchitecture } from '../../../boards/linux/toolchain.ts'
import type { CpuName } from '../../../boards/qemu-virt/configuration.ts'
import { prepareImage, RUNTIME, whyNot } from '../../../boards/qemu-virt/image.ts'
import { VirtualMachine } from '../../../boards/qemu-virt/machine.ts'
import { bfCfg } from '../../../boards/tools/bluefield/bf-cfg.ts'
import { BLUEFIELD2, BLUEFIELD3 } from '../../../boards/tools/bluefield/cards.ts'
import {
  type Card,
  type PackageParts,
  packageContents,
  packageName,
} from '../../../boards/tools/debian/card-package.ts'
import { writePackage } from '../../../boards/tools/debian/package.ts'
import { isThere, Missing, run } from '../../../boards/tools/debian/programs.ts'
import { manualFiles } from '../../../boards/tools/manual/papers.ts'
import { signedBundle } from '../../support/board/bundle.ts'
import { DebianMachine } from '../../support/board/debian-machine.ts'
import { type DebianOptions, debianRoot } from '../../support/board/debian-root.ts'
import { contentsBefore } from '../../support/board/package-before.ts'
import { OWN_ARCHITECTURE, perduredPath } from '../../support/board/perdured.ts'
import { runIn } from '../../support/command/command.ts'
import { PATIENT_MACHINE } from '../../support/run/patience.ts'
import { THOROUGH } from '../../support/run/thorough.ts'
import { ROOT } from '../../support/source/sources.ts'

const folder = mkdtempSync(join(tmpdir(), 'perdure-package-test-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

let folders = 0
function fresh(): string {
  const path = join(folder, String(folders++))
  mkdirSync(path)
  return path
}

const VERSION = '1.2.3'

/** What this looks at of a bill of materials (CycloneDX 1.6). */
interface Bill {
  readonly serialNumber: string
  readonly components: readonly {
    readonly name: string
    readonly version: string
    readonly purl?: string
    readonly hashes?: readonly { readonly content: string }[]
  }[]
}

function sha256(path: string): string {
  return createHash('sha256').update(readFileSync(path)).digest('hex')
}

/** Parts that take no compiler: small files that say what they are. */
function standIns(card: Card): PackageParts {
  const at = fresh()
  const part = (name: string): string => {
    writeFileSync(join(at, name), `${name} of ${card.name}\n`)
    return join(at, name)
  }
  return {
    ...{ supervisor: part('perdure-boot'), perdured: part('perdured') },
    ...{ firmware: part('firmware'), signature: part('signature') },
    ...{ trust: part('trust'), version: VERSION },
    bill: '{}\n',
    papers: manualFiles(runtimeManual(VERSION)),
    unit: join(ROOT, 'boards/linux/perdured.service'),
    board: join(ROOT, 'boards', card.name),
  }
}

/** Writes the card's package into a folder of its own. */
function packed(card: Card, parts = standIns(card)): string {
  const out = join(fresh(), packageName(card, parts.version))
  writePackage(out, packageContents(card, parts))
  return out
}

/** A root that dpkg can install into. */
function emptyRoot(): string {
  const root = fresh()
  for (const name of ['info', 'updates', 'triggers']) {
    mkdirSync(join(root, 'var/lib/dpkg', name), { recursive: true })
  }
  writeFileSync(join(root, 'var/lib/dpkg/status'), '')
  return root
}

const DPKG = ['--force-script-chrootless', '--force-architecture', '--force-confold']

const dpkg = isThere('dpkg-deb')
const root = dpkg && isThere('dpkg') && process.getuid?.() === 0

const LINUX = [linuxCard('x86-64'), linuxCard('arm64')]

describe.skipIf(!dpkg).each([BLUEFIELD2, BLUEFIELD3, ...LINUX])(
  'the package of $board (needs dpkg-deb)',
  (card) => {
    test('is for its processor, belongs to root, and is the same every time', () => {
      const one = packed(card)
      expect(readFileSync(one).equals(readFileSync(packed(card)))).toBe(true)
      const field = (name: string): string => run('dpkg-deb', ['-f', one, name]).toString().trim()
      expect(field('Package')).toBe(`perdured-${card.name}`)
      expect(field('Version')).toBe(VERSION)
      expect(field('Architecture')).toBe(card.architecture)
      const lines = run('dpkg-deb', ['-c', one]).toString().trim().split('\n')
      expect(lines.filter((line) => !line.includes(' root/root '))).toEqual([])
      expect(lines.find((line) => line.endsWith('./usr/sbin/perdured'))).toMatch(/^-rwxr-xr-x/)
    })

    test('has everything that the unit and the configuration name', () => {
      const at = fresh()
      run('dpkg-deb', ['-x', packed(card), at])
      const unit = readFileSync(join(at, 'usr/lib/systemd/system/perdured.service'), 'utf8')
      const [, program, configuration] = /^ExecStart=(\S+) --config (\S+)$/m.exec(unit)!
      const settings = readSettings(readFileSync(join(at, configuration!), 'utf8'))
      expect(settings.board).toBe(card.board)
      for (const path of [program!, settings.runtime, settings.configuration, ...settings.trust]) {
        expect(existsSync(join(at, path)), path).toBe(true)
      }
      // A start makes the folders of these: `StateDirectory` and `RuntimeDirectory`.
      expect(settings.slots).toMatch(/^\/var\/lib\/perdure\//)
      expect(settings.smp).toEqual([{ kind: 'unix', path: '/run/perdure/smp' }])
      for (const page of ['man8/perdured.8', 'man8/perdure-boot.8', 'man5/perdured.conf.5']) {
        expect(existsSync(join(at, 'usr/share/man', `${page}.gz`)), page).toBe(true)
      }
      const text = readFileSync(join(at, settings.configuration), 'utf8')
      expect(text).toContain(`console = unix:${settings.console}\n`)
      if (card.name !== 'linux') expect(text).toMatch(`board = ${card.name}`)
      // A way for RDMA, and one that the host-driver speaks.
      const kinds = card.name === 'linux' ? ['udp'] : ['packet', 'udp']
      expect(text.match(/(?<=^link = )\w+/gm)).toEqual(kinds)
      // Nobody but the operator can say that memory without DC CVAP persists.
      expect(text).not.toMatch(/^clean/m)
      for (const path of ['usr/lib/perdure/firmware.js', 'usr/lib/perdure/firmware.js.sig']) {
        expect(existsSync(join(at, path)), path).toBe(true)
      }
    })

    test.skipIf(!root)('dpkg installs it, keeps the configuration, removes it (needs root)', () => {
      const at = emptyRoot()
      const install = (path: string): void => {
        run('dpkg', [`--root=${at}`, ...DPKG, '-i', path])
      }
      install(packed(card))
      const configuration = join(at, 'etc/perdure/perdured.conf')
      writeFileSync(configuration, 'memory = /dev/dax1.0\n')
      install(packed(card, { ...standIns(card), version: '1.2.4' }))
      expect(readFileSync(configuration, 'utf8')).toBe('memory = /dev/dax1.0\n')
      const status = run('dpkg', [`--root=${at}`, '-s', `perdured-${card.name}`]).toString()
      expect(status).toMatch(/^Status: install ok installed$/m)
      expect(status).toMatch(/^Version: 1\.2\.4$/m)
      run('dpkg', [`--root=${at}`, ...DPKG, '-r', `perdured-${card.name}`])
      expect(existsSync(join(at, 'usr/sbin/perdured'))).toBe(false)
      expect(existsSync(configuration)).toBe(true)
    })
  },
)

/** The script behind an installation, with a systemd that answers so; what it said and asked. */
function afterInstalling(
  words: readonly string[],
  systemd: { readonly runs: boolean; readonly starts: boolean },
): { status: number | null; stdout: string; stderr: string; calls: string } {
  const at = fresh()
  const card = linuxCard('x86-64')
  const { postinst } = packageContents(card, standIns(card)).scripts
  // It looks whether systemd runs: here a folder says so.
  writeFileSync(join(at, 'postinst'), postinst!.replace('/run/systemd/system', at))
  const answers = { 'is-active': systemd.runs, restart: systemd.starts }
  const cases = Object.entries(answers).map(([word, yes]) => `${word}) exit ${yes ? 0 : 1} ;;`)
  const stub = `#!/bin/sh\necho "$*" >> ${at}/calls\ncase "$1" in ${cases.join(' ')} esac\n`
  writeFileSync(join(at, 'systemctl'), stub, { mode: 0o755 })
  const env = { PATH: `${at}:${process.env.PATH}` }
  const done = spawnSync('sh', [join(at, 'postinst'), ...words], { encoding: 'utf8', env })
  const { status, stdout, stderr } = done
  const calls = existsSync(join(at, 'calls')) ? readFileSync(join(at, 'calls'), 'utf8') : ''
  return { status, stdout, stderr, calls }
}

describe('what an installation does behind its files', () => {
  const both = { runs: true, starts: true }

  test('an upgrade starts a service again that runs, and says what of it is old', () => {
    const { status, stdout, stderr, calls } = afterInstalling(['configure', '1.2.2'], both)
    expect([status, stderr]).toEqual([0, ''])
    expect(calls).toMatch(/^daemon-reload\nis-active .*\nrestart perdured\.service\n$/)
    expect(stdout).toContain('perdured.service was started again')
    expect(stdout).toContain("'perdure flash' brings the firmware of this version")
  })

  test('one that does not run stays off, and a first installation starts nothing', () => {
    for (const [words, runs] of [
      [['configure', '1.2.2'], false],
      [['configure', ''], true],
    ] as const) {
      const { status, stdout, calls } = afterInstalling(words, { runs, starts: true })
      expect([status, stdout]).toEqual([0, ''])
      expect(calls).not.toContain('restart')
    }
    expect(afterInstalling(['abort-upgrade', '1.2.2'], both).calls).toBe('')
  })

  test('one that does not start again says where to look, and is installed all the same', () => {
    const { status, stderr } = afterInstalling(['configure', '1.2.2'], {
      runs: true,
      starts: false,
    })
    expect(status).toBe(0)
    expect(stderr).toContain("'journalctl -u perdured' says why")
  })
})

/** A word of each notice. */
const HOLDERS: Readonly<Record<string, string>> = {
  quickjs: 'Fabrice Bellard',
  'libsodium-dev': 'Frank Denis',
  'libbrotli-dev': 'Brotli',
  'libc6-dev': 'Free Software Foundation',
}

const builtHere = existsSync(RUNTIME.signature) && existsSync(perduredPath(OWN_ARCHITECTURE, ''))

test.skipIf(!dpkg || !builtHere)(
  'a package of what is built has the version of this repository (needs a build for Linux)',
  () => {
    const card = linuxCard(hostArchitecture())
    const { supervisor, perdured, trust } = standIns(card)
    const at = fresh()
    const path = packCard(card, { supervisor, perdured, trust }, at)
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
      version: string
    }
    expect(path).toBe(join(at, `perdured-linux_${version}_${card.architecture}.deb`))
    run('dpkg-deb', ['-x', path, at])
    const signature = readFileSync(join(at, 'usr/lib/perdure/firmware.js.sig'))
    expect(signature.length).toBe(64)
    expect(readFileSync(join(at, 'usr/sbin/perdure-boot'), 'utf8')).toContain('of linux')
    const bill = JSON.parse(
      readFileSync(join(at, 'usr/share/doc/perdured-linux/sbom.cdx.json'), 'utf8'),
    ) as Bill
    expect(bill).toMatchObject({ bomFormat: 'CycloneDX', specVersion: '1.6', version: 1 })
    const uuid = /^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
    expect(bill.serialNumber).toMatch(uuid)
    const names = ['perdured', 'perdure-boot', 'firmware.js', 'quickjs']
    const libraries = ['libsodium-dev', 'libbrotli-dev', 'libc6-dev']
    expect(bill.components.map(({ name }) => name).sort()).toEqual([...names, ...libraries].sort())
    const notices = readFileSync(join(at, 'usr/share/doc/perdured-linux/notices'), 'utf8')
    for (const [name, holder] of Object.entries(HOLDERS)) {
      const { version: its } = bill.components.find((one) => one.name === name)!
      const [, text = ''] = notices.split(`${name} ${its}\n===`)
      expect(text.slice(0, 1500)).toContain(holder)
    }
    const firmware = bill.components.find(({ name }) => name === 'firmware.js')!
    expect(firmware.hashes![0]!.content).toBe(sha256(join(at, 'usr/lib/perdure/firmware.js')))
    for (const name of libraries) {
      const { version: its, purl } = bill.components.find((one) => one.name === name)!
      expect(run('dpkg-query', ['-W', name]).toString()).toContain(its)
      expect(purl).toBe(
        `pkg:deb/debian/${name}@${encodeURIComponent(its)}?arch=${card.architecture}`,
      )
    }
  },
)

/** What is said of the package and stays as it is, each with its reason. */
const ARGUED: Readonly<Record<string, string>> = {
  'malformed-contact': 'there is no address of mail that somebody reads',
  'bogus-mail-host-in-debian-changelog': 'likewise',
  'maintainer-script-calls-systemctl': 'only where systemd runs, and never in a chroot',
  'shared-library-lacks-prerequisites': 'the programs are static and position-independent',
}

const noLintian = isThere('lintian') ? '' : " (it is not here: Debian's lintian)"
const supervisorPath = join(perduredPath(OWN_ARCHITECTURE, ''), '../perdure-boot')

test.skipIf(!dpkg || !builtHere || !existsSync(supervisorPath) || noLintian !== '')(
  `lintian finds no error and nothing to warn of${noLintian}`,
  () => {
    const card = linuxCard(hostArchitecture())
    const perdured = perduredPath(OWN_ARCHITECTURE, '')
    const { trust } = standIns(card)
    const path = packCard(card, { supervisor: supervisorPath, perdured, trust }, fresh())
    const words = ['--allow-root', '--tag-display-limit', '0', '--color', 'never', path]
    const { stdout } = spawnSync('lintian', words, { encoding: 'utf8' })
    const tags = [...stdout.matchAll(/^([EW]): \S+: (\S+)/gm)].map(([, , tag]) => tag!)
    expect(
      tags.filter((tag) => !(tag in ARGUED)),
      stdout,
    ).toEqual([])
    expect(tags).toContain('malformed-contact')
  },
)

test.skipIf(!isThere('systemd-analyze'))(
  'systemd finds at most 3.0 that the unit is exposed to (needs systemd-analyze)',
  () => {
    const unit = readFileSync(join(ROOT, 'boards/linux/perdured.service'), 'utf8')
    // The program need not be on this machine.
    const path = join(fresh(), 'perdured.service')
    writeFileSync(path, unit.replace(/^ExecStart=.*$/m, 'ExecStart=/bin/true'))
    const words = ['security', '--offline=true', '--no-pager', '--threshold=30', path]
    const { status, stdout, stderr } = spawnSync('systemd-analyze', words, { encoding: 'utf8' })
    expect(status, stdout.slice(-200) + stderr).toBe(0)
  },
)

/** Runs a bf.cfg as the installer does; what it logged, and what was done inside the new system. */
function installWith(text: string, at: string, hasDpkg = true): { log: string; calls: string[] } {
  if (hasDpkg) {
    mkdirSync(join(at, 'usr/bin'), { recursive: true })
    writeFileSync(join(at, 'usr/bin/dpkg'), '#!/bin/sh\n', { mode: 0o755 })
  }
  mkdirSync(join(at, 'etc/perdure'), { recursive: true })
  const installer = `set -u
log() { echo "log: $*"; }
chroot() { shift; echo "$*" >> "$PERDURE_ROOT/calls"; }
. "$1"
bfb_modify_os
echo "log: went on"`
  const file = join(at, 'bf.cfg')
  writeFileSync(file, text)
  const env = { ...process.env, PERDURE_ROOT: at }
  const done = spawnSync('bash', ['-c', installer, 'installer', file], { env, encoding: 'utf8' })
  expect(done.stderr).toBe('')
  const calls = existsSync(join(at, 'calls')) ? readFileSync(join(at, 'calls'), 'utf8') : ''
  return { log: done.stdout, calls: calls.split('\n').filter((line) => line !== '') }
}

describe.skipIf(!isThere('bash') || !isThere('base64'))('bf.cfg (needs bash and coreutils)', () => {
  const bytes = Buffer.alloc(5000, 'a package ')
  const name = 'perdured-bluefield3_1.2.3_arm64.deb'

  test('installs the package that is inside it, and enables nothing', () => {
    const at = fresh()
    const { log, calls } = installWith(bfCfg(name, bytes, null), at)
    expect(calls).toEqual([`dpkg -i /var/cache/${name}`])
    expect(log).toMatch('waits for a configuration')
    expect(log).toMatch('log: went on')
    // It has been installed: what was fetched for that is gone.
    expect(existsSync(join(at, 'var/cache', name))).toBe(false)
  })

  test('with a configuration it writes that and enables the service', () => {
    const at = fresh()
    const configuration = Buffer.from("memory = /dev/dax0.0 # PERDURE's $HOME `id`\n")
    const { calls } = installWith(bfCfg(name, bytes, configuration), at)
    expect(calls).toEqual([`dpkg -i /var/cache/${name}`, 'systemctl enable perdured.service'])
    expect(readFileSync(join(at, 'etc/perdure/perdured.conf')).equals(configuration)).toBe(true)
  })

  test('what dpkg gets is the package, byte for byte', () => {
    const at = fresh()
    const text = bfCfg(name, bytes, null).replaceAll('rm -f "$package"', ':')
    installWith(text, at)
    expect(readFileSync(join(at, 'var/cache', name)).equals(bytes)).toBe(true)
  })

  test('a package that was damaged on its way is not installed, and the system goes on', () => {
    const text = bfCfg(name, bytes, null)
    const line = /^[A-Za-z0-9+/]{76}$/m.exec(text)![0]
    const at = fresh()
    const { log, calls } = installWith(text.replace(line, `${line.slice(0, 40)}\n`), at)
    expect(calls).toEqual([])
    expect(log).toMatch('came damaged')
    expect(log).toMatch('log: went on')
    expect(existsSync(join(at, 'var/cache', name))).toBe(false)
  })

  test('a system without dpkg is left as it is', () => {
    const { log, calls } = installWith(bfCfg(name, bytes, null), fresh(), false)
    expect(calls).toEqual([])
    expect(log).toMatch('has no dpkg')
  })
})

const missing = whyNot()
const where = missing === null ? 'in the machine' : `in the machine (skipped: ${missing})`
const PROCESSORS = [
  [BLUEFIELD2, 'cortex-a72'],
  [BLUEFIELD3, 'neoverse-n1'],
] as const

/** The card's own configuration, with what the machine has in the place of the card's. */
function configurationFor(card: Card): string {
  const text = readFileSync(join(ROOT, 'boards', card.name, 'perdured.conf'), 'utf8')
  const links = text.replace('packet:p0', 'packet:eth0').replace('192.168.100.2:', '127.0.0.1:')
  return links.replace('# clean =', 'clean =')
}

/** A machine with a small Debian, in which dpkg installs this package. */
async function debianWith(
  card: Card,
  cpu: CpuName,
  options: Omit<DebianOptions, 'configuration'>,
): Promise<DebianMachine> {
  const at = fresh()
  const more = debianRoot(at, { ...options, configuration: configurationFor(card) })
  const image = { ...prepareImage(() => {}), more }
  const memory = join(at, 'part')
  const machine = { ...PATIENT_MACHINE, image, memory, cpu, bytes: 2 ** 24 }
  return new DebianMachine(await VirtualMachine.open(machine))
}

/** Plays it in a machine, and says what the machine said where that fails. */
async function inDebian(
  skip: (note: string) => never,
  made: () => Promise<DebianMachine>,
  play: (debian: DebianMachine) => Promise<void>,
): Promise<void> {
  const debian = await made().catch((error: unknown) => {
    // What no mirror gives cannot be tried.
    if (error instanceof Missing) return skip(error.message)
    throw error
  })
  const { machine } = debian
  try {
    await machine.start()
    await play(debian)
  } catch (error) {
    if (machine.isRunning) await debian.shell('journalctl -u perdured -n 60').catch(() => {})
    throw new Error(machine.story, { cause: error })
  } finally {
    await machine.close()
  }
}

/** The serial line becomes a way of SMP until an image is confirmed, and is the shell's again. */
const LEND = `exec 3<&-
line=/dev/ttyAMA0
stty -g < $line > /run/stty
sed -i 's,^smp = .*,smp = tty:/dev/ttyAMA0,' /etc/perdure/boot.conf
systemctl restart perdured
say lent
until journalctl -u perdured | grep -q confirmed; do sleep 1; done
cp /board/boot.conf /etc/perdure/boot.conf
systemctl restart perdured
stty $(cat /run/stty) < $line
exec 3< $line
say returned
`

/** Flashes an image that this key has signed, over the serial line. */
async function flash(debian: DebianMachine, card: Card, key: string): Promise<void> {
  const at = fresh()
  const words = `image create --board ${card.board} --signing-key ${key} --image-version 2.0.0`
  const made = await runIn(at, [...words.split(' '), '--bundle-only', '--out', 'next.bin'])
  expect(made.code, made.stderr).toBe(0)
  await debian.holds('cp /etc/perdure/boot.conf /board/boot.conf && cp /board/lend /run/then')
  await debian.untilStage('lent')
  debian.machine.dropSerial()
  const port = `unix:${debian.machine.console}`
  const done = await runIn(at, ['flash', 'next.bin', '--port', port, '--timeout', '20000'])
  expect(done.code, done.stderr).toBe(0)
  await debian.untilStage('returned')
}

const hasMachine = missing === null && dpkg && isThere('apt-get')

describe.skipIf(!hasMachine)(where, () => {
  test.for(PROCESSORS)(
    'dpkg installs the package of $name, systemd runs it',
    THOROUGH,
    async ([card, cpu], { skip }) => {
      const signed = signedBundle(fresh())
      const packet = packed(card, { ...standIns(card), ...RUNTIME, ...signed })
      const options = { packed: packet, files: { lend: Buffer.from(LEND) } }
      await inDebian(
        skip,
        () => debianWith(card, cpu, options),
        async (debian) => {
          await debian.keepRecord()
          expect(debian.machine.story).toMatch(`Setting up perdured-${card.name} (${VERSION})`)
          await debian.hasSupervisor()

          // All of it is killed as a kernel short of memory kills; then each alone.
          await debian.holds('systemctl kill -s KILL perdured')
          await debian.untilStarts(1)
          await debian.hasRecord(2)
          await debian.killChild()
          await debian.hasRecord(3)
          await debian.holds('systemctl kill --kill-whom=main -s KILL perdured')
          await debian.untilStarts(2)
          await debian.hasRecord(4)
          await debian.hasSupervisor()

          // It starts where the line is lent, on trial, and where the line is given back.
          await flash(debian, card, signed.key)
          await debian.hasRecord(7)
          await debian.holds(`journalctl -u perdured | grep -q 'started 2.0.0, on trial'`)
          await debian.hasSupervisor()

          await debian.holds(`dpkg -r perdured-${card.name}`)
          expect(await debian.shell('systemctl is-active -q perdured')).not.toBe(0)
          for (const name of ['perdured', 'perdure-boot']) {
            expect(await debian.shell(`test -e /usr/sbin/${name}`)).toBe(1)
          }
        },
      )
    },
  )

  test('an upgrade keeps records and configuration, from before the supervisor, too', {
    ...THOROUGH,
  }, async ({ skip }) => {
    const card = BLUEFIELD3
    const parts = { ...standIns(card), ...RUNTIME, ...signedBundle(fresh()) }
    const before = join(fresh(), 'before.deb')
    writePackage(before, contentsBefore(packageContents(card, { ...parts, version: '1.2.2' })))
    const next = packed(card, parts)
    const last = packed(card, { ...parts, version: '1.2.4' })
    const files = { 'next.deb': readFileSync(next), 'last.deb': readFileSync(last) }
    await inDebian(
      skip,
      () => debianWith(card, 'neoverse-n1', { packed: before, files }),
      async (debian) => {
        const isKept = 'cmp /board/perdured.conf /etc/perdure/perdured.conf'
        await debian.keepRecord()
        await debian.holds(
          'test "$(cat /proc/$(systemctl show -P MainPID perdured)/comm)" = perdured',
        )

        await debian.holds('dpkg -i /board/next.deb')
        expect(debian.machine.story).toMatch('perdured.service was started again')
        await debian.hasRecord(2)
        await debian.hasSupervisor()
        await debian.holds(isKept)

        await debian.holds('echo "# mine" >> /etc/perdure/boot.conf')
        await debian.holds('dpkg -i /board/last.deb')
        expect(debian.machine.story).toMatch(`Setting up perdured-${card.name} (1.2.4)`)
        await debian.hasRecord(3)
        await debian.hasSupervisor()
        await debian.holds(`${isKept} && grep -q mine /etc/perdure/boot.conf`)
        await debian.holds('systemctl is-enabled -q perdured')
      },
    )
  })
})
