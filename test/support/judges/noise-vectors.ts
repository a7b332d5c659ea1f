/**
 * Published answers of what sessions are made of: X25519 (RFC 7748), SHA-256 (FIPS 180-4, by NIST's
 * examples), ChaCha20-Poly1305 (RFC 8439).
 */

const bytes = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, 'hex'))
const text = (words: string): Uint8Array => new Uint8Array(Buffer.from(words))

/** RFC 7748 5.2, both vectors; 6.1, both keys of both sides and what they share. */
export const AGREEMENTS: readonly Readonly<Record<'scalar' | 'point' | 'product', Uint8Array>>[] = (
  [
    [
      'a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4',
      'e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c',
      'c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552',
    ],
    [
      '4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d',
      'e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493',
      '95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957',
    ],
    [
      '77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a',
      '0900000000000000000000000000000000000000000000000000000000000000',
      '8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a',
    ],
    [
      '5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb',
      '0900000000000000000000000000000000000000000000000000000000000000',
      'de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f',
    ],
    [
      '77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a',
      'de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f',
      '4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742',
    ],
    [
      '5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb',
      '8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a',
      '4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742',
    ],
  ] as const
).map(([scalar, point, product]) => ({
  scalar: bytes(scalar),
  point: bytes(point),
  product: bytes(product),
}))

/** What is left of RFC 7748 5.2 when the base point was multiplied 1, and 1000 times, by itself. */
export const ITERATED: ReadonlyMap<number, Uint8Array> = new Map([
  [1, bytes('422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079')],
  [1000, bytes('684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51')],
])

/** The number, at most 255, that is so much more than the prime 2^255 - 19, as a point. */
function besidePrime(more: number): Uint8Array {
  const point = new Uint8Array(32).fill(0xff)
  point[0] = 0xed + more
  point[31] = 0x7f
  return point
}

/** Points whose double double double is 0: 0, 1, both of order 8, and those around the prime. */
export const SMALL_ORDER: readonly Uint8Array[] = [
  new Uint8Array(32),
  Uint8Array.from({ length: 32 }, (_, i) => (i === 0 ? 1 : 0)),
  bytes('e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800'),
  bytes('5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157'),
  besidePrime(-1),
  besidePrime(0),
  besidePrime(1),
]

/** Points that are written past the prime, and as what they are: 2 to 18. */
export const PAST_PRIME: readonly (readonly [written: Uint8Array, is: Uint8Array])[] = Array.from(
  { length: 17 },
  (_, i) => {
    const point = new Uint8Array(32)
    point[0] = 2 + i
    return [besidePrime(2 + i), point] as const
  },
)

/** Texts and their hashes: none, a block, two, and a million bytes. */
export const HASHES: readonly (readonly [Uint8Array, Uint8Array])[] = (
  [
    ['', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'],
    ['abc', 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'],
    [
      'abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq',
      '248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1',
    ],
    [
      'abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn' +
        'hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu',
      'cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1',
    ],
    ['a'.repeat(1_000_000), 'cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0'],
  ] as const
).map(([words, hash]) => [text(words), bytes(hash)])

/** RFC 8439 2.8.2. */
export const SEALED: Readonly<Record<'key' | 'nonce' | 'data' | 'plain' | 'sealed', Uint8Array>> = {
  key: Uint8Array.from({ length: 32 }, (_, i) => 0x80 + i),
  nonce: bytes('070000004041424344454647'),
  data: bytes('50515253c0c1c2c3c4c5c6c7'),
  plain: text(
    "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, " +
      'sunscreen would be it.',
  ),
  sealed: bytes(
    'd31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6' +
      '3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36' +
      '92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc' +
      '3ff4def08e4b7a9de576d26586cec64b6116' +
      '1ae10b594f09e26a7e902ecbd0600691',
  ),
}
