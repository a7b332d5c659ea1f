/**
 * What hosts do to a card, a little of each, by way of the driver: for a build of perdured that
 * notes what it sees of the firmware. Lengths, forms, levels and identities vary as with hosts that
 * know nothing of one another.
 */

import { Random } from '../../../../boards/emulator/base/random.ts'
import { connect, type Dpu, type Region } from '../../../../host-driver/index.ts'

const FORMS = ['replicated', 'carried', 'addressed'] as const
const LEVELS = ['2of2', '1of2'] as const
const SMALL = { name: 'small', slots: 64, capacity: 64 }
const LARGE = { name: 'large', slots: 16, capacity: 9000 }

function bytesOf(random: Random, most: number): Buffer {
  return Buffer.alloc(1 + random.below(most), random.below(256))
}

/** Records one by one, and many under way. */
async function persistAndRead(region: Region, random: Random): Promise<void> {
  for (let i = 0; i < 64; i++) {
    const slot = random.below(region.slots)
    await region.persist(slot, bytesOf(random, region.capacity)).persisted
    await region.read(slot)
  }
  const writes = Array.from({ length: 192 }, (_, i) =>
    region.persist(i % region.slots, bytesOf(random, region.capacity), {
      form: FORMS[random.below(FORMS.length)]!,
      durability: LEVELS[random.below(LEVELS.length)]!,
    }),
  )
  for (const { persisted } of writes) await persisted
}

/** Writes that ask for nothing, and batches. */
async function writeAndBatch(region: Region, random: Random): Promise<void> {
  for (let i = 0; i < 16; i++) await region.write(i, bytesOf(random, region.capacity))
  for (const condition of ['independent', 'inOrder'] as const) {
    const batch = region.batch({ condition })
    for (let slot = 0; slot < 16; slot++) batch.persist(slot, bytesOf(random, region.capacity))
    await batch.commit()
  }
}

async function useAs(address: string, random: Random, first: boolean): Promise<void> {
  const dpu: Dpu = await connect(address)
  await dpu.onHealth(() => {})
  for (const request of [SMALL, LARGE]) {
    const region = first ? await dpu.provision(request) : await dpu.openRegion(request.name)
    await persistAndRead(region, random)
    await writeAndBatch(region, random)
  }
  await dpu.status()
  await dpu.counters()
  await dpu.close()
}

/** Uses the card at that UDP port as three hosts do, one after another. */
export async function useCard(port: number, seed: number): Promise<void> {
  const random = new Random(seed)
  for (const host of [0, 1, 2]) await useAs(`perdure://127.0.0.1:${port}`, random, host === 0)
}
