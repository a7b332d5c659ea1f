#include "card/noise.h"

#include <sodium.h>
#include <stddef.h>
#include <string.h>

_Static_assert(crypto_scalarmult_curve25519_BYTES == NOISE_BYTES &&
                   crypto_scalarmult_curve25519_SCALARBYTES == NOISE_BYTES,
               "points and scalars");
_Static_assert(crypto_hash_sha256_BYTES == NOISE_BYTES, "a hash");
_Static_assert(crypto_aead_chacha20poly1305_ietf_KEYBYTES == HAL_SEAL_KEY_BYTES, "a key");
_Static_assert(crypto_aead_chacha20poly1305_ietf_NPUBBYTES == HAL_SEAL_NONCE_BYTES, "a nonce");
_Static_assert(crypto_aead_chacha20poly1305_ietf_ABYTES == HAL_SEAL_TAG_BYTES, "a tag");
_Static_assert(offsetof(struct noise_sealing, data) ==
                   HAL_SEAL_KEY_BYTES + HAL_SEAL_NONCE_BYTES + sizeof(uint32_t),
               "no byte between what lies at `aux`");

/* libsodium refuses the points of small order, whatever the scalar, and a product of zeros. */
int noise_agree(uint8_t *to, const uint8_t *scalar, const uint8_t *point) {
  uint8_t product[NOISE_BYTES];
  int failed = crypto_scalarmult_curve25519(product, scalar, point);
  if (failed == 0) memcpy(to, product, sizeof product);
  sodium_memzero(product, sizeof product);
  return failed == 0 ? HAL_DONE : HAL_AUTHENTICATION_FAILED;
}

int noise_hash(uint8_t *to, const uint8_t *from, uint32_t length) {
  uint8_t hash[NOISE_BYTES];
  crypto_hash_sha256(hash, from, length);
  memcpy(to, hash, sizeof hash);
  sodium_memzero(hash, sizeof hash);
  return HAL_DONE;
}

int noise_seal(uint8_t *to, const uint8_t *from, uint32_t length,
               const struct noise_sealing *sealing) {
  crypto_aead_chacha20poly1305_ietf_encrypt(to, NULL, from, length, sealing->data,
                                            sealing->data_bytes, NULL, sealing->nonce,
                                            sealing->key);
  return HAL_DONE;
}

/*
 * Without a place to decrypt to, libsodium only checks the tag: with one it writes zeros there if
 * the tag is wrong. The plaintext is the stream from block 1 on (RFC 8439 2.8).
 */
int noise_unseal(uint8_t *to, const uint8_t *from, uint32_t length,
                 const struct noise_sealing *sealing) {
  uint32_t bytes = length - HAL_SEAL_TAG_BYTES;
  if (crypto_aead_chacha20poly1305_ietf_decrypt_detached(
          NULL, NULL, from, bytes, from + bytes, sealing->data, sealing->data_bytes,
          sealing->nonce, sealing->key) != 0) {
    return HAL_AUTHENTICATION_FAILED;
  }
  crypto_stream_chacha20_ietf_xor_ic(to, from, bytes, sealing->nonce, 1, sealing->key);
  return HAL_DONE;
}
