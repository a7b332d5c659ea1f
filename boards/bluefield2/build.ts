/** `node build.mjs --board bluefield2` */

import { buildCard } from '../tools/bluefield/build-card.ts'
import { BLUEFIELD2 } from '../tools/bluefield/cards.ts'

buildCard(BLUEFIELD2)
