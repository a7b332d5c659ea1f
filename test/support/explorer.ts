/**
 * Every crash of a scenario, in the files of `crash/`, by one name: the explorer, the actor that
 * plays clients, what is explored and found, damage on purpose, boots, parts made by hand.
 */

export * from './crash/actor.ts'
export * from './crash/booth.ts'
export { type Damage, TABLE_DAMAGES, type TableDamage } from './crash/damage.ts'
export { explore } from './crash/explore.ts'
export * from './crash/media.ts'
export { PART_BYTES, SEED } from './crash/part.ts'
export * from './crash/scenario.ts'
