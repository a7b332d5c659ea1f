/**
 * The order of accesses to one region of which some wait for memory to be ready.
 *
 * Invariant: an access that changes memory leaves behind every one that was asked for
 * before it, and nothing overtakes it; accesses that only look may overtake one another. What need
 * not wait leaves at once, within the call.
 */
export class Gate {
  /** Accesses that have not left yet; those of them that change memory. */
  private readonly waiting: Set<Promise<void>> = new Set()
  private readonly changing: Set<Promise<void>> = new Set()

  /** Runs `work`, which posts the access, when `ready` resolves and the order allows it. */
  admit<T>(changes: boolean, ready: Promise<void> | null, work: () => Promise<T>): Promise<T> {
    const before = [...(changes ? this.waiting : this.changing)]
    if (ready === null && before.length === 0) return work()
    let leave = (): void => {}
    const left = new Promise<void>((resolve) => {
      leave = resolve
    })
    this.waiting.add(left)
    if (changes) this.changing.add(left)
    return Promise.all([ready, ...before]).then(() => {
      try {
        return work()
      } finally {
        this.waiting.delete(left)
        this.changing.delete(left)
        leave()
      }
    })
  }
}
