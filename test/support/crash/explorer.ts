/**
 * Every crash of a scenario, in the files of `crash/`, by one name: the explorer, the actor that
 * plays clients, what is explored and found, damage on purpose, boots, parts made by hand.
 */

export * from './actor.ts'
export * from './booth.ts'
export { type Damage, TABLE_DAMAGES, type TableDamage } from './damage.ts'
export { explore } from './explore.ts'
export * from './media.ts'
export { PART_BYTES, SEED } from './part.ts'
export * from './scenario.ts'
