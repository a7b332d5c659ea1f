/*
 * The invariant CRC of RoCEv2, as `boards/software/icrc.ts` defines it: see there for what it
 * covers, and which fields count as ones.
 *
 * Long runs are folded with carry-less multiplication where the CPU has it. Bytes are coefficients
 * of a polynomial over GF(2); sixteen of them may be replaced by their product with a power of x,
 * further back, because the CRC is a remainder:
 *
 *     ... [ 16 bytes ] [ 16 bytes ] ...      a * x^128 + b  =  (a mod P ...) + b   (mod P)
 *           a      ->    b + a * x^128
 *
 * Four such chains run side by side. What is left, sixteen bytes with the same remainder, goes
 * through the tables like any other bytes, so no second reduction is needed.
 */

#include "card/icrc.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "card/crc-table.h"
#include "hal.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <arm_neon.h>
#include <sys/auxv.h>
#endif

enum {
  ETHERNET_BYTES = 14,
  VLAN_BYTES = 4,
  IPV4_BYTES = 20,
  IPV6_BYTES = 40,
  UDP_BYTES = 8,
  BTH_BYTES = 12,
  ICRC_BYTES = 4,
  TYPE_VLAN = 0x8100,
  TYPE_IPV4 = 0x0800,
  TYPE_IPV6 = 0x86dd,
  OPCODE_FLUSH = 0x1c, /* the one request that Linux sends with an ICRC of its own */
  FOLD_BYTES_MIN = 64,
};

#define POLYNOMIAL 0xedb88320u

/* The register after the eight bytes of ones that stand for the absent local route header. */
#define START 0xdebb20e3u

/* Written once, before main runs. */
static struct crc_table table;

/* What two multiplications move sixteen bytes forward by: over 64 bytes, and over 16. */
static uint64_t fold_far[2], fold_near[2];

typedef uint32_t advance_function(uint32_t register_, const uint8_t *bytes, size_t length);

static advance_function advance_table;
static advance_function *advance = advance_table;
static const char *engine = "table";

static uint32_t load16_network(const uint8_t *bytes) {
  return (uint32_t)bytes[0] << 8 | bytes[1];
}

static uint32_t advance_table(uint32_t r, const uint8_t *bytes, size_t length) {
  return crc_table_advance(&table, r, bytes, length);
}

#if defined(__x86_64__)

__attribute__((target("pclmul,sse4.1"))) static inline __m128i fold(__m128i x, __m128i by) {
  return _mm_xor_si128(_mm_clmulepi64_si128(x, by, 0x00), _mm_clmulepi64_si128(x, by, 0x11));
}

__attribute__((target("pclmul,sse4.1"))) static inline __m128i load(const uint8_t *bytes) {
  return _mm_loadu_si128((const __m128i *)(const void *)bytes);
}

__attribute__((target("pclmul,sse4.1"))) static uint32_t advance_pclmulqdq(uint32_t r,
                                                                           const uint8_t *bytes,
                                                                           size_t length) {
  if (length < FOLD_BYTES_MIN) return advance_table(r, bytes, length);
  const __m128i far = load((const uint8_t *)fold_far);
  const __m128i near = load((const uint8_t *)fold_near);
  __m128i a = _mm_xor_si128(load(bytes), _mm_cvtsi32_si128((int)r));
  __m128i b = load(bytes + 16);
  __m128i c = load(bytes + 32);
  __m128i d = load(bytes + 48);
  for (bytes += 64, length -= 64; length >= 64; bytes += 64, length -= 64) {
    a = _mm_xor_si128(fold(a, far), load(bytes));
    b = _mm_xor_si128(fold(b, far), load(bytes + 16));
    c = _mm_xor_si128(fold(c, far), load(bytes + 32));
    d = _mm_xor_si128(fold(d, far), load(bytes + 48));
  }
  a = _mm_xor_si128(fold(a, near), b);
  a = _mm_xor_si128(fold(a, near), c);
  a = _mm_xor_si128(fold(a, near), d);
  for (; length >= 16; bytes += 16, length -= 16) a = _mm_xor_si128(fold(a, near), load(bytes));
  uint8_t left[16];
  _mm_storeu_si128((__m128i *)(void *)left, a);
  return advance_table(advance_table(0, left, sizeof left), bytes, length);
}

