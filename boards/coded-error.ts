/** An error that programs tell by its code, and people by its words, which say what to do. */

export abstract class CodedError<Code extends string> extends Error {
  readonly code: Code

  constructor(code: Code, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}
