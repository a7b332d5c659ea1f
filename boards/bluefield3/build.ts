/** `node build.mjs --board bluefield3` */

import { buildCard } from '../bluefield/build-card.ts'
import { BLUEFIELD3 } from '../bluefield/cards.ts'

buildCard(BLUEFIELD3)
