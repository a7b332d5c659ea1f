/**
 * What `npm run bench` is held to, and the exit code that follows.
 *
 * Records of 64 bytes in bursts of 32 for a thousand turns of the loop
 * (support/bench/calibration.ts), at least. They are 200,000 records per second in Node and 40,000
 * in QuickJS where the loop turns 108.6 and 1.262 million times a second, as it did at its best on
 * the machine on which they were set.
 */

export type Engine = 'node' | 'quickjs'

export const ENGINES: readonly Engine[] = ['node', 'quickjs']

const FLOORS: Readonly<Record<Engine, number>> = { node: 1.84, quickjs: 31.7 }

/** What of a row decides. */
export interface Measured {
  readonly engine: Engine
  readonly recordBytes: number
  readonly burst: number
  readonly recordsPerThousandTurns: number
}

/** What the row is held to; 0 if to nothing. */
export function floorOf({ engine, recordBytes, burst }: Measured): number {
  return recordBytes === 64 && burst === 32 ? FLOORS[engine] : 0
}

export function holds(row: Measured): boolean {
  return row.recordsPerThousandTurns >= floorOf(row)
}

/** 0 where each engine was held to its floor, and every floor holds; else 1. */
export function exitCodeOf(rows: readonly Measured[]): number {
  const isHeld = (engine: Engine): boolean => {
    return rows.some((row) => row.engine === engine && floorOf(row) > 0)
  }
  return rows.every(holds) && ENGINES.every(isHeld) ? 0 : 1
}
