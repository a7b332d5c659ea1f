/*
 * Every operation that an RDMA target of persistent memory serves, each checked by reading back.
 *
 * Invariant: every byte that is announced as durable was written, and then flushed to
 * persistence with success, before it is announced.
 */

#include <stdio.h>
#include <string.h>

#include "steps.h"

/* Where the steps write, counted from the start of our part of the region. */
#define WRITES_AT 0
#define IMMEDIATE_AT 8192
#define WORD_AT 12288
#define ATOMIC_WRITE_AT 12352
#define CHAIN_AT 12416
#define BURST_AT 16384
#define BURST 64
#define BURST_BYTES 160
#define USED_BYTES 32768

/* Source of a READ, destination of a WRITE, flushed to visibility and to persistence. */
#define USAGES (1 | 8 | 16 | 32)

#define PERSISTENT IBV_FLUSH_PERSISTENT

static int flush(struct endpoint *endpoint, uint64_t at, uint32_t length)
{
	return endpoint_do(endpoint, &(struct request){ .operation = FLUSH,
							.offset = at,
							.length = length,
							.flush_type = PERSISTENT,
							.flush_level = IBV_FLUSH_RANGE });
}

/* Reads back and compares; NULL if it is the pattern. */
static const char *differs(struct endpoint *endpoint, uint64_t at, uint32_t length, uint32_t tag)
{
	struct request read = { .operation = READ, .offset = at, .length = length };
	int status;

	memset(endpoint->sink, 0xa5, length);
	status = endpoint_do(endpoint, &read);
	if (status != IBV_WC_SUCCESS)
		return status_name(status);
	return has_pattern(endpoint->sink, length, tag) ? NULL : "other bytes came back";
}

/* The 64-bit word that an atomic operation, or a READ, left in our memory. */
static uint64_t word_of(const uint8_t *bytes)
{
	uint64_t word;

	memcpy(&word, bytes, sizeof(word));
	return word;
}

static void try_write(struct endpoint *endpoint, uint64_t at, uint32_t length, uint32_t tag)
{
	struct request write = { .operation = WRITE, .offset = at, .length = length };

	pattern(endpoint->source, length, tag);
	if (!step_status(IBV_WC_SUCCESS, endpoint_do(endpoint, &write), "WRITE %u", length))
		return;
	if (!step_status(IBV_WC_SUCCESS, flush(endpoint, at, length),
			 "FLUSH persistent, range of %u", length))
		return;
	if (step(differs(endpoint, at, length, tag), "READ %u", length) && length > 0)
		say_durable(at, length, tag);
}

static void try_writes(struct endpoint *endpoint, uint64_t from)
{
	/* One packet with every pad, several packets; offsets that are not aligned to anything. */
	static const uint32_t lengths[] = { 0, 1, 8, 13, 1024, 5000 };
	uint64_t at = from + WRITES_AT;

	for (uint32_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		try_write(endpoint, at, lengths[i], 1 + i);
		at += lengths[i] + 67;
	}
}

static void try_immediate(struct endpoint *endpoint, uint64_t at)
{
	struct request write = { .operation = WRITE_IMM,
				 .offset = at,
				 .length = 3000,
				 .immediate = 0x01020304 };

	pattern(endpoint->source, write.length, 20);
	step_status(IBV_WC_SUCCESS, endpoint_do(endpoint, &write), "WRITE with immediate, 3000");
	if (flush(endpoint, at, write.length) == IBV_WC_SUCCESS &&
	    step(differs(endpoint, at, write.length, 20), "READ what came with the immediate"))
		say_durable(at, write.length, 20);
	write.length = 0;
	step_status(IBV_WC_SUCCESS, endpoint_do(endpoint, &write), "WRITE with immediate, 0");
}

static void try_sends(struct endpoint *endpoint)
{
	struct request send = { .operation = SEND, .length = 8, .immediate = 77 };

	pattern(endpoint->source, 64, 30);
	step_status(IBV_WC_SUCCESS, endpoint_do(endpoint, &send), "SEND 8");
	send.length = 0;
	step_status(IBV_WC_SUCCESS, endpoint_do(endpoint, &send), "SEND 0");
	send.operation = SEND_IMM;
	send.length = 8;
	step_status(IBV_WC_SUCCESS, endpoint_do(endpoint, &send), "SEND with immediate");
}

