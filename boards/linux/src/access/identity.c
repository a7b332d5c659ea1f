#include "access/identity.h"

#include <sodium.h>

#include "access/key-file.h"
#include "access/peers-file.h"

_Static_assert(crypto_scalarmult_SCALARBYTES == IDENTITY_KEY_BYTES &&
                   crypto_scalarmult_BYTES == IDENTITY_KEY_BYTES,
               "keys of X25519");

enum identity_result identity_read(struct identity *identity, const struct config *config,
                                   struct fault *fault) {
  uint8_t public_key[IDENTITY_KEY_BYTES];
  *identity = (struct identity){0};
  if (config->key[0] == '\0') return IDENTITY_TAKEN;
  enum identity_result result = key_file_read(config->key, identity->secret, fault);
  if (result != IDENTITY_TAKEN) return result;
  crypto_scalarmult_base(public_key, identity->secret);
  sodium_bin2hex(identity->public_key, sizeof identity->public_key, public_key, sizeof public_key);
  return peers_file_read(config->peers, identity, fault);
}

void identity_tell(const struct identity *identity, struct json *json) {
  json_flag(json, "open", identity_is_open(identity));
  if (identity_is_open(identity)) return;
  json_text(json, "publicKey", identity->public_key);
  json_number(json, "peers", identity->peers_count);
}

void identity_forget_secret(struct identity *identity) {
  sodium_memzero(identity->secret, sizeof identity->secret);
}
