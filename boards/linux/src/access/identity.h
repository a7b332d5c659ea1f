/*
 * Who the card is, and who may come: the key pair of its sessions, and its peers; `Identity` of
 * firmware/board/hal.ts.
 *
 * Invariants:
 * - A card has both, or none: without peers it is open, and all is zero.
 * - Of names and regions each ends with a NUL and holds no other.
 */
#ifndef PERDURE_IDENTITY_H
#define PERDURE_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "hal.h"
#include "service/config.h"
#include "service/fault.h"
#include "service/json.h"

enum {
  IDENTITY_KEY_BYTES = 32,
  IDENTITY_NAME_BYTES = 32, /* of a peer's name, UTF-8 */
};

struct identity_regions {
  uint32_t count;
  char names[HAL_PEER_REGIONS][HAL_REGION_NAME_BYTES + 1];
};

struct identity_peer {
  uint8_t key[IDENTITY_KEY_BYTES];
  char name[IDENTITY_NAME_BYTES + 1];
  bool admin;
  struct identity_regions read, write;
};

struct identity {
  uint8_t secret[IDENTITY_KEY_BYTES];
  char public_key[2 * IDENTITY_KEY_BYTES + 1]; /* hexadecimal digits */
  uint32_t peers_count;
  struct identity_peer peers[HAL_PEERS];
};

enum identity_result {
  IDENTITY_TAKEN,
  IDENTITY_NO_FILE, /* one of its files cannot be read */
  IDENTITY_REFUSED, /* one holds what it should not, or others may read the key */
};

/* Reads the files that the configuration names; nothing where it names none. */
enum identity_result identity_read(struct identity *identity, const struct config *config,
                                   struct fault *fault);

static inline bool identity_is_open(const struct identity *identity) {
  return identity->peers_count == 0;
}

/* What anybody may know of it: members of the object that `json` is in. */
void identity_tell(const struct identity *identity, struct json *json);

/* Zeroes the card's private key. */
void identity_forget_secret(struct identity *identity);

#endif