/* A SEND that asks is answered when everything before it is durable. */
static void try_confirmation(struct endpoint *endpoint, enum operation operation, uint64_t at)
{
	const char *name = operation == SEND_IMM ? "SEND with immediate" : "SEND";
	struct request write = { .operation = WRITE, .offset = at, .length = 200 };
	struct request send = { .operation = operation,
				.length = 24,
				.immediate = 0xfeedbeef,
				.solicited = true };
	struct ibv_wc reply;
	int status;

	pattern(endpoint->source, write.length, 40 + operation);
	status = endpoint_do(endpoint, &write);
	if (status == IBV_WC_SUCCESS)
		status = endpoint_do(endpoint, &send);
	if (!step_status(IBV_WC_SUCCESS, status, "%s that asks for a confirmation", name))
		return;
	if (!endpoint_receive(endpoint, &reply) || reply.status != IBV_WC_SUCCESS) {
		step("none came", "confirmation of the %s", name);
		return;
	}
	if (reply.byte_len != send.length ||
	    memcmp(endpoint->received + reply.wr_id * RECEIVE_BYTES, endpoint->source,
		   send.length) != 0) {
		step("not what was sent", "confirmation of the %s", name);
		return;
	}
	if (operation == SEND_IMM && be32toh(reply.imm_data) != send.immediate) {
		step("another immediate", "confirmation of the %s", name);
		return;
	}
	step(NULL, "confirmation of the %s", name);
	say_durable(at, write.length, 40 + operation);
}

static void try_atomics(struct endpoint *endpoint, uint64_t at)
{
	struct request zero = { .operation = WRITE, .offset = at, .length = 8 };
	struct request atomic = { .operation = FETCH_ADD, .offset = at, .length = 8 };
	uint64_t word;

	memset(endpoint->source, 0, 8);
	endpoint_do(endpoint, &zero);
	atomic.add_or_compare = 0x100000001;
	step_status(IBV_WC_SUCCESS, endpoint_do(endpoint, &atomic), "FETCH_ADD");
	step(word_of(endpoint->sink) == 0 ? NULL : "wrong", "the original of the FETCH_ADD");
	endpoint_do(endpoint, &atomic);
	step(word_of(endpoint->sink) == 0x100000001 ? NULL : "wrong",
	     "the sum of the FETCH_ADD, by a second one");
	atomic.operation = COMPARE_SWAP;
	atomic.add_or_compare = 1;
	atomic.swap = 99;
	step_status(IBV_WC_SUCCESS, endpoint_do(endpoint, &atomic), "CMP_SWAP that differs");
	step(word_of(endpoint->sink) == 0x200000002 ? NULL : "wrong", "it returns the word");
	atomic.add_or_compare = 0x200000002;
	pattern((uint8_t *)&word, sizeof(word), 50);
	atomic.swap = word;
	step_status(IBV_WC_SUCCESS, endpoint_do(endpoint, &atomic), "CMP_SWAP that matches");
	step(word_of(endpoint->sink) == 0x200000002 ? NULL : "it had changed",
	     "the one that differed changed nothing");
	if (step_status(IBV_WC_SUCCESS, flush(endpoint, at, 8), "FLUSH of the word") &&
	    step(differs(endpoint, at, 8, 50), "READ the word"))
		say_durable(at, 8, 50);
}

static void try_atomic_write(struct endpoint *endpoint, uint64_t at)
{
	struct request write = { .operation = ATOMIC_WRITE, .offset = at, .length = 8 };

	pattern(endpoint->source, 8, 60);
	if (step_status(IBV_WC_SUCCESS, endpoint_do(endpoint, &write), "ATOMIC WRITE") &&
	    step_status(IBV_WC_SUCCESS, flush(endpoint, at, 8), "FLUSH of the ATOMIC WRITE") &&
	    step(differs(endpoint, at, 8, 60), "READ of the ATOMIC WRITE"))
		say_durable(at, 8, 60);
}

static void try_flushes(struct endpoint *endpoint, uint64_t from)
{
	static const struct {
		const char *name;
		uint8_t type, level;
		uint32_t length;
	} flushes[] = {
		{ "FLUSH global, range", IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE, 4096 },
		{ "FLUSH persistent, range", IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE, 4096 },
		{ "FLUSH global and persistent, range", IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT,
		  IBV_FLUSH_RANGE, 100 },
		{ "FLUSH global, whole region", IBV_FLUSH_GLOBAL, IBV_FLUSH_MR, 0 },
		{ "FLUSH persistent, whole region", IBV_FLUSH_PERSISTENT, IBV_FLUSH_MR, 0 },
		{ "FLUSH persistent, range of 0", IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE, 0 },
	};

	for (uint32_t i = 0; i < sizeof(flushes) / sizeof(flushes[0]); i++) {
		struct request request = { .operation = FLUSH,
					   .offset = from,
					   .length = flushes[i].length,
					   .flush_type = flushes[i].type,
					   .flush_level = flushes[i].level };

		step_status(IBV_WC_SUCCESS, endpoint_do(endpoint, &request), "%s", flushes[i].name);
	}
}

