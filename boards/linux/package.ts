/** The package for any machine with Linux: the board is named by its processor. */

import type { Card } from '../debian/card-package.ts'
import type { Architecture } from './toolchain.ts'

export function linuxCard(architecture: Architecture): Card {
  return {
    name: 'linux',
    title: 'Linux',
    architecture: architecture === 'arm64' ? 'arm64' : 'amd64',
    board: `linux-${architecture}`,
  }
}
