/*
 * Every refusal: what an RDMA target of persistent memory must not do, and how it says so.
 *
 * Invariant: each refusal has a connection of its own, because it ends it; afterwards the
 * queue pair is in the error state, which the request behind the refused one shows.
 */

#include <stdio.h>
#include <string.h>

#include "steps.h"

#define ACCESS IBV_WC_REM_ACCESS_ERR
#define INVALID IBV_WC_REM_INV_REQ_ERR

/* InvalidServiceID of a REJ, and ConsumerReject (IBTA 12.6.7.2). */
#define NOTHING_THERE 8
#define OF_THE_CARD 28

/* Why a request is refused. */
enum reason {
	WRONG_KEY,
	BEHIND,	     /* `offset` counts from the region's end */
	BEFORE,	     /* `offset` is negative */
	NOT_ALIGNED, /* an invalid request, the others are errors of access */
	NO_RIGHT,    /* at a port that publishes the region without it */
};

struct refusal {
	const char *name;
	enum operation operation;
	enum reason reason;
	int64_t offset;
	uint32_t length;
	uint8_t flush_level;
};

static const struct refusal refusals[] = {
	{ "WRITE, wrong key", WRITE, WRONG_KEY, 0, 8, 0 },
	{ "WRITE, one byte too far", WRITE, BEHIND, -7, 8, 0 },
	{ "WRITE of several packets, one byte too far", WRITE, BEHIND, -4999, 5000, 0 },
	{ "WRITE before the region", WRITE, BEFORE, -8, 8, 0 },
	{ "WRITE, no right", WRITE, NO_RIGHT, 0, 8, 0 },
	{ "WRITE with immediate, wrong key", WRITE_IMM, WRONG_KEY, 0, 8, 0 },
	{ "WRITE with immediate, too far", WRITE_IMM, BEHIND, 0, 1, 0 },
	{ "WRITE with immediate, no right", WRITE_IMM, NO_RIGHT, 0, 8, 0 },
	{ "READ, wrong key", READ, WRONG_KEY, 0, 8, 0 },
	{ "READ, one byte too far", READ, BEHIND, -7, 8, 0 },
	{ "READ of several packets, too far", READ, BEHIND, -4096, 5000, 0 },
	{ "READ, no right", READ, NO_RIGHT, 0, 8, 0 },
	{ "FETCH_ADD, wrong key", FETCH_ADD, WRONG_KEY, 0, 8, 0 },
	{ "FETCH_ADD, too far", FETCH_ADD, BEHIND, 0, 8, 0 },
	{ "FETCH_ADD, not aligned", FETCH_ADD, NOT_ALIGNED, 4, 8, 0 },
	{ "FETCH_ADD, no right", FETCH_ADD, NO_RIGHT, 0, 8, 0 },
	{ "CMP_SWAP, wrong key", COMPARE_SWAP, WRONG_KEY, 0, 8, 0 },
	{ "CMP_SWAP, too far", COMPARE_SWAP, BEHIND, 0, 8, 0 },
	{ "CMP_SWAP, not aligned", COMPARE_SWAP, NOT_ALIGNED, 1, 8, 0 },
	{ "CMP_SWAP, no right", COMPARE_SWAP, NO_RIGHT, 0, 8, 0 },
	{ "ATOMIC WRITE, wrong key", ATOMIC_WRITE, WRONG_KEY, 0, 8, 0 },
	{ "ATOMIC WRITE, too far", ATOMIC_WRITE, BEHIND, 0, 8, 0 },
	{ "ATOMIC WRITE, not aligned", ATOMIC_WRITE, NOT_ALIGNED, 4, 8, 0 },
	{ "ATOMIC WRITE, no right", ATOMIC_WRITE, NO_RIGHT, 0, 8, 0 },
	{ "FLUSH, wrong key", FLUSH, WRONG_KEY, 0, 8, IBV_FLUSH_RANGE },
	{ "FLUSH, one byte too far", FLUSH, BEHIND, -4095, 4096, IBV_FLUSH_RANGE },
	{ "FLUSH of a whole region, wrong key", FLUSH, WRONG_KEY, 0, 0, IBV_FLUSH_MR },
	{ "FLUSH, no right", FLUSH, NO_RIGHT, 0, 8, IBV_FLUSH_RANGE },
	{ "FLUSH of a whole region, no right", FLUSH, NO_RIGHT, 0, 0, IBV_FLUSH_MR },
	{ "SEND with invalidate, wrong key", SEND_INVALIDATE, WRONG_KEY, 0, 8, 0 },
};

