#pragma once

#include <stdint.h>

/* CRC-32C of the bytes, as `boards/software/guard.ts` defines it. */
uint32_t crc32c(const uint8_t *bytes, uint32_t length);
