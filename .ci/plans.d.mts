/** What one step runs, and how it is told of. */
export interface Step {
  readonly name: string
  readonly command: readonly string[]
  /** Beside the environment of the run. */
  readonly environment?: Readonly<Record<string, string>>
  /** Whether nothing that follows is played where it fails. */
  readonly stops?: boolean
  /** Whether its exit code 3 says that not all was reached: it fails by that. */
  readonly reaches?: boolean
  /** Lines of its output that tell why it failed. */
  readonly tells?: RegExp
}

/** Groups in turn, the lanes of a group beside each other, the steps of a lane in turn. */
export type Plan = readonly (readonly (readonly Step[])[])[]

export const SECONDS_MAX: Readonly<Record<string, number>>
export const PLANS: Readonly<Record<string, Plan>>
