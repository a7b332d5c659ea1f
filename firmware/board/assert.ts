/**
 * A broken promise of our own code. Input from outside is never asserted: it is judged, and what is
 * wrong with it is a fault (fault.ts). An assert that fires stops the firmware, which then stands
 * as after a power cut.
 */
export function assert(condition: boolean, promise: string): void {
  if (!condition) throw new Error(`bug: ${promise}`)
}
