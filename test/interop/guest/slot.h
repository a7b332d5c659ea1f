/*
 * The image of a record as it lies in a pair region, made and checked by the client alone.
 *
 *    byte  0  check code, 16 bytes: SipHash-2-4-128 under the region's key, of all that follows
 *         16  magic, region, record, length           32-bit words, little-endian
 *         32  sequence, client, operation             64-bit words
 *         56  version, guard                          the guard: CRC-32C of the data
 *         64  the data, then zeros to a whole line
 *
 * Invariant: nothing here is the product's own code. What the card, the driver and this agree on is
 * what the pages say (firmware/medium/slot.ts has the map).
 */

#ifndef SLOT_H
#define SLOT_H

#include <stdbool.h>
#include <stdint.h>

#define HEADER_BYTES 64
#define LINE_BYTES 64
#define KEY_BYTES 16
#define COPIES_MAX 4

/* What a client has to know of a pair region. */
struct pairs {
	uint32_t key;                 /* R_Key */
	uint32_t region;              /* id */
	uint8_t check_key[KEY_BYTES]; /* of the check codes */
	uint32_t copies;
	uint32_t capacity; /* bytes of data */
};

/* One image, as it is to be written, or as it was found. */
struct image {
	uint32_t slot;
	uint32_t length; /* bytes of data */
	uint64_t sequence;
	uint32_t guard;
};

/* Reads "RKEY:REGION:KEY:COPIES:CAPACITY", numbers in decimal, KEY in hexadecimal. */
bool read_pairs(struct pairs *pairs, const char *text);

/* CRC-32C (Castagnoli), of no bytes 0. */
uint32_t crc32c(const uint8_t *bytes, uint32_t length);

/* Bytes of an image with so many bytes of data. */
uint32_t image_bytes(uint32_t length);

/* Where copy `copy` of the record is addressed. */
uint64_t copy_address(uint32_t slot, uint32_t copy);

/* Makes the image around the data, which stands at `bytes` + HEADER_BYTES. */
void make_image(uint8_t *bytes, const struct pairs *pairs, const struct image *image);

/* Reads and checks the image of that slot. Returns NULL, or what is wrong with it. */
const char *check_image(struct image *into, const uint8_t *bytes, const struct pairs *pairs,
			uint32_t slot);

#endif