/* Waits for `count` completions; NULL if all are well and in the order of posting. */
static const char *wait_all(struct endpoint *endpoint, int count)
{
	struct ibv_wc completion;

	for (int i = 0; i < count; i++) {
		if (!endpoint_wait(endpoint, &completion))
			return status_name(-2);
		if (completion.status != IBV_WC_SUCCESS)
			return ibv_wc_status_str(completion.status);
	}
	return NULL;
}

/* What an RDMA log does: the entry, FLUSH, the pointer to it, FLUSH; posted as one chain. */
static void try_chain(struct endpoint *endpoint, uint64_t at)
{
	struct request requests[] = {
		{ .operation = WRITE, .offset = at + 64, .length = 1500, .at = 64 },
		{ .operation = FLUSH, .offset = at + 64, .length = 1500, .flush_type = PERSISTENT },
		{ .operation = ATOMIC_WRITE, .offset = at, .length = 8 },
		{ .operation = FLUSH, .offset = at, .length = 8, .flush_type = PERSISTENT },
	};
	const char *why;

	pattern(endpoint->source + 64, 1500, 70);
	pattern(endpoint->source, 8, 71);
	for (int i = 0; i < 4; i++)
		if (endpoint_post(endpoint, &requests[i]) != 0) {
			step(status_name(-1), "chain WRITE, FLUSH, ATOMIC WRITE, FLUSH");
			return;
		}
	why = wait_all(endpoint, 4);
	if (!step(why, "chain WRITE, FLUSH, ATOMIC WRITE, FLUSH"))
		return;
	say_durable(at + 64, 1500, 70);
	say_durable(at, 8, 71);
}

/* Many on their way: WRITE, FLUSH, READ and FETCH_ADD, interleaved. */
static void try_burst(struct endpoint *endpoint, uint64_t at)
{
	const char *why;

	pattern(endpoint->source, BURST_BYTES, 80);
	for (uint32_t i = 0; i < BURST; i++) {
		uint64_t offset = at + i * BURST_BYTES;
		struct request requests[] = {
			{ .operation = WRITE, .offset = offset, .length = BURST_BYTES },
			{ .operation = FLUSH,
			  .offset = offset,
			  .length = BURST_BYTES,
			  .flush_type = PERSISTENT },
			{ .operation = READ,
			  .offset = offset,
			  .length = BURST_BYTES,
			  .at = i * BURST_BYTES },
		};

		for (int k = 0; k < 3; k++)
			if (endpoint_post(endpoint, &requests[k]) != 0) {
				step(status_name(-1), "burst");
				return;
			}
	}
	why = wait_all(endpoint, 3 * BURST);
	for (uint32_t i = 0; why == NULL && i < BURST; i++)
		if (!has_pattern(endpoint->sink + i * BURST_BYTES, BURST_BYTES, 80))
			why = "a READ saw other bytes";
	if (!step(why, "%d x WRITE, FLUSH, READ on their way at once", BURST))
		return;
	for (uint32_t i = 0; i < BURST; i++)
		say_durable(at + i * BURST_BYTES, BURST_BYTES, 80);
}

static const char *judge(const struct region *region)
{
	if (region->size < USED_BYTES)
		return "the region is too small";
	if ((region->usage & USAGES) != USAGES)
		return "a usage is missing";
	return region->direct_write_to_pmem ? NULL : "direct write to persistent memory is denied";
}

void try_operations(const char *address, const char *port, uint64_t from)
{
	struct endpoint endpoint;

	if (!open_for(&endpoint, address, port, "RDMA-CM connection"))
		return;
	step(NULL, "RDMA-CM connection");
	step(judge(&endpoint.region), "descriptor in the private data of REP");
	try_writes(&endpoint, from);
	try_immediate(&endpoint, from + IMMEDIATE_AT);
	try_sends(&endpoint);
	try_confirmation(&endpoint, SEND, from + IMMEDIATE_AT + 3100);
	try_confirmation(&endpoint, SEND_IMM, from + IMMEDIATE_AT + 3400);
	try_atomics(&endpoint, from + WORD_AT);
	try_atomic_write(&endpoint, from + ATOMIC_WRITE_AT);
	try_flushes(&endpoint, from);
	try_chain(&endpoint, from + CHAIN_AT);
	try_burst(&endpoint, from + BURST_AT);
	endpoint_close(&endpoint);
	step(NULL, "disconnected");
}