static void pick(void) {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("pclmul") || !__builtin_cpu_supports("sse4.1")) return;
  advance = advance_pclmulqdq;
  engine = "pclmulqdq";
}

#elif defined(__aarch64__)

__attribute__((target("+crc"))) static uint32_t advance_crc32(uint32_t r, const uint8_t *bytes,
                                                              size_t length) {
  for (; length >= 8; bytes += 8, length -= 8) {
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    r = __crc32d(r, word);
  }
  for (; length > 0; bytes++, length--) r = __crc32b(r, *bytes);
  return r;
}

__attribute__((target("+crypto"))) static inline uint64x2_t fold(uint64x2_t x, uint64x2_t by) {
  poly64x2_t a = vreinterpretq_p64_u64(x), b = vreinterpretq_p64_u64(by);
  poly128_t low = vmull_p64(vgetq_lane_p64(a, 0), vgetq_lane_p64(b, 0));
  poly128_t high = vmull_high_p64(a, b);
  return veorq_u64(vreinterpretq_u64_p128(low), vreinterpretq_u64_p128(high));
}

static inline uint64x2_t load(const uint8_t *bytes) {
  return vreinterpretq_u64_u8(vld1q_u8(bytes));
}

__attribute__((target("+crc+crypto"))) static uint32_t advance_pmull(uint32_t r,
                                                                     const uint8_t *bytes,
                                                                     size_t length) {
  if (length < 4 * FOLD_BYTES_MIN) return advance_crc32(r, bytes, length);
  const uint64x2_t far = vld1q_u64(fold_far);
  const uint64x2_t near = vld1q_u64(fold_near);
  uint64x2_t a = veorq_u64(load(bytes), vsetq_lane_u64(r, vdupq_n_u64(0), 0));
  uint64x2_t b = load(bytes + 16);
  uint64x2_t c = load(bytes + 32);
  uint64x2_t d = load(bytes + 48);
  for (bytes += 64, length -= 64; length >= 64; bytes += 64, length -= 64) {
    a = veorq_u64(fold(a, far), load(bytes));
    b = veorq_u64(fold(b, far), load(bytes + 16));
    c = veorq_u64(fold(c, far), load(bytes + 32));
    d = veorq_u64(fold(d, far), load(bytes + 48));
  }
  a = veorq_u64(fold(a, near), b);
  a = veorq_u64(fold(a, near), c);
  a = veorq_u64(fold(a, near), d);
  uint8_t left[16];
  vst1q_u8(left, vreinterpretq_u8_u64(a));
  return advance_crc32(advance_crc32(0, left, sizeof left), bytes, length);
}

/* Bits of AT_HWCAP, as asm/hwcap.h of the kernel numbers them. */
#define CPU_PMULL (1ul << 4)
#define CPU_CRC32 (1ul << 7)

static void pick(void) {
  unsigned long has = getauxval(AT_HWCAP);
  if ((has & CPU_CRC32) == 0) return;
  bool multiplies = (has & CPU_PMULL) != 0;
  advance = multiplies ? advance_pmull : advance_crc32;
  engine = multiplies ? "arm64 pmull" : "arm64 crc32";
}

#else

static void pick(void) {}

#endif

/*
 * The factors that move sixteen bytes over `bits` bits: for their first half, which is 64 bits
 * further away, and for their second. A product of two 64-bit polynomials in this order of bits
 * stands one bit low, hence the shift; and a 32-bit remainder fills the upper end of its 64 bits,
 * which is a factor of x^32.
 */
static void fold_factors(uint64_t factors[2], uint32_t bits) {
  factors[0] = (uint64_t)crc_power_of_x(POLYNOMIAL, bits + 32) << 1;
  factors[1] = (uint64_t)crc_power_of_x(POLYNOMIAL, bits - 32) << 1;
}

__attribute__((constructor)) static void prepare(void) {
  crc_table_fill(&table, POLYNOMIAL);
  fold_factors(fold_far, 512);
  fold_factors(fold_near, 128);
  pick();
}

