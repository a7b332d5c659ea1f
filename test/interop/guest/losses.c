/*
 * Rounds of requests while the network loses frames of them, or of their answers.
 *
 * Invariants:
 * - Every byte that is announced as durable was written, and then flushed to persistence with
 *   success. No place of the region is written again once it was announced.
 * - Each request ends well, except for one: an ATOMIC WRITE that was lost. soft-RoCE repeats it
 *   with the address 0 (Linux, drivers/infiniband/sw/rxe/rxe_req.c, req_retry), where nobody's word
 *   is, so it must be refused. Then the round is done again over another connection. If an answer
 *   before the refusal is lost, or the refusal, Linux does not hear it, and repeats until its
 *   retries are over: the card's end of the connection is in error, and silent (IBTA, volume 1,
 *   9.9.3.1). How often that was, is told.
 * - A FETCH_ADD that ended well was carried out once; one whose connection broke, once or never.
 */

#include <stdio.h>
#include <string.h>

#include "steps.h"

/* A round's place in the region, and what lies in it; several packets, one, and a word. */
#define ROUND_BYTES 4096
#define LONG_BYTES 3000
#define SHORT_AT 3072
#define SHORT_BYTES 200
#define WORD_AT 3328
#define WORD_BYTES 8

/* All are on their way at once; then the ATOMIC WRITE, of which a loss ends the connection. */
#define REQUESTS 6
#define LAST_REQUESTS 2

/* Seven tries of two seconds, and more on a busy machine. */
#define PATIENCE_MS 40000

/* Connections that may be needed for one round. */
#define TRIES_MAX 40

struct counter {
	uint64_t at; /* where the word is that every round adds 1 to */
	uint64_t least, most; /* what may stand there now */
};

struct lossy {
	const char *address, *port;
	struct endpoint endpoint;
	struct counter counter;
	bool may_refuse;  /* requests are lost */
	bool may_silence; /* and answers */
	uint32_t refused, silenced, connections;
};

static bool reconnect(struct lossy *lossy)
{
	if (lossy->connections++ > 0)
		endpoint_close(&lossy->endpoint);
	return open_for(&lossy->endpoint, lossy->address, lossy->port,
			"connection while frames are lost");
}

static void fill(struct endpoint *endpoint, uint32_t tag)
{
	pattern(endpoint->source, LONG_BYTES, tag);
	pattern(endpoint->source + SHORT_AT, SHORT_BYTES, tag + 1);
	pattern(endpoint->source + WORD_AT, WORD_BYTES, tag + 2);
	memset(endpoint->sink, 0xa5, PART_BYTES);
}

/* The word before the addition was what the additions before it made of it. */
static bool add_up(struct lossy *lossy)
{
	struct counter *counter = &lossy->counter;
	uint64_t before;

	counter->most--;
	memcpy(&before, lossy->endpoint.sink + WORD_AT, sizeof(before));
	if (before < counter->least || before > counter->most)
		return false;
	counter->least = counter->most = before + 1;
	return true;
}

/* What a round came to: it is done, it is to be done again, or it went wrong. */
enum outcome { DONE, AGAIN, WRONG };

static enum outcome end_of(struct lossy *lossy, const struct ibv_wc *completion)
{
	if (lossy->may_refuse && completion->wr_id == ATOMIC_WRITE &&
	    completion->status == IBV_WC_REM_ACCESS_ERR) {
		lossy->refused++;
		return AGAIN;
	}
	if (lossy->may_silence && completion->status == IBV_WC_RETRY_EXC_ERR) {
		lossy->silenced++;
		return AGAIN;
	}
	step(ibv_wc_status_str(completion->status), "operation %d of a round",
	     (int)completion->wr_id);
	return WRONG;
}

/* Posts all of these, and waits for each. */
static enum outcome carry_out(struct lossy *lossy, const struct request *requests, int count)
{
	struct endpoint *endpoint = &lossy->endpoint;
	struct ibv_wc completion;

