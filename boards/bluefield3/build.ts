/** `node build.mjs --board bluefield3` */

import { buildCard } from '../tools/bluefield/build-card.ts'
import { BLUEFIELD3 } from '../tools/bluefield/cards.ts'

buildCard(BLUEFIELD3)
