/** What the bundler puts in the place of names that QuickJS does not have. */

export { TextDecoder, TextEncoder } from './text.ts'

/** `cbor2` knows addresses of the web when it is loaded; nothing here ever makes one. */
export class URL {}
