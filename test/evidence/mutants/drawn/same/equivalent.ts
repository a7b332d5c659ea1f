/** A mutant that is the same program, and why. */

export interface Equivalent {
  /** Path below `firmware/`, and the function: `wire/icrc.ts imageIcrc`. */
  readonly at: string
  /** The lines as they stand, without indentation, and as the mutant has them. */
  readonly line: string
  readonly mutant: string
  readonly because: string
}
