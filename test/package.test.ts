/**
 * The cards' Debian packages and the bf.cfg that brings them: what is in them, that dpkg takes
 * them, that a damaged one is not installed, and that what they hold boots.
 *
 * No card is in sight: dpkg works in a folder, the installer is a stand-in, the machine is QEMU's.
 */

import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, describe, expect, test } from 'vitest'
import { bfCfg } from '../boards/bluefield/bf-cfg.ts'
import { BLUEFIELD2, BLUEFIELD3 } from '../boards/bluefield/cards.ts'
import {
  type Card,
  type PackageParts,
  packageContents,
  packageName,
} from '../boards/debian/card-package.ts'
import { writePackage } from '../boards/debian/package.ts'
import { isThere, Missing, run } from '../boards/debian/programs.ts'
import { readSettings } from '../boards/linux/boot/script/settings.ts'
import { linuxCard } from '../boards/linux/package.ts'
import type { CpuName } from '../boards/qemu-virt/configuration.ts'
import { prepareImage, RUNTIME, whyNot } from '../boards/qemu-virt/image.ts'
import { VirtualMachine } from '../boards/qemu-virt/machine.ts'
import { connect } from '../host-driver/index.ts'
import { signedBundle } from './support/board/bundle.ts'
import { debianRoot } from './support/board/debian-root.ts'
import { PATIENT, PATIENT_MACHINE } from './support/patience.ts'
import { ROOT } from './support/sources.ts'
import { THOROUGH } from './support/thorough.ts'

const folder = mkdtempSync(join(tmpdir(), 'perdure-package-test-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

let folders = 0
function fresh(): string {
  const path = join(folder, String(folders++))
  mkdirSync(path)
  return path
}

const VERSION = '1.2.3'

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
    ...{ trust: part('trust'), version: VERSION, licence: join(ROOT, 'LICENSE') },
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
  return text.replace('packet:p0', 'packet:eth0').replace('# clean =', 'clean =')
}

/** A machine with a small Debian, in which dpkg has installed the card's package. */
async function debianWith(card: Card, cpu: CpuName): Promise<VirtualMachine> {
  const at = fresh()
  const parts = { ...standIns(card), ...RUNTIME, ...signedBundle(fresh()) }
  const more = debianRoot(at, packed(card, parts), configurationFor(card))
  const image = { ...prepareImage(() => {}), more }
  const memory = join(at, 'part')
  return await VirtualMachine.open({ ...PATIENT_MACHINE, image, memory, cpu, bytes: 2 ** 24 })
}

describe.skipIf(missing !== null || !dpkg || !isThere('apt-get'))(where, () => {
  test.for(PROCESSORS)(
    'dpkg installs the package of $name, systemd runs it',
    THOROUGH,
    async ([card, cpu], { skip }) => {
      const machine = await debianWith(card, cpu).catch((error: unknown) => {
        // What no mirror gives cannot be tried.
        if (error instanceof Missing) return skip(error.message)
        throw error
      })
      const shell = async (line: string): Promise<number> => {
        return ((await machine.command(line)) as { exit: number }).exit
      }
      const first = Buffer.from('from the package')
      try {
        await machine.start()
        let dpu = await connect(machine.target, PATIENT)
        await dpu.format()
        const region = await dpu.provision({ name: 'r', slots: 1, capacity: 64 })
        await region.persist(0, first).persisted
        await dpu.close()
        expect(machine.story).toMatch(`Setting up perdured-${card.name} (${VERSION})`)
        const about = '/proc/$(systemctl show -P MainPID perdured)/status'
        expect(await shell(`grep -q '^Uid:.65534.65534.65534' ${about}`)).toBe(0)
        expect(await shell(`grep -q '^CapEff:.0000000000000000' ${about}`)).toBe(0)

        // It is killed as a kernel short of memory kills, and comes back with what it had.
        expect(await shell('systemctl kill -s KILL perdured')).toBe(0)
        const again = 'test "$(systemctl show -P NRestarts perdured)" = 1'
        while ((await shell(`${again} && systemctl is-active -q perdured`)) !== 0) await delay(200)
        dpu = await connect(machine.target, PATIENT)
        expect(Buffer.from((await (await dpu.openRegion('r')).read(0)).data)).toEqual(first)
        expect((await dpu.status()).incarnation).toBe(2)
        await dpu.close()

        expect(await shell(`dpkg -r perdured-${card.name}`)).toBe(0)
        expect(await shell('systemctl is-active -q perdured')).not.toBe(0)
        expect(await shell('test -e /usr/sbin/perdured')).toBe(1)
      } catch (error) {
        throw new Error(machine.story, { cause: error })
      } finally {
        await machine.close()
      }
    },
  )
})
