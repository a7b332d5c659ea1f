/** The cards that there are packages for. */

import type { Card } from '../debian/card-package.ts'

const architecture = 'arm64'

export const BLUEFIELD2: Card = {
  ...{ name: 'bluefield2', title: 'NVIDIA BlueField-2', architecture, board: 'bluefield2' },
}
export const BLUEFIELD3: Card = {
  ...{ name: 'bluefield3', title: 'NVIDIA BlueField-3', architecture, board: 'bluefield3' },
}
