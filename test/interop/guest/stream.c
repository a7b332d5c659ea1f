/*
 * A stream of WRITEs, each with its FLUSH, until the DPU's power goes; and one without any FLUSH,
 * into a region that is registered write-persist, whose acknowledgements wait for durability.
 *
 * Invariant: what is announced as durable was flushed with success, or its WRITE has ended there,
 * whatever became of the rest; no place of the region is written twice, so nothing overwrites what
 * was announced.
 */

#include <string.h>

#include "steps.h"

#define BYTES 512
#define SCRATCH_BYTES 3000

/* Rounds on their way at once: two in three requests are then not flushed yet. */
#define ROUNDS 8
#define REQUESTS_A_ROUND 3

/* A card without power does not answer: so long is waited before that is believed. */
#define SILENCE_MS 15000

static int post_round(struct endpoint *endpoint, uint32_t round)
{
	/* The bytes of a WRITE must stand still until it is done. */
	uint32_t at = (round % (2 * ROUNDS)) * BYTES;
	uint64_t offset = SCRATCH_BYTES + (uint64_t)round * BYTES;
	struct request write = { .operation = WRITE, .offset = offset, .length = BYTES, .at = at };
	struct request flush = { .operation = FLUSH,
				 .offset = offset,
				 .length = BYTES,
				 .flush_type = IBV_FLUSH_PERSISTENT };
	struct request scratch = { .operation = WRITE, .length = SCRATCH_BYTES };

	pattern(endpoint->source + at, BYTES, round);
	if (endpoint_post(endpoint, &write) != 0 || endpoint_post(endpoint, &flush) != 0)
		return -1;
	return endpoint_post(endpoint, &scratch);
}

static int post_write(struct endpoint *endpoint, uint32_t round)
{
	uint32_t at = (round % (2 * ROUNDS)) * BYTES;
	struct request write = { .operation = WRITE,
				 .offset = (uint64_t)round * BYTES,
				 .length = BYTES,
				 .at = at };

	pattern(endpoint->source + at, BYTES, round);
	return endpoint_post(endpoint, &write);
}

void try_persisted(const char *address, const char *port)
{
	struct endpoint endpoint;
	struct ibv_wc completion;
	uint32_t posted = 0, done = 0, rounds;

	if (!open_for(&endpoint, address, port, "stream of WRITE"))
		return;
	rounds = (uint32_t)(endpoint.region.size / BYTES);
	while (done < rounds) {
		while (posted < rounds && posted < done + ROUNDS) {
			if (post_write(&endpoint, posted) != 0)
				break;
			posted++;
		}
		if (!endpoint_wait_for(&endpoint, &completion, SILENCE_MS) ||
		    completion.status != IBV_WC_SUCCESS)
			break;
		say_durable((uint64_t)done * BYTES, BYTES, done);
		done++;
	}
	step(done < rounds ? NULL : "it was over before the power went",
	     "stream of WRITE, %u completed", done);
	endpoint_close(&endpoint);
}

void try_stream(const char *address, const char *port)
{
	struct endpoint endpoint;
	struct ibv_wc completion;
	uint32_t posted = 0, flushed = 0, done = 0, rounds;

	if (!open_for(&endpoint, address, port, "stream of WRITE and FLUSH"))
		return;
	rounds = (uint32_t)((endpoint.region.size - SCRATCH_BYTES) / BYTES);
	while (flushed < rounds) {
		while (posted < rounds && posted * REQUESTS_A_ROUND < done + ROUNDS * 3) {
			if (post_round(&endpoint, posted) != 0)
				break;
			posted++;
		}
		if (!endpoint_wait_for(&endpoint, &completion, SILENCE_MS) ||
		    completion.status != IBV_WC_SUCCESS)
			break;
		done++;
		if (completion.wr_id == FLUSH) {
			say_durable(SCRATCH_BYTES + (uint64_t)flushed * BYTES, BYTES, flushed);
			flushed++;
		}
	}
	step(flushed < rounds ? NULL : "it was over before the power went",
	     "stream of WRITE and FLUSH, %u flushed", flushed);
	endpoint_close(&endpoint);
}
