/*
 * Records of a pair region, whose copies a client writes by itself: WRITE A, FLUSH A, WRITE B,
 * FLUSH B, and so on, posted as one chain. Every record has the pattern of its sequence, and the
 * guard that this client has computed of it.
 *
 * Invariants:
 * - `flushed SLOT SEQUENCE COPY` is said when the FLUSH of that copy has succeeded, in the order of
 *   the copies.
 * - A record is not written again before all of its copies are flushed, and then under the next
 *   sequence.
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "slot.h"
#include "steps.h"

/* Chains on their way at once, each of a record of its own; each has a place in our memory. */
#define CHAINS 4
#define CHAIN_BYTES (PART_BYTES / CHAINS)

/* Several packets, the last one not whole. */
#define STREAM_BYTES 2500

/* As of the other streams: so long a card without power is waited for. */
#define SILENCE_MS 15000

struct record {
	uint32_t slot;
	uint64_t sequence;
	uint32_t length;
	char damage; /* 'g': another guard; 'd': other data, behind the guard; 'n': no guard */
};

/* The image of the record, at that place of our memory. */
static uint32_t prepare(struct endpoint *endpoint, const struct pairs *pairs,
			const struct record *record, uint32_t at)
{
	uint8_t *bytes = endpoint->source + at;
	struct image image = { .slot = record->slot,
			       .length = record->length,
			       .sequence = record->sequence };

	pattern(bytes + HEADER_BYTES, record->length, (uint32_t)record->sequence);
	image.guard = record->damage == 'n' ? 0 : crc32c(bytes + HEADER_BYTES, record->length);
	if (record->damage == 'g')
		image.guard ^= 0x10;
	if (record->damage == 'd')
		bytes[HEADER_BYTES + record->length / 2] ^= 0x10;
	make_image(bytes, pairs, &image);
	return image_bytes(record->length);
}

/* Posts the chain of copies [first, last). Returns 0 or an errno. */
static int post_chain(struct endpoint *endpoint, const struct pairs *pairs,
		      const struct record *record, uint32_t at, uint32_t first, uint32_t last)
{
	uint32_t length = prepare(endpoint, pairs, record, at);

	for (uint32_t copy = first; copy < last; copy++) {
		uint64_t offset = copy_address(record->slot, copy);
		struct request write = { .operation = WRITE,
					 .offset = offset,
					 .length = length,
					 .key = pairs->key,
					 .at = at };
		struct request flush = { .operation = FLUSH,
					 .offset = offset,
					 .length = length,
					 .key = pairs->key,
					 .flush_type = IBV_FLUSH_PERSISTENT };
		int failed = endpoint_post(endpoint, &write);

		if (failed == 0)
			failed = endpoint_post(endpoint, &flush);
		if (failed != 0)
			return failed;
	}
	return 0;
}

/* Awaits the next completion. Returns whether it is a success; says which copy was flushed. */
static bool next_done(struct endpoint *endpoint, const struct record *record, uint32_t *copy)
{
	struct ibv_wc completion;

	if (!endpoint_wait_for(endpoint, &completion, SILENCE_MS) ||
	    completion.status != IBV_WC_SUCCESS)
		return false;
	if (completion.wr_id == FLUSH) {
		printf("flushed %" PRIu32 " %" PRIu64 " %" PRIu32 "\n", record->slot,
		       record->sequence, *copy);
		fflush(stdout);
		*copy += 1;
	}
	return true;
}

static bool connect_to(struct endpoint *endpoint, const char *address, const char *port)
{
	int refused;
	const char *failed = endpoint_connect(endpoint, address, port, &refused);

	if (failed == NULL)
		return true;
	step(failed, "connection to the pair region");
	endpoint_close(endpoint);
	return false;
}

