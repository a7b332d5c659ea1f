/*
 * What sessions are made of (firmware/board/hal.ts, AGREE to UNSEAL), by libsodium.
 *
 * Invariants: what fails writes nothing. No secret is left but where the caller has it. Each gives
 * what the command's result is: HAL_DONE, or HAL_AUTHENTICATION_FAILED.
 */
#ifndef PERDURE_NOISE_H
#define PERDURE_NOISE_H

#include <stdint.h>

#include "hal.h"

enum { NOISE_BYTES = 32 }; /* of a scalar, of a point, of a hash */

/* What lies at `aux` of SEAL and UNSEAL, byte for byte; of the data only so much as there is. */
struct noise_sealing {
  uint8_t key[HAL_SEAL_KEY_BYTES];
  uint8_t nonce[HAL_SEAL_NONCE_BYTES];
  uint32_t data_bytes;
  uint8_t data[HAL_SEAL_DATA_BYTES];
};

/* X25519; the ranges may overlap. A product of zeros fails. */
int noise_agree(uint8_t *to, const uint8_t *scalar, const uint8_t *point);

/* SHA-256; the ranges may overlap. */
int noise_hash(uint8_t *to, const uint8_t *from, uint32_t length);

/*
 * ChaCha20-Poly1305: `length` bytes to HAL_SEAL_TAG_BYTES more, and to so many less, of which there
 * are as many at least. `from` and `to` are the same place or share no byte.
 */
int noise_seal(uint8_t *to, const uint8_t *from, uint32_t length,
               const struct noise_sealing *sealing);
int noise_unseal(uint8_t *to, const uint8_t *from, uint32_t length,
                 const struct noise_sealing *sealing);

#endif
