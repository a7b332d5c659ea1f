/*
 * Where the fields of the bench's frames stand: WRITE_PERSIST Only over IPv4, and its answers. The
 * headers are those of `firmware/wire/`; a bench speaks one shape of frame only.
 */
#ifndef PERDURE_BENCH_FRAME_H
#define PERDURE_BENCH_FRAME_H

#include <stdint.h>

enum {
  IP_AT = 14,
  IP_LENGTH_AT = IP_AT + 2,
  IP_CHECKSUM_AT = IP_AT + 10,
  UDP_AT = IP_AT + 20,
  UDP_LENGTH_AT = UDP_AT + 4,
  BTH_AT = UDP_AT + 8,
  QP_AT = BTH_AT + 5,
  PSN_AT = BTH_AT + 9,
  AETH_AT = BTH_AT + 12,
  PAETH_AT = AETH_AT + 4,
  RETH_AT = BTH_AT + 12,
  SLOT_AT = RETH_AT,
  OFFSET_AT = RETH_AT + 4,
  RKEY_AT = RETH_AT + 8,
  LENGTH_AT = RETH_AT + 12,
  PWETH_AT = RETH_AT + 16,
  OPERATION_AT = PWETH_AT + 12,
  PAYLOAD_AT = PWETH_AT + 16,
  ICRC_BYTES = 4,
  ACK_BYTES = AETH_AT + 4 + ICRC_BYTES,
  /* 32 bytes of PAETH (firmware/wire/persist-ack.ts). */
  PERSIST_ACK_BYTES = PAETH_AT + 32 + ICRC_BYTES,
  OPCODE_ACK = 0x11,
  OPCODE_PERSIST_ONLY = 0xca,
  OPCODE_PERSIST_ACK = 0xd1,
  SYNDROME_ACK = 0x1f,
  SYNDROME_NAK_SEQUENCE = 0x60,
  PAETH_ALL = 0x80,
  COPIES = 2,
  ROCE_PORT = 4791,
  PSN_MASK = 0xffffff,
};

static inline uint32_t get32(const uint8_t *at) {
  uint32_t value;
  __builtin_memcpy(&value, at, sizeof value);
  return __builtin_bswap32(value);
}

static inline void put32(uint8_t *at, uint32_t value) {
  value = __builtin_bswap32(value);
  __builtin_memcpy(at, &value, sizeof value);
}

static inline uint32_t get24(const uint8_t *at) {
  return (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2];
}

static inline void put24(uint8_t *at, uint32_t value) {
  at[0] = (uint8_t)(value >> 16);
  at[1] = (uint8_t)(value >> 8);
  at[2] = (uint8_t)value;
}

static inline uint32_t get16(const uint8_t *at) { return (uint32_t)at[0] << 8 | at[1]; }

static inline void put16(uint8_t *at, uint32_t value) {
  at[0] = (uint8_t)(value >> 8);
  at[1] = (uint8_t)value;
}

#endif