/* SLOT:SEQUENCE:BYTES, and behind that :COPY for one copy alone, and g, d or n for a damage. */
static bool read_record(struct record *record, const struct pairs *pairs, const char *text,
			uint32_t *first, uint32_t *last)
{
	int only = -1, end = 0;

	memset(record, 0, sizeof(*record));
	if (sscanf(text, "%" SCNu32 ":%" SCNu64 ":%" SCNu32 "%n", &record->slot, &record->sequence,
		   &record->length, &end) != 3)
		return false;
	if (text[end] == ':') {
		int more = 0;

		if (sscanf(text + end, ":%d%n", &only, &more) != 1)
			return false;
		end += more;
	}
	record->damage = text[end];
	*first = only < 0 ? 0 : (uint32_t)only;
	*last = only < 0 ? pairs->copies : (uint32_t)only + 1;
	return *last <= pairs->copies && image_bytes(record->length) <= CHAIN_BYTES;
}

void write_copies(const char *address, const char *port, const struct pairs *pairs,
		  char *const *records, int count)
{
	struct endpoint endpoint;

	if (!connect_to(&endpoint, address, port))
		return;
	for (int i = 0; i < count; i++) {
		struct record record;
		uint32_t first, last, copy, done = 0;

		if (!read_record(&record, pairs, records[i], &first, &last)) {
			step("no SLOT:SEQUENCE:BYTES", "%s", records[i]);
			continue;
		}
		copy = first;
		if (post_chain(&endpoint, pairs, &record, 0, first, last) != 0) {
			step(status_name(-1), "chain of record %u", record.slot);
			break;
		}
		while (done < 2 * (last - first) && next_done(&endpoint, &record, &copy))
			done++;
		if (!step(done == 2 * (last - first) ? NULL : "it failed", "chain of record %u",
			  record.slot))
			break;
	}
	endpoint_close(&endpoint);
}

void stream_copies(const char *address, const char *port, const struct pairs *pairs,
		   uint32_t rounds)
{
	struct endpoint endpoint;
	struct record records[CHAINS];
	uint32_t posted = 0, ended = 0, steps = 0, copy = 0;
	bool well = true;

	if (!connect_to(&endpoint, address, port))
		return;
	while (well && ended < rounds) {
		while (posted < rounds && posted < ended + CHAINS) {
			struct record *record = &records[posted % CHAINS];

			*record = (struct record){ .slot = posted % CHAINS,
						   .sequence = 1 + posted / CHAINS,
						   .length = STREAM_BYTES };
			if (post_chain(&endpoint, pairs, record, posted % CHAINS * CHAIN_BYTES, 0,
				       pairs->copies) != 0)
				break;
			posted++;
		}
		well = next_done(&endpoint, &records[ended % CHAINS], &copy);
		if (well && ++steps == 2 * pairs->copies) {
			ended++;
			steps = copy = 0;
		}
	}
	printf("posted %" PRIu32 " ended %" PRIu32 "\n", posted, ended);
	endpoint_close(&endpoint);
}

/* Reads one copy into our memory. Returns NULL, or what is wrong with it. */
static const char *look_at_copy(struct endpoint *endpoint, const struct pairs *pairs, uint32_t slot,
				uint32_t copy, struct image *into)
{
	struct request read = { .operation = READ,
				.offset = copy_address(slot, copy),
				.length = image_bytes(pairs->capacity),
				.key = pairs->key };
	int status;

	memset(endpoint->sink, 0xa5, read.length);
	status = endpoint_do(endpoint, &read);
	if (status != IBV_WC_SUCCESS)
		return status_name(status);
	return check_image(into, endpoint->sink, pairs, slot);
}

void look_at_copies(const char *address, const char *port, const struct pairs *pairs,
		    uint32_t slots)
{
	struct endpoint endpoint;

	if (!connect_to(&endpoint, address, port))
		return;
	for (uint32_t slot = 0; slot < slots; slot++)
		for (uint32_t copy = 0; copy < pairs->copies; copy++) {
			struct image image;
			const char *why = look_at_copy(&endpoint, pairs, slot, copy, &image);

			if (why == NULL &&
			    !has_pattern(endpoint.sink + HEADER_BYTES, image.length,
					 (uint32_t)image.sequence))
				why = "other data than its sequence says";
			if (why == NULL)
				printf("copy %" PRIu32 " %" PRIu32 " %" PRIu64 " %08" PRIx32 "\n",
				       slot, copy, image.sequence, image.guard);
			else
				printf("copy %" PRIu32 " %" PRIu32 " - %s\n", slot, copy, why);
		}
	step(NULL, "%u records looked at", slots);
	endpoint_close(&endpoint);
}
