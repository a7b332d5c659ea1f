/** `node build.mjs --board bluefield2` */

import { buildCard } from '../bluefield/build-card.ts'
import { BLUEFIELD2 } from '../bluefield/cards.ts'

buildCard(BLUEFIELD2)