bool icrc_locate(const uint8_t *frame, uint32_t length, struct icrc_place *place) {
  if (length < ETHERNET_BYTES + IPV4_BYTES) return false;
  uint32_t ip = ETHERNET_BYTES;
  uint32_t type = load16_network(frame + ip - 2);
  if (type == TYPE_VLAN) {
    ip += VLAN_BYTES;
    type = load16_network(frame + ip - 2);
  }
  uint32_t ip_bytes = IPV4_BYTES, datagram_bytes;
  if (type == TYPE_IPV4) {
    if (frame[ip] != 0x45) return false;
    datagram_bytes = load16_network(frame + ip + 2);
  } else if (type == TYPE_IPV6) {
    ip_bytes = IPV6_BYTES;
    if (ip + ip_bytes > length || frame[ip] >> 4 != 6) return false;
    datagram_bytes = ip_bytes + load16_network(frame + ip + 4);
  } else {
    return false;
  }
  if (datagram_bytes < ip_bytes + UDP_BYTES + BTH_BYTES + ICRC_BYTES) return false;
  if (ip + datagram_bytes > length) return false;
  place->ip_at = ip;
  place->ip_bytes = ip_bytes;
  place->bth_at = ip + ip_bytes + UDP_BYTES;
  place->icrc_at = ip + datagram_bytes - ICRC_BYTES;
  return true;
}

/* The register behind the datagram: headers from a masked copy, the rest where it is. */
static uint32_t register_behind(const uint8_t *frame, const struct icrc_place *place) {
  uint8_t masked[IPV6_BYTES + UDP_BYTES + BTH_BYTES];
  uint32_t ip_bytes = place->ip_bytes;
  uint32_t count = ip_bytes + UDP_BYTES + BTH_BYTES;
  memcpy(masked, frame + place->ip_at, count);
  if (ip_bytes == IPV6_BYTES) {
    masked[0] = 0x6f; /* the version stays; traffic class and flow label may change */
    masked[1] = masked[2] = masked[3] = 0xff;
    masked[7] = 0xff; /* hop limit */
  } else {
    masked[1] = 0xff;               /* type of service */
    masked[8] = 0xff;               /* time to live */
    masked[10] = masked[11] = 0xff; /* header checksum */
  }
  masked[ip_bytes + 6] = masked[ip_bytes + 7] = 0xff; /* UDP checksum */
  masked[ip_bytes + UDP_BYTES + 4] = 0xff;            /* the BTH's reserved byte */
  uint32_t at = place->ip_at + count;
  return advance(advance_table(START, masked, count), frame + at, place->icrc_at - at);
}

/* That of Linux's FLUSH: continued over BTH, FETH and RETH as they are (wire-format 2.5). */
static uint32_t register_linux_flush(uint32_t r, const uint8_t *frame,
                                     const struct icrc_place *place) {
  return advance(r, frame + place->bth_at, place->icrc_at - place->bth_at);
}

uint32_t icrc_flags(const uint8_t *frame, uint32_t length) {
  struct icrc_place place;
  if (!icrc_locate(frame, length, &place)) return 0;
  uint32_t found = load32(frame + place.icrc_at);
  uint32_t r = register_behind(frame, &place);
  if (found == ~r) return HAL_ICRC_GOOD;
  if (frame[place.bth_at] != OPCODE_FLUSH) return 0;
  return found == ~register_linux_flush(r, frame, &place) ? HAL_ICRC_GOOD_LINUX_FLUSH : 0;
}

bool icrc_fill(uint8_t *frame, uint32_t length, uint32_t kind) {
  struct icrc_place place;
  if (!icrc_locate(frame, length, &place)) return false;
  uint32_t r = register_behind(frame, &place);
  if (kind == HAL_ICRC_LINUX_FLUSH) r = register_linux_flush(r, frame, &place);
  uint32_t value = ~r;
  uint8_t *at = frame + place.icrc_at;
  for (int i = 0; i < ICRC_BYTES; i++) at[i] = (uint8_t)(value >> 8 * i);
  return true;
}

const char *icrc_engine(void) { return engine; }