	for (int i = 0; i < count; i++)
		if (endpoint_post(endpoint, &requests[i]) != 0) {
			step(status_name(-1), "request %d of a round", i);
			return WRONG;
		}
	for (int i = 0; i < count; i++) {
		if (!endpoint_wait_for(endpoint, &completion, PATIENCE_MS)) {
			step(status_name(-2), "request %d of a round", i);
			return WRONG;
		}
		if (completion.status != IBV_WC_SUCCESS)
			return end_of(lossy, &completion);
		if (completion.wr_id == FETCH_ADD && !add_up(lossy)) {
			step("not once", "FETCH_ADD while frames are lost");
			return WRONG;
		}
	}
	return DONE;
}

static enum outcome try_round(struct lossy *lossy, uint64_t at, uint32_t tag)
{
	const uint8_t persistent = IBV_FLUSH_PERSISTENT;
	const uint64_t word = at + WORD_AT;
	const struct request requests[REQUESTS] = {
		{ .operation = WRITE, .offset = at, .length = LONG_BYTES },
		{ .operation = FLUSH, .offset = at, .length = LONG_BYTES, .flush_type = persistent },
		{ .operation = READ, .offset = at, .length = LONG_BYTES },
		{ .operation = WRITE, .offset = at + SHORT_AT, .length = SHORT_BYTES, .at = SHORT_AT },
		{ .operation = FETCH_ADD,
		  .offset = lossy->counter.at,
		  .length = WORD_BYTES,
		  .add_or_compare = 1,
		  .at = WORD_AT },
		{ .operation = FLUSH, .offset = at, .length = ROUND_BYTES, .flush_type = persistent },
	};
	const struct request last[LAST_REQUESTS] = {
		{ .operation = ATOMIC_WRITE, .offset = word, .length = WORD_BYTES, .at = WORD_AT },
		{ .operation = FLUSH, .offset = word, .length = WORD_BYTES, .flush_type = persistent },
	};
	enum outcome outcome;

	fill(&lossy->endpoint, tag);
	lossy->counter.most++;
	outcome = carry_out(lossy, requests, REQUESTS);
	if (outcome == DONE && !has_pattern(lossy->endpoint.sink, LONG_BYTES, tag)) {
		step("other bytes came back", "READ while frames are lost");
		return WRONG;
	}
	return outcome == DONE ? carry_out(lossy, last, LAST_REQUESTS) : outcome;
}

static bool do_round(struct lossy *lossy, uint64_t at, uint32_t tag)
{
	enum outcome outcome = try_round(lossy, at, tag);

	for (int tries = 1; outcome == AGAIN && tries < TRIES_MAX; tries++) {
		if (!reconnect(lossy))
			return false;
		outcome = try_round(lossy, at, tag);
	}
	if (outcome != DONE)
		return false;
	say_durable(at, LONG_BYTES, tag);
	say_durable(at + SHORT_AT, SHORT_BYTES, tag + 1);
	say_durable(at + WORD_AT, WORD_BYTES, tag + 2);
	return true;
}

static bool clear(struct lossy *lossy)
{
	struct request zero = { .operation = WRITE,
				.offset = lossy->counter.at,
				.length = WORD_BYTES };

	memset(lossy->endpoint.source, 0, WORD_BYTES);
	return step_status(IBV_WC_SUCCESS, endpoint_do(&lossy->endpoint, &zero), "the counter");
}

void try_losses(const char *address, const char *port, uint64_t from, uint32_t rounds,
		const char *lost)
{
	struct lossy lossy = { .address = address,
			       .port = port,
			       .counter = { .at = from },
			       .may_refuse = strcmp(lost, "answers") != 0,
			       .may_silence = strcmp(lost, "both") == 0 };
	uint32_t done = 0;

	if (!reconnect(&lossy))
		return;
	if (clear(&lossy)) {
		while (done < rounds) {
			uint64_t at = from + (1 + (uint64_t)done) * ROUND_BYTES;

			if (!do_round(&lossy, at, (uint32_t)(at / ROUND_BYTES) * 4))
				break;
			done++;
		}
	}
	step(done == rounds ? NULL : "not all", "%u rounds", done);
	printf("refused %u silenced %u connections %u\n", lossy.refused, lossy.silenced,
	       lossy.connections);
	endpoint_close(&lossy.endpoint);
}
