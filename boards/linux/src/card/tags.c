#include "card/tags.h"

#include <sodium.h>
#include <string.h>

#include "card/icrc.h"
#include "link/link-kinds.h"

enum {
  BTH_CONGESTION = 4, /* FECN, BECN: routers change it, and it counts as ones */
  BTH_DEST_QP = 5,
  BTH_BYTES = 12,
  TAG_BYTES = HAL_TRAILER_BYTES - HAL_TRAILER_TAG,
  NONCE_BYTES = crypto_stream_chacha20_ietf_NONCEBYTES,
  BLOCK_BYTES = 16,
  WINDOW = HAL_TAG_WINDOW + 1,
};

_Static_assert(TAG_BYTES == crypto_onetimeauth_poly1305_BYTES, "a tag");
_Static_assert(HAL_TAG_KEY_BYTES == crypto_stream_chacha20_ietf_KEYBYTES, "a key");
_Static_assert(HAL_SECURE_BYTES == 2 * HAL_TAG_KEY_BYTES + sizeof(uint32_t), "both and a number");
_Static_assert(WINDOW == 64 * TAGS_WINDOW_WORDS, "whole words");
_Static_assert((HAL_QUEUE_PAIRS & (HAL_QUEUE_PAIRS - 1)) == 0, "a number ends with its place");

/* The largest counter that JavaScript tells from its neighbours. */
#define COUNTER_MAX ((UINT64_C(1) << 53) - 1)

/* Where the parts of a frame stand that has room for a trailer. */
struct parts {
  uint32_t bth_at, trailer_at;
};

static bool find_parts(const uint8_t *frame, uint32_t length, struct parts *parts) {
  struct icrc_place place;
  if (!icrc_locate(frame, length, &place)) return false;
  if (place.icrc_at < place.bth_at + BTH_BYTES + HAL_TRAILER_BYTES) return false;
  *parts = (struct parts){place.bth_at, place.icrc_at - HAL_TRAILER_BYTES};
  return true;
}

static uint64_t load_counter(const uint8_t *at) {
  uint64_t counter = 0;
  for (int i = 0; i < HAL_TRAILER_TAG; i++) counter = counter << 8 | at[i];
  return counter;
}

static void store_counter(uint8_t *at, uint64_t counter) {
  for (int i = 0; i < HAL_TRAILER_TAG; i++) at[i] = (uint8_t)(counter >> (56 - 8 * i));
}

/*
 * The tag of a frame whose counter stands in its trailer, put together of its parts (RFC 8439 2.8,
 * 2.6): the key of Poly1305 is the beginning of the stream's block 0. One call over one text is a
 * fifth faster for short frames than libsodium's own AEAD, which feeds Poly1305 in four pieces, and
 * as fast for long ones.
 */
