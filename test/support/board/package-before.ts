/**
 * The package of a card as it was before there was `perdure-boot`: perdured is the main process of
 * the unit, and an upgrade starts nothing again.
 */

import type { PackageContents } from '../../../boards/tools/debian/package.ts'

const UNIT = `[Unit]
Description=Perdure: crash-atomic remote persistent memory
After=local-fs.target network-online.target
Wants=network-online.target

[Service]
Type=notify
NotifyAccess=main
ExecStart=/usr/sbin/perdured --config /etc/perdure/perdured.conf
TimeoutStartSec=infinity
TimeoutStopSec=10
WatchdogSec=120
Restart=on-failure
RestartSec=1
RestartPreventExitStatus=64 65 66 77 78
RuntimeDirectory=perdure
UMask=0077
StateDirectory=perdure

CapabilityBoundingSet=CAP_NET_RAW CAP_NET_ADMIN CAP_SETUID CAP_SETGID
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_PACKET AF_NETLINK
RestrictNamespaces=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native

[Install]
WantedBy=multi-user.target
`

const AFTER_INSTALLING = `#!/bin/sh
set -e
if [ "$1" = configure ] && [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
`

/** The same card's package of then, with the programs of now. */
export function contentsBefore({ control, files, scripts }: PackageContents): PackageContents {
  const was = files.filter(({ path }) => !/\/(perdure-boot|boot\.conf)$/.test(path))
  return {
    control,
    files: was.map((file) => (file.path.endsWith('.service') ? { ...file, content: UNIT } : file)),
    scripts: { ...scripts, postinst: AFTER_INSTALLING },
  }
}
