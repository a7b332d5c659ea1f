/*
 * Steps: what a client tries, one line of output each.
 *
 *   ok NAME                  it went as it must
 *   FAIL NAME: WHY           it did not
 *   durable AT LENGTH TAG    these bytes of the region hold the pattern, and must survive a cut
 */

#ifndef STEPS_H
#define STEPS_H

#include "endpoint.h"

/* Fills in the pattern of a tag: what the test's own program computes as well. */
void pattern(uint8_t *bytes, uint32_t length, uint32_t tag);
bool has_pattern(const uint8_t *bytes, uint32_t length, uint32_t tag);

/* Reports a step; `why` is NULL where it went well. Returns whether it did. */
bool step(const char *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Reports a step by a status that is wanted and one that is there. */
bool step_status(int wanted, int status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

void say_durable(uint64_t at, uint32_t length, uint32_t tag);

/* Steps that failed so far. */
extern int failures;

/* Opens a connection; a failure is a step that failed. */
bool open_for(struct endpoint *endpoint, const char *address, const char *port, const char *what);

/* Every operation, in the 32 KiB of the region from `from`. */
void try_operations(const char *address, const char *port, uint64_t from);

/* The ports that refusals are tried at, by what they publish. */
enum port { ALL_RIGHTS, READ_ONLY, WRITE_ONLY, NOTHING, FOR_OTHERS };

/* Every refusal, at these four ports. */
void try_refusals(const char *address, const char *const *ports);

/*
 * So many rounds of requests from that offset on, a page for each and one more, while frames are
 * lost: of "requests", of "answers", or of "both".
 */
void try_losses(const char *address, const char *port, uint64_t from, uint32_t rounds,
		const char *lost);

/* Writes and flushes all of the region, piece by piece; it is to be cut off meanwhile. */
void try_stream(const char *address, const char *port);

/*
 * Writes all of a region, piece by piece, and flushes nothing: a region that is registered
 * write-persist. It is to be cut off meanwhile. Each piece is announced when its WRITE has ended.
 */
void try_persisted(const char *address, const char *port);

struct pairs;

/* Writes records of a pair region, each in every copy. */
void write_copies(const char *address, const char *port, const struct pairs *pairs,
		  char *const *records, int count);

/* Writes so many, on and on over a few places. */
void stream_copies(const char *address, const char *port, const struct pairs *pairs,
		   uint32_t rounds);

/* Reads every copy of the first so many records, and says what it is. */
void look_at_copies(const char *address, const char *port, const struct pairs *pairs,
		    uint32_t slots);

#endif
