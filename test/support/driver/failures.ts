/** What a call of the driver fails with: always an error of its own. */

import { expect } from 'vitest'
import { PerdureError } from '../../../host-driver/base/errors.ts'

/** The error that the promise is rejected with. */
export async function failure(promise: Promise<unknown>): Promise<PerdureError> {
  const error = await promise.then(
    () => null,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(PerdureError)
  return error as PerdureError
}

/** The error that the call throws at once. */
export function thrown(work: () => unknown): PerdureError {
  try {
    work()
  } catch (error) {
    expect(error).toBeInstanceOf(PerdureError)
    return error as PerdureError
  }
  throw new Error('nothing was thrown')
}
