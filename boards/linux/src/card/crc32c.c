/*
 * CRC-32C, as `boards/software/guard.ts` defines it: by the instruction that x86-64 (SSE 4.2) and
 * arm64 (CRC) have for this very polynomial, eight bytes at a time; by tables elsewhere.
 *
 * The instruction takes three cycles and could start each cycle. So long runs go as three chains
 * side by side, which `behind` puts together: it moves a register over the bytes of a chain, as if
 * these were zeros.
 */

#include "card/crc32c.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "card/crc-table.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#endif

#define POLYNOMIAL 0x82f63b78u

enum { CHAIN_BYTES = 256 };

/* Written once, before main runs. */
static struct crc_table table;

/* Table k moves byte k of a register over CHAIN_BYTES of zeros. */
static uint32_t chain[4][256];

typedef uint32_t advance_function(uint32_t r, const uint8_t *bytes, size_t length);

static advance_function advance_table;
static advance_function *advance = advance_table;
static const char *engine = "table";

static uint32_t advance_table(uint32_t r, const uint8_t *bytes, size_t length) {
  return crc_table_advance(&table, r, bytes, length);
}

static uint32_t behind(uint32_t r) {
  return chain[0][r & 0xff] ^ chain[1][r >> 8 & 0xff] ^ chain[2][r >> 16 & 0xff] ^
         chain[3][r >> 24];
}

#if defined(__x86_64__)

#define TARGET __attribute__((target("sse4.2")))
#define ENGINE "sse4.2"
#define STEP64(r, word) ((uint32_t)_mm_crc32_u64((r), (word)))
#define STEP8(r, byte) _mm_crc32_u8((r), (byte))

static bool has_instruction(void) {
  __builtin_cpu_init();
  return __builtin_cpu_supports("sse4.2");
}

#elif defined(__aarch64__)

/* Bit of AT_HWCAP, as asm/hwcap.h of the kernel numbers it. */
#define CPU_CRC32 (1ul << 7)
#define TARGET __attribute__((target("+crc")))
#define ENGINE "arm64 crc32c"
#define STEP64(r, word) __crc32cd((r), (word))
#define STEP8(r, byte) __crc32cb((r), (byte))

static bool has_instruction(void) { return (getauxval(AT_HWCAP) & CPU_CRC32) != 0; }

#endif

#if defined(TARGET)

static uint64_t load64(const uint8_t *bytes) {
  uint64_t word;
  memcpy(&word, bytes, sizeof word);
  return word;
}

TARGET static uint32_t advance_instruction(uint32_t r, const uint8_t *bytes, size_t length) {
  for (; length >= 3 * CHAIN_BYTES; bytes += 3 * CHAIN_BYTES, length -= 3 * CHAIN_BYTES) {
    uint32_t a = r, b = 0, c = 0;
    for (size_t i = 0; i < CHAIN_BYTES; i += 8) {
      a = STEP64(a, load64(bytes + i));
      b = STEP64(b, load64(bytes + CHAIN_BYTES + i));
      c = STEP64(c, load64(bytes + 2 * CHAIN_BYTES + i));
    }
    r = behind(behind(a) ^ b) ^ c;
  }
  for (; length >= 8; bytes += 8, length -= 8) r = STEP64(r, load64(bytes));
  for (; length > 0; bytes++, length--) r = STEP8(r, *bytes);
  return r;
}

static void pick(void) {
  if (!has_instruction()) return;
  advance = advance_instruction;
  engine = ENGINE;
}

#else

static void pick(void) {}

#endif

__attribute__((constructor)) static void prepare(void) {
  static const uint8_t zeros[CHAIN_BYTES];
  crc_table_fill(&table, POLYNOMIAL);
  for (int byte = 0; byte < 4; byte++) {
    for (uint32_t i = 0; i < 256; i++) {
      chain[byte][i] = advance_table(i << 8 * byte, zeros, CHAIN_BYTES);
    }
  }
  pick();
}

uint32_t crc32c(const uint8_t *bytes, uint32_t length) { return ~advance(~0u, bytes, length); }

const char *crc32c_engine(void) { return engine; }
