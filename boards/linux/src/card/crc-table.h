/*
 * A CRC of 32 bits by tables, eight bytes at a time: for a CPU that has no instruction for it, and
 * for what is too short for one. The polynomial is written with bit 31 for the coefficient of 1,
 * the order of bits in which both CRCs of RoCE run.
 */
#ifndef PERDURE_CRC_TABLE_H
#define PERDURE_CRC_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* Table k advances a byte over k further bytes of zeros. */
struct crc_table {
  uint32_t over[8][256];
};

/* x^n modulo the polynomial. */
uint32_t crc_power_of_x(uint32_t polynomial, uint32_t n);

void crc_table_fill(struct crc_table *table, uint32_t polynomial);

/* Runs the register over the bytes. */
uint32_t crc_table_advance(const struct crc_table *table, uint32_t r, const uint8_t *bytes,
                           size_t length);

/* Four bytes, the lowest first. */
static inline uint32_t load32(const uint8_t *bytes) {
  return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
         (uint32_t)bytes[3] << 24;
}

#endif
