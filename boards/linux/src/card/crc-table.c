#include "card/crc-table.h"

static uint32_t step(uint32_t r, uint32_t polynomial) {
  return (r & 1) != 0 ? r >> 1 ^ polynomial : r >> 1;
}

uint32_t crc_power_of_x(uint32_t polynomial, uint32_t n) {
  uint32_t r = 1u << 31;
  for (; n > 0; n--) r = step(r, polynomial);
  return r;
}

void crc_table_fill(struct crc_table *table, uint32_t polynomial) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t r = i;
    for (int bit = 0; bit < 8; bit++) r = step(r, polynomial);
    table->over[0][i] = r;
  }
  for (int zeros = 1; zeros < 8; zeros++) {
    for (int i = 0; i < 256; i++) {
      uint32_t before = table->over[zeros - 1][i];
      table->over[zeros][i] = table->over[0][before & 0xff] ^ before >> 8;
    }
  }
}

uint32_t crc_table_advance(const struct crc_table *table, uint32_t r, const uint8_t *bytes,
                           size_t length) {
  const uint32_t(*over)[256] = table->over;
  for (; length >= 8; bytes += 8, length -= 8) {
    uint32_t low = r ^ load32(bytes);
    uint32_t high = load32(bytes + 4);
    r = over[7][low & 0xff] ^ over[6][low >> 8 & 0xff] ^ over[5][low >> 16 & 0xff] ^
        over[4][low >> 24] ^ over[3][high & 0xff] ^ over[2][high >> 8 & 0xff] ^
        over[1][high >> 16 & 0xff] ^ over[0][high >> 24];
  }
  for (; length > 0; bytes++, length--) r = over[0][(r ^ *bytes) & 0xff] ^ r >> 8;
  return r;
}
