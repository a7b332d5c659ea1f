/** Whoever waits for one answer. */

export interface Waiter<T> {
  resolve(answer: T): void
  reject(error: Error): void
}

/** The two ends of a promise; whichever comes, `over` is called before it. */
export function waiterOf<T>(
  over: () => void,
  resolve: (answer: T) => void,
  reject: (error: Error) => void,
): Waiter<T> {
  return {
    resolve: (answer) => {
      over()
      resolve(answer)
    },
    reject: (error) => {
      over()
      reject(error)
    },
  }
}
