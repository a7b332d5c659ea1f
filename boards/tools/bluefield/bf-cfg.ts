/**
 * `bf.cfg`: what the installer of a BlueField's operating system reads, with the package inside.
 *
 *     host: bfb-install --rshim rshim0 --bfb IMAGE.bfb --config bf.cfg
 *     card: writes the system to /mnt, calls `bfb_modify_os` of bf.cfg, and starts it
 *
 * Invariants:
 * - Nothing is fetched: package and configuration are in the file, as base64.
 * - A package that arrived otherwise than it was sent is not installed, and the log says so. The
 *   installation of the system goes on in any case.
 * - The service is enabled only where a configuration came along.
 */

import { createHash } from 'node:crypto'

/** Characters of base64 a line. */
const COLUMNS = 76

function base64Lines(bytes: Uint8Array): string {
  const text = Buffer.from(bytes).toString('base64')
  return text.replace(new RegExp(`.{1,${COLUMNS}}`, 'g'), '$&\n')
}

function hereFile(variable: string, bytes: Uint8Array): string {
  return `  base64 -d > "$${variable}" << 'PERDURE'\n${base64Lines(bytes)}PERDURE\n`
}

const SAY = `perdure_say()
{
  if declare -F log > /dev/null; then log "$*"; else echo "$*"; fi
}
`

/** The configuration and the link that systemd starts the service by. */
function configured(configuration: Uint8Array | null): string {
  if (configuration === null) {
    return `  perdure_say "INFO: perdured is installed; its service waits for a configuration"
`
  }
  return `  local configuration="$root/etc/perdure/perdured.conf"
${hereFile('configuration', configuration)}  chroot "$root" systemctl enable perdured.service
  perdure_say "INFO: perdured is installed and enabled"
`
}

/**
 * The file. `packed` is the package, `name` its file's; `configuration` is perdured.conf, or null
 * for a service that is not enabled.
 */
export function bfCfg(name: string, packed: Uint8Array, configuration: Uint8Array | null): string {
  const hash = createHash('sha256').update(packed).digest('hex')
  return `# Installs perdured while the operating system of a BlueField is installed. Give it to
# bfb-install as --config, alone or behind what you have; if that has a bfb_modify_os of its own,
# call perdure_install from there.

${SAY}
perdure_install()
{
  local root="\${PERDURE_ROOT:-/mnt}"
  local package="$root/var/cache/${name}"
  if [ ! -x "$root/usr/bin/dpkg" ]; then
    perdure_say "ERR perdured: this system has no dpkg"
    return 0
  fi
  mkdir -p "$root/var/cache"
${hereFile('package', packed)}  local sum="${hash}"
  if ! echo "$sum  $package" | sha256sum -c - > /dev/null 2>&1; then
    perdure_say "ERR perdured: the package came damaged, it is not installed"
    rm -f "$package"
    return 0
  fi
  if ! chroot "$root" dpkg -i "/var/cache/${name}"; then
    perdure_say "ERR perdured: dpkg refused the package"
    return 0
  fi
  rm -f "$package"
${configured(configuration)}}

bfb_modify_os()
{
  perdure_install
}
`
}
