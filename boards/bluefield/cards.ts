/** The cards that there are packages for. */

import type { Card } from './package.ts'

export const BLUEFIELD2: Card = { name: 'bluefield2', title: 'NVIDIA BlueField-2' }
export const BLUEFIELD3: Card = { name: 'bluefield3', title: 'NVIDIA BlueField-3' }