static void compute(struct tags *tags, const uint8_t *key, const uint8_t *frame,
                    const struct parts *parts, uint8_t tag[TAG_BYTES]) {
  uint8_t nonce[NONCE_BYTES] = {0}, once[crypto_onetimeauth_poly1305_KEYBYTES];
  const uint8_t *counter = frame + parts->trailer_at;
  for (int i = 0; i < HAL_TRAILER_TAG; i++) nonce[NONCE_BYTES - 1 - i] = counter[i];
  uint32_t bytes = parts->trailer_at + HAL_TRAILER_TAG - parts->bth_at;
  uint32_t padded = (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
  uint8_t *text = tags->text;
  memcpy(text, frame + parts->bth_at, bytes);
  text[BTH_CONGESTION] = 0xff;
  memset(text + bytes, 0, padded + BLOCK_BYTES - bytes);
  for (int i = 0; i < 4; i++) text[padded + (uint32_t)i] = (uint8_t)(bytes >> 8 * i);
  crypto_stream_chacha20_ietf(once, sizeof once, nonce, key);
  crypto_onetimeauth_poly1305(tag, text, padded + BLOCK_BYTES, once);
  sodium_memzero(once, sizeof once);
}

int tags_secure(struct tags *tags, double place, const uint8_t *block, uint32_t length) {
  if (!(place >= 0 && place < HAL_QUEUE_PAIRS)) return HAL_BAD_COMMAND;
  uint32_t whole = (uint32_t)place;
  if ((double)whole != place || (length != 0 && length != HAL_SECURE_BYTES)) {
    return HAL_BAD_COMMAND;
  }
  struct tags_place *at = &tags->places[whole];
  if (at->is_there) tags->count--;
  sodium_memzero(at, sizeof *at);
  if (length == 0) return HAL_DONE;
  memcpy(at->received_key, block, HAL_TAG_KEY_BYTES);
  memcpy(at->sent_key, block + HAL_TAG_KEY_BYTES, HAL_TAG_KEY_BYTES);
  memcpy(&at->number, block + 2 * HAL_TAG_KEY_BYTES, sizeof at->number);
  at->is_there = true;
  tags->count++;
  return HAL_DONE;
}

bool tags_fill(struct tags *tags, uint32_t place, uint8_t *frame, uint32_t length) {
  struct tags_place *at = &tags->places[place];
  struct parts parts;
  if (!at->is_there || !find_parts(frame, length, &parts)) return false;
  uint8_t *trailer = frame + parts.trailer_at;
  store_counter(trailer, at->sent++);
  compute(tags, at->sent_key, frame, &parts, trailer + HAL_TRAILER_TAG);
  return true;
}

static uint64_t bit_of(uint64_t counter) { return UINT64_C(1) << counter % 64; }

static uint64_t *word_of(struct tags_place *at, uint64_t counter) {
  return &at->taken[counter % WINDOW / 64];
}

static bool may_come(struct tags_place *at, uint64_t counter) {
  if (counter >= at->next) return counter <= COUNTER_MAX;
  return at->next - counter <= WINDOW && (*word_of(at, counter) & bit_of(counter)) == 0;
}

/* Those that were passed have not come. */
static void move_window(struct tags_place *at, uint64_t counter) {
  uint64_t passed = at->next;
  if (counter >= at->next) at->next = counter + 1;
  if (counter > passed && counter - passed >= WINDOW) {
    memset(at->taken, 0, sizeof at->taken);
  } else {
    for (; passed < counter; passed++) *word_of(at, passed) &= ~bit_of(passed);
  }
  *word_of(at, counter) |= bit_of(counter);
}

bool tags_take(struct tags *tags, const uint8_t *frame, uint32_t length) {
  struct parts parts;
  uint8_t tag[TAG_BYTES];
  if (!find_parts(frame, length, &parts)) return false;
  const uint8_t *qp = frame + parts.bth_at + BTH_DEST_QP;
  uint32_t number = (uint32_t)qp[0] << 16 | (uint32_t)qp[1] << 8 | qp[2];
  struct tags_place *at = &tags->places[number % HAL_QUEUE_PAIRS];
  if (!at->is_there || at->number != number) return false;
  const uint8_t *trailer = frame + parts.trailer_at;
  uint64_t counter = load_counter(trailer);
  if (!may_come(at, counter)) return false;
  compute(tags, at->received_key, frame, &parts, tag);
  if (sodium_memcmp(tag, trailer + HAL_TRAILER_TAG, sizeof tag) != 0) return false;
  move_window(at, counter);
  return true;
}

void tags_judge(struct tags *tags, uint8_t *packets, uint32_t frames) {
  if (tags->count == 0) return;
  uint8_t *told = packets + HAL_RECEIVED_AT;
  for (uint32_t i = 0; i < frames; i++, told += 2 * sizeof(uint32_t)) {
    uint32_t words[2];
    memcpy(words, told, sizeof words);
    if (words[1] != HAL_ICRC_GOOD) continue;
    if (!tags_take(tags, receive_place(packets, (int)i), words[0])) continue;
    words[1] |= HAL_TAG_GOOD;
    memcpy(told, words, sizeof words);
  }
}

void tags_forget(struct tags *tags) { sodium_memzero(tags, sizeof *tags); }
