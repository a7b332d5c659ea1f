/*
 * A client of an RDMA target that publishes a region by RDMA-CM, in the manner of librpma's
 * examples. It uses rdma-core and nothing else.
 *
 *   verbs-client operations ADDRESS PORT FROM             every operation, from that offset on
 *   verbs-client refusals ADDRESS PORT READ_PORT WRITE_PORT FREE_PORT OTHERS_PORT
 *                                                         every refusal
 *   verbs-client losses ADDRESS PORT FROM ROUNDS requests|answers|both
 *                                                         rounds while frames of these are lost
 *   verbs-client stream ADDRESS PORT                      WRITE and FLUSH until the power goes
 *   verbs-client persisted ADDRESS PORT                   WRITE alone until the power goes
 *   verbs-client copies ADDRESS PORT PAIRS RECORD...      writes records of a pair region
 *   verbs-client copies-stream ADDRESS PORT PAIRS ROUNDS  on and on over a few records
 *   verbs-client look ADDRESS PORT PAIRS SLOTS            reads every copy
 *   verbs-client check ADDRESS PORT AT:LENGTH:TAG...      reads back and compares
 *
 * PAIRS is RKEY:REGION:KEY:COPIES:CAPACITY (slot.h), RECORD is SLOT:SEQUENCE:BYTES (copies.c).
 *
 * Exit code: 0 if every step went as it must, 1 if not, 2 for a wrong command line.
 */

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slot.h"
#include "steps.h"

int failures;

void pattern(uint8_t *bytes, uint32_t length, uint32_t tag)
{
	for (uint32_t i = 0; i < length; i++)
		bytes[i] = (uint8_t)(tag * 37 + i * 7 + (i >> 8));
}

bool has_pattern(const uint8_t *bytes, uint32_t length, uint32_t tag)
{
	for (uint32_t i = 0; i < length; i++)
		if (bytes[i] != (uint8_t)(tag * 37 + i * 7 + (i >> 8)))
			return false;
	return true;
}

static bool report(const char *why, const char *format, va_list arguments)
{
	printf(why == NULL ? "ok " : "FAIL ");
	vprintf(format, arguments);
	if (why != NULL)
		printf(": %s", why);
	printf("\n");
	fflush(stdout);
	if (why != NULL)
		failures++;
	return why == NULL;
}

bool step(const char *why, const char *format, ...)
{
	va_list arguments;
	bool well;

	va_start(arguments, format);
	well = report(why, format, arguments);
	va_end(arguments);
	return well;
}

bool step_status(int wanted, int status, const char *format, ...)
{
	char why[200];
	va_list arguments;
	bool well;

	snprintf(why, sizeof(why), "'%s', not '%s'", status_name(status), status_name(wanted));
	va_start(arguments, format);
	well = report(status == wanted ? NULL : why, format, arguments);
	va_end(arguments);
	return well;
}

void say_durable(uint64_t at, uint32_t length, uint32_t tag)
{
	printf("durable %" PRIu64 " %" PRIu32 " %" PRIu32 "\n", at, length, tag);
	fflush(stdout);
}

bool open_for(struct endpoint *endpoint, const char *address, const char *port, const char *what)
{
	char why[200];
	int refused;
	const char *failed = endpoint_open(endpoint, address, port, &refused);

	if (failed == NULL)
		return true;
	snprintf(why, sizeof(why), "%s (reason %d)", failed, refused);
	step(why, "%s", what);
	endpoint_close(endpoint);
	return false;
}

static void check(const char *address, const char *port, char *const *places, int count)
{
	struct endpoint endpoint;
	int different = 0;

	if (!open_for(&endpoint, address, port, "read back"))
		return;
	for (int i = 0; i < count; i++) {
		struct request request = { .operation = READ };
		uint32_t tag;

		if (sscanf(places[i], "%" SCNu64 ":%" SCNu32 ":%" SCNu32, &request.offset,
			   &request.length, &tag) != 3 ||
		    request.length > PART_BYTES) {
			step("no AT:LENGTH:TAG", "%s", places[i]);
			continue;
		}
		memset(endpoint.sink, 0xa5, request.length);
		if (endpoint_do(&endpoint, &request) != IBV_WC_SUCCESS ||
		    !has_pattern(endpoint.sink, request.length, tag)) {
			different++;
			step("not what was written", "%s", places[i]);
		}
	}
	step(different == 0 ? NULL : "bytes differ", "%d pieces read back", count);
	endpoint_close(&endpoint);
}

/* What is about a pair region; false for a wrong command line. */
static bool try_pairs(const char *mode, int count, char **arguments)
{
	const char *address = arguments[2], *port = arguments[3];
	struct pairs pairs;

	if (count < 6 || !read_pairs(&pairs, arguments[4]))
		return false;
	if (strcmp(mode, "copies") == 0)
		write_copies(address, port, &pairs, arguments + 5, count - 5);
	else if (strcmp(mode, "copies-stream") == 0)
		stream_copies(address, port, &pairs, (uint32_t)strtoul(arguments[5], NULL, 0));
	else if (strcmp(mode, "look") == 0)
		look_at_copies(address, port, &pairs, (uint32_t)strtoul(arguments[5], NULL, 0));
	else
		return false;
	return true;
}

int main(int count, char **arguments)
{
	const char *mode = count > 3 ? arguments[1] : "";

	if (strcmp(mode, "operations") == 0 && count == 5)
		try_operations(arguments[2], arguments[3], strtoull(arguments[4], NULL, 0));
	else if (strcmp(mode, "refusals") == 0 && count == 8)
		try_refusals(arguments[2], (const char *const *)arguments + 3);
	else if (strcmp(mode, "losses") == 0 && count == 7)
		try_losses(arguments[2], arguments[3], strtoull(arguments[4], NULL, 0),
			   (uint32_t)strtoul(arguments[5], NULL, 0), arguments[6]);
	else if (strcmp(mode, "stream") == 0 && count == 4)
		try_stream(arguments[2], arguments[3]);
	else if (strcmp(mode, "persisted") == 0 && count == 4)
		try_persisted(arguments[2], arguments[3]);
	else if (strcmp(mode, "check") == 0)
		check(arguments[2], arguments[3], arguments + 4, count - 4);
	else if (!try_pairs(mode, count, arguments))
		return 2;
	return failures == 0 ? 0 : 1;
}
