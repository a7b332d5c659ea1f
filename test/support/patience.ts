/**
 * How long a test waits for another process. The machine may be busy with other work, so only what
 * never comes is given up.
 */

/** Longest start, and longest answer, ms. */
export const PATIENCE_MS = 600_000
