#pragma once

#include <stdint.h>

/* CRC-32C of the bytes, as `boards/software/guard.ts` defines it. */
uint32_t crc32c(const uint8_t *bytes, uint32_t length);

/* By what it is computed on this CPU, for people. */
const char *crc32c_engine(void);
