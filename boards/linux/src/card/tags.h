/*
 * Tags on the packets of queue pairs (firmware/wire/tag.ts), as `boards/software/tags.ts` and
 * `boards/emulator/run/tag-places.ts` define them: see there for what a tag covers.
 *
 * Invariants:
 * - A counter is sent once. One that came is taken once, and only with its tag; a packet that has
 *   no good tag moves no window.
 * - Tags are compared in a time that does not depend on them.
 * - Keys are nowhere but in the table, and overwritten when they are replaced, or given up.
 */
#ifndef PERDURE_TAGS_H
#define PERDURE_TAGS_H

#include <stdbool.h>
#include <stdint.h>

#include "hal.h"

enum { TAGS_WINDOW_WORDS = (HAL_TAG_WINDOW + 1) / 64 };

/* One end of a queue pair with tags. */
struct tags_place {
  bool is_there;
  uint32_t number; /* of the queue pair */
  uint8_t received_key[HAL_TAG_KEY_BYTES], sent_key[HAL_TAG_KEY_BYTES];
  uint64_t sent;                     /* packets; the counter of the next one */
  uint64_t next;                     /* one more than the newest counter that came */
  uint64_t taken[TAGS_WINDOW_WORDS]; /* bit of a counter modulo the window: it came */
};

/* Zeros: no place has tags. */
struct tags {
  uint32_t count; /* of places with tags */
  struct tags_place places[HAL_QUEUE_PAIRS];
  /* What a tag is computed of: all that it covers, padded, and its lengths. */
  uint8_t text[HAL_FRAME_BYTES_MAX + 32] __attribute__((aligned(64)));
};

/*
 * SECURE of the bytes that are there, HAL_SECURE_BYTES or none: HAL_DONE or HAL_BAD_COMMAND.
 * `place` is what JavaScript gave.
 */
int tags_secure(struct tags *tags, double place, const uint8_t *block, uint32_t length);

/*
 * Fills the trailer of an Ethernet frame that leaves; its ICRC comes behind that. False, and
 * nothing is written, where the place, one of HAL_QUEUE_PAIRS, has no keys, or the frame no room.
 */
bool tags_fill(struct tags *tags, uint32_t place, uint8_t *frame, uint32_t length);

/*
 * Whether the frame, of any content, is for a place with tags, has the right one, and a counter
 * that none had before: it is then taken.
 */
bool tags_take(struct tags *tags, const uint8_t *frame, uint32_t length);

/* Adds HAL_TAG_GOOD to what is told of a burst; only a frame of a good ICRC can have it. */
void tags_judge(struct tags *tags, uint8_t *packets, uint32_t frames);

/* Overwrites every key: no place has tags any more. */
void tags_forget(struct tags *tags);

#endif