static enum port port_of(const struct refusal *refusal)
{
	if (refusal->reason != NO_RIGHT)
		return ALL_RIGHTS;
	return refusal->operation == READ ? WRITE_ONLY : READ_ONLY;
}

static struct request made(const struct refusal *refusal, const struct region *region)
{
	bool behind = refusal->reason == BEHIND;

	return (struct request){
		.operation = refusal->operation,
		.offset = (behind ? region->size : 0) + (uint64_t)refusal->offset,
		.length = refusal->length,
		/* The place in the table of regions stays, the random part is another. */
		.key = refusal->reason == WRONG_KEY ? region->key ^ 0x5a5a5a00 : 0,
		.flush_type = IBV_FLUSH_PERSISTENT,
		.flush_level = refusal->flush_level,
	};
}

static void try_refusal(const char *address, const char *const *ports,
			const struct refusal *refusal)
{
	struct request behind = { .operation = READ, .length = 8 };
	struct request request;
	struct endpoint endpoint;
	int status, next;

	if (!open_for(&endpoint, address, ports[port_of(refusal)], refusal->name))
		return;
	request = made(refusal, &endpoint.region);
	status = endpoint_do(&endpoint, &request);
	if (step_status(refusal->reason == NOT_ALIGNED ? INVALID : ACCESS, status, "refused: %s",
			refusal->name)) {
		next = endpoint_do(&endpoint, &behind);
		if (next != IBV_WC_WR_FLUSH_ERR)
			step(status_name(next), "the connection ends with it: %s", refusal->name);
	}
	endpoint_close(&endpoint);
}

/* A key that was invalidated works no more on this connection, and goes on working on others. */
static void try_invalidated(const char *address, const char *port)
{
	struct request invalidate = { .operation = SEND_INVALIDATE, .length = 8 };
	struct request write = { .operation = WRITE, .length = 8 };
	struct endpoint endpoint;

	if (!open_for(&endpoint, address, port, "SEND with invalidate"))
		return;
	step_status(IBV_WC_SUCCESS, endpoint_do(&endpoint, &invalidate), "SEND with invalidate");
	step_status(ACCESS, endpoint_do(&endpoint, &write), "refused: WRITE, key invalidated");
	endpoint_close(&endpoint);
	if (!open_for(&endpoint, address, port, "the key works on the next connection"))
		return;
	step_status(IBV_WC_SUCCESS, endpoint_do(&endpoint, &write),
		    "the key works on the next connection");
	endpoint_close(&endpoint);
}

static void try_closed_port(const char *address, const char *port, int expected,
			    const char *what)
{
	struct endpoint endpoint;
	char why[200];
	int reason;
	const char *failed = endpoint_open(&endpoint, address, port, &reason);

	snprintf(why, sizeof(why), "%s, reason %d, not %d", failed == NULL ? "connected" : failed,
		 reason, expected);
	step(failed != NULL && reason == expected ? NULL : why, what);
	endpoint_close(&endpoint);
}

/* What was refused changed nothing, and what needs no key is not refused. */
static void try_zero_lengths(const char *address, const char *port)
{
	struct request write = { .operation = WRITE };
	struct request read = { .operation = READ };
	struct endpoint endpoint;

	if (!open_for(&endpoint, address, port, "operations of 0 bytes"))
		return;
	write.key = read.key = endpoint.region.key ^ 0x5a5a5a00;
	step_status(IBV_WC_SUCCESS, endpoint_do(&endpoint, &write), "WRITE of 0 needs no key");
	step_status(IBV_WC_SUCCESS, endpoint_do(&endpoint, &read), "READ of 0 needs no key");
	endpoint_close(&endpoint);
}

void try_refusals(const char *address, const char *const *ports)
{
	try_closed_port(address, ports[NOTHING], NOTHING_THERE,
			"rejected: a port where nothing is published");
	try_closed_port(address, ports[FOR_OTHERS], OF_THE_CARD,
			"rejected: a port that is for other addresses");
	for (uint32_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
		try_refusal(address, ports, &refusals[i]);
	try_invalidated(address, ports[ALL_RIGHTS]);
	try_zero_lengths(address, ports[ALL_RIGHTS]);
}
