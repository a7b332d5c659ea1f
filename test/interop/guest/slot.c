/* See slot.h. */

#include "slot.h"

#include <stdio.h>
#include <string.h>

#define CODE_BYTES 16
#define MAGIC 0x5044534c
#define VERSION 1

#define MAGIC_AT 16
#define REGION_AT 20
#define RECORD_AT 24
#define LENGTH_AT 28
#define SEQUENCE_AT 32
#define CLIENT_AT 40
#define OPERATION_AT 48
#define VERSION_AT 56
#define GUARD_AT 60

/* A copy is looked at through a view of its own, behind those of the settled record. */
#define FIRST_COPY 2

static void put(uint8_t *bytes, uint64_t value, int count)
{
	for (int i = 0; i < count; i++)
		bytes[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get(const uint8_t *bytes, int count)
{
	uint64_t value = 0;

	while (count-- > 0)
		value = value << 8 | bytes[count];
	return value;
}

bool read_pairs(struct pairs *pairs, const char *text)
{
	char key[2 * KEY_BYTES + 1];

	if (sscanf(text, "%u:%u:%32[0-9a-f]:%u:%u", &pairs->key, &pairs->region, key,
		   &pairs->copies, &pairs->capacity) != 5)
		return false;
	for (int i = 0; i < KEY_BYTES; i++) {
		unsigned int byte;

		if (sscanf(key + 2 * i, "%2x", &byte) != 1)
			return false;
		pairs->check_key[i] = (uint8_t)byte;
	}
	return pairs->copies >= 2 && pairs->copies <= COPIES_MAX;
}

/* RFC 3720, appendix B.4: reflected, polynomial 0x1EDC6F41. */
uint32_t crc32c(const uint8_t *bytes, uint32_t length)
{
	uint32_t crc = 0xffffffff;

	for (uint32_t i = 0; i < length; i++) {
		crc ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return ~crc;
}

static uint64_t rotate(uint64_t word, int bits)
{
	return word << bits | word >> (64 - bits);
}

static void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] = rotate(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[2] = rotate(v[2], 32);
}

static void take(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	sip_round(v);
	sip_round(v);
	v[0] ^= word;
}

static uint64_t give(uint64_t v[4])
{
	for (int i = 0; i < 4; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* SipHash-2-4 with 128 bits (Aumasson and Bernstein). */
static void check_code(uint8_t *code, const uint8_t *bytes, uint32_t length, const uint8_t *key)
{
	uint64_t low = get(key, 8), high = get(key + 8, 8);
	uint64_t v[4] = { low ^ 0x736f6d6570736575, high ^ 0x646f72616e646f6d ^ 0xee,
			  low ^ 0x6c7967656e657261, high ^ 0x7465646279746573 };
	uint32_t at = 0;

	for (; at + 8 <= length; at += 8)
		take(v, get(bytes + at, 8));
	take(v, get(bytes + at, (int)(length - at)) | (uint64_t)length << 56);
	v[2] ^= 0xee;
	put(code, give(v), 8);
	v[1] ^= 0xdd;
	put(code + 8, give(v), 8);
}

uint32_t image_bytes(uint32_t length)
{
	return HEADER_BYTES + ((length + LINE_BYTES - 1) & ~(uint32_t)(LINE_BYTES - 1));
}

uint64_t copy_address(uint32_t slot, uint32_t copy)
{
	return (uint64_t)slot << 32 | (uint64_t)(FIRST_COPY + copy) << 28;
}

static void image_code(uint8_t *code, const uint8_t *bytes, uint32_t length,
		       const struct pairs *pairs)
{
	check_code(code, bytes + CODE_BYTES, HEADER_BYTES - CODE_BYTES + length, pairs->check_key);
}

void make_image(uint8_t *bytes, const struct pairs *pairs, const struct image *image)
{
	uint32_t end = HEADER_BYTES + image->length;

	put(bytes + MAGIC_AT, MAGIC, 4);
	put(bytes + REGION_AT, pairs->region, 4);
	put(bytes + RECORD_AT, image->slot, 4);
	put(bytes + LENGTH_AT, image->length, 4);
	put(bytes + SEQUENCE_AT, image->sequence, 8);
	put(bytes + CLIENT_AT, 0, 8);
	put(bytes + OPERATION_AT, 0, 8);
	put(bytes + VERSION_AT, VERSION, 4);
	put(bytes + GUARD_AT, image->guard, 4);
	memset(bytes + end, 0, image_bytes(image->length) - end);
	image_code(bytes, bytes, image->length, pairs);
}

const char *check_image(struct image *into, const uint8_t *bytes, const struct pairs *pairs,
			uint32_t slot)
{
	uint8_t code[CODE_BYTES];

	if (get(bytes + MAGIC_AT, 4) != MAGIC || get(bytes + VERSION_AT, 4) != VERSION)
		return "no image";
	if (get(bytes + REGION_AT, 4) != pairs->region || get(bytes + RECORD_AT, 4) != slot)
		return "of another place";
	into->slot = slot;
	into->length = (uint32_t)get(bytes + LENGTH_AT, 4);
	into->sequence = get(bytes + SEQUENCE_AT, 8);
	into->guard = (uint32_t)get(bytes + GUARD_AT, 4);
	if (into->length > pairs->capacity)
		return "torn";
	image_code(code, bytes, into->length, pairs);
	if (memcmp(code, bytes, CODE_BYTES) != 0)
		return "torn";
	if (into->guard != 0 && into->guard != crc32c(bytes + HEADER_BYTES, into->length))
		return "damaged";
	return NULL;
}
