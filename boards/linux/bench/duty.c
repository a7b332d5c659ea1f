/*
 * A C program of the firmware's duty for one shape of request, to hold the firmware against: the
 * same packets over the same link, the same bytes to the same memory with the same fences.
 *
 *   duty LINK MEMORY RKEY CHECK-KEY QP CLIENT-QP PSN SLOTS CAPACITY
 *
 * Per burst it judges every WRITE_PERSIST Only (addresses, key, bounds, PSN, ICRC), and commits
 * what it took as one group, as `firmware/commit/commit.ts` does: intents into lanes, fence; copy A
 * of every record, fence; the phase and the client's operations, fence; copy B and these once more,
 * fence; then one acknowledgement that names the range. It knows one client, one region and no
 * trouble: it stops at the first frame that is not as it should be. Prints the link's name, and
 * serves until it is killed.
 */

#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "card/icrc.h"
#include "frame.h"
#include "hal.h"
#include "link/link.h"
#include "memory/memory.h"

enum {
  LINE = 64,
  LANES_AT = 8192,
  OPERATIONS_AT = 12288,
  SLOTS_AT = 28672,
  CODE_BYTES = 16,
  KEY_BYTES = 16,
  SLOT_MAGIC = 0x5044534c,
  LANE_MAGIC = 0x5044494e,
  PHASE_A = 0xa1,
  PHASE_B = 0xb2,
};

struct lane {
  uint32_t phase, phase_sequence, magic, region, record, length;
  uint64_t sequence, client, operation;
  uint8_t code[CODE_BYTES];
};

struct slot_header {
  uint8_t code[CODE_BYTES];
  uint32_t magic, region, record, length;
  uint64_t sequence, client, operation;
  uint32_t version, zero;
};

struct operations {
  uint8_t code[CODE_BYTES];
  uint64_t sequence, client, newest, below;
  uint32_t bitmap[4];
};

_Static_assert(sizeof(struct lane) == LINE, "a lane is a line");
_Static_assert(sizeof(struct slot_header) == LINE, "a slot's header is a line");
_Static_assert(sizeof(struct operations) == LINE, "a client's operations are a line");

/* A record that was taken: its image stands in the receive place, over the headers. */
struct record {
  uint8_t *image;
  uint32_t slot, image_bytes, phase[2];
};

struct duty {
  struct link link;
  struct memory memory;
  uint8_t *packets;
  uint32_t rkey, qp, client_qp, psn, slots, capacity, stride, msn;
  uint64_t sequence, client, operation;
  uint8_t key[KEY_BYTES], part_key[KEY_BYTES];
  struct record group[HAL_BURST_FRAMES];
  struct lane lanes[HAL_BURST_FRAMES];
  struct operations operations;
  uint8_t template[PERSIST_ACK_BYTES];
  bool has_template;
};

static void must(bool holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "duty: %s\n", what);
  exit(1);
}

static uint8_t *place(struct duty *duty, int i) {
  return duty->packets + HAL_RECEIVE_AT + i * HAL_FRAME_STRIDE_BYTES + HAL_FRAME_OFFSET_BYTES;
}

/* Whether the frame is a request that we take; the rest of the checks are those of the record. */
static bool is_request(const struct duty *duty, const uint8_t *frame, uint32_t length) {
  static const uint8_t own[] = {2, 0, 0, 0, 0, 2};
  if (length < PAYLOAD_AT + ICRC_BYTES || memcmp(frame, own, sizeof own) != 0) return false;
  if (get16(frame + 12) != 0x0800 || frame[IP_AT] != 0x45 || frame[IP_AT + 9] != 17) return false;
  if (get16(frame + IP_LENGTH_AT) + IP_AT > length) return false;
  if (get16(frame + UDP_LENGTH_AT) != get16(frame + IP_LENGTH_AT) - 20) return false;
  if (get16(frame + UDP_AT + 2) != ROCE_PORT || frame[BTH_AT] != OPCODE_PERSIST_ONLY) return false;
  return get16(frame + BTH_AT + 2) == 0xffff && get24(frame + QP_AT) == duty->qp;
}

static void take_record(struct duty *duty, uint8_t *frame, uint32_t length, unsigned i) {
  uint32_t bytes = get32(frame + LENGTH_AT), slot = get32(frame + SLOT_AT);
  must(get24(frame + PSN_AT) == duty->psn, "a PSN that is not the next");
  must(get32(frame + RKEY_AT) == duty->rkey, "another key");
  must(slot < duty->slots && get32(frame + OFFSET_AT) == 0, "an address out of bounds");
  must(bytes <= duty->capacity && bytes == length - PAYLOAD_AT - ICRC_BYTES, "a length");
  must(frame[PWETH_AT] == 0x14 && frame[PWETH_AT + 1] == 0x64, "a way to persist");
  duty->psn = (duty->psn + 1) & PSN_MASK;
  duty->operation = (uint64_t)get32(frame + OPERATION_AT - 4) << 32 | get32(frame + OPERATION_AT);
  duty->sequence++;
  duty->msn = (duty->msn + 1) & PSN_MASK;
  struct record *record = &duty->group[i];
  record->slot = slot;
  record->image = frame + PAYLOAD_AT - LINE;
  record->image_bytes = (LINE + bytes + LINE - 1) / LINE * LINE;
  struct slot_header header = {.magic = SLOT_MAGIC,
                               .region = 1,
                               .record = slot,
                               .length = bytes,
                               .sequence = duty->sequence,
                               .client = duty->client,
                               .operation = duty->operation,
                               .version = 1};
  memcpy(record->image, &header, sizeof header);
  memset(record->image + LINE + bytes, 0, record->image_bytes - LINE - bytes);
  crypto_shorthash_siphashx24(record->image, record->image + CODE_BYTES, LINE - CODE_BYTES + bytes,
                              duty->key);
  struct lane *lane = &duty->lanes[i];
  *lane = (struct lane){.phase = PHASE_A | (uint32_t)(uint8_t)~PHASE_A << 8,
                        .phase_sequence = (uint32_t)duty->sequence,
                        .magic = LANE_MAGIC,
                        .region = 1,
                        .record = slot,
                        .length = bytes,
                        .sequence = duty->sequence,
                        .client = duty->client,
                        .operation = duty->operation};
  crypto_shorthash_siphashx24(lane->code, (const uint8_t *)lane + 8, 40, duty->part_key);
  record->phase[0] = PHASE_B | (uint32_t)(uint8_t)~PHASE_B << 8;
  record->phase[1] = (uint32_t)duty->sequence;
}

static void store(struct duty *duty, uint64_t at, const void *bytes, size_t length) {
  memcpy(duty->memory.live + at, bytes, length);
  memory_clean(&duty->memory, at, length);
}

static void fence(struct duty *duty) {
  must(memory_fence(&duty->memory) == HAL_DONE, "a fence that did not hold");
}

static void store_copies(struct duty *duty, unsigned count, uint64_t copy_at) {
  for (unsigned i = 0; i < count; i++) {
    const struct record *record = &duty->group[i];
    store(duty, copy_at + (uint64_t)record->slot * duty->stride, record->image,
          record->image_bytes);
  }
}

/* Adds the group to the client's line: it never has gaps here. */
static void add_operations(struct duty *duty, unsigned count) {
  struct operations *line = &duty->operations;
  for (uint64_t id = duty->operation - count + 1; id <= duty->operation; id++) {
    line->bitmap[id / 32 % 4] |= 1u << id % 32;
  }
  line->sequence = duty->sequence;
  line->client = duty->client;
  line->newest = duty->operation;
  crypto_shorthash_siphashx24(line->code, (const uint8_t *)line + CODE_BYTES, LINE - CODE_BYTES,
                              duty->part_key);
}

static void commit(struct duty *duty, unsigned count) {
  uint64_t copy_bytes = (uint64_t)duty->slots * duty->stride;
  for (unsigned i = 0; i < count; i++) {
    store(duty, LANES_AT + i * LINE, &duty->lanes[i], sizeof duty->lanes[i]);
  }
  fence(duty);
  store_copies(duty, count, SLOTS_AT);
  fence(duty);
  for (unsigned i = 0; i < count; i++) {
    store(duty, LANES_AT + i * LINE, duty->group[i].phase, sizeof duty->group[i].phase);
  }
  add_operations(duty, count);
  store(duty, OPERATIONS_AT, &duty->operations, LINE);
  fence(duty);
  store_copies(duty, count, SLOTS_AT + copy_bytes);
  store(duty, OPERATIONS_AT + LINE, &duty->operations, LINE);
  fence(duty);
}

/* Headers of an answer to that request: addresses exchanged, IP's checksum made again. */
static void make_template(struct duty *duty, const uint8_t *request) {
  uint8_t *t = duty->template;
  memcpy(t, request, BTH_AT);
  memcpy(t, request + 6, 6);
  memcpy(t + 6, request, 6);
  memcpy(t + IP_AT + 12, request + IP_AT + 16, 4);
  memcpy(t + IP_AT + 16, request + IP_AT + 12, 4);
  put16(t + BTH_AT + 2, 0xffff);
  put24(t + QP_AT, duty->client_qp);
  t[AETH_AT] = SYNDROME_ACK;
  t[PAETH_AT] = 0x18;
  t[PAETH_AT + 1] = PAETH_ALL;
  t[PAETH_AT + 28] = COPIES;
  t[PAETH_AT + 29] = 1;
  duty->has_template = true;
}

static void answer(struct duty *duty, uint8_t opcode, uint32_t bytes, uint32_t first,
                   unsigned count) {
  unsigned index = opcode == OPCODE_ACK ? 0 : 1;
  uint8_t *frame = duty->packets + HAL_TRANSMIT_AT + index * HAL_FRAME_STRIDE_BYTES + 2;
  memcpy(frame, duty->template, bytes);
  put16(frame + IP_LENGTH_AT, bytes - IP_AT);
  put16(frame + UDP_LENGTH_AT, bytes - UDP_AT);
  put16(frame + IP_CHECKSUM_AT, 0);
  uint32_t sum = 0;
  for (int i = 0; i < 20; i += 2) sum += get16(frame + IP_AT + i);
  sum = (sum & 0xffff) + (sum >> 16);
  put16(frame + IP_CHECKSUM_AT, ~(sum + (sum >> 16)) & 0xffff);
  frame[BTH_AT] = opcode;
  put24(frame + PSN_AT, (duty->psn - 1) & PSN_MASK);
  put24(frame + AETH_AT + 1, duty->msn);
  if (opcode == OPCODE_PERSIST_ACK) {
    put24(frame + PAETH_AT + 5, first);
    put24(frame + PAETH_AT + 9, (duty->psn - 1) & PSN_MASK);
    put32(frame + PAETH_AT + 16, (uint32_t)(duty->operation >> 32));
    put32(frame + PAETH_AT + 20, (uint32_t)duty->operation);
    put32(frame + PAETH_AT + 24, 1);
    put16(frame + PAETH_AT + 30, count);
  }
  must(icrc_fill(frame, bytes, HAL_ICRC_STANDARD), "an answer without a place for its ICRC");
  duty->link.transmit(&duty->link, frame, bytes);
}

static void serve(struct duty *duty, int count) {
  uint32_t first = duty->psn;
  bool wants_ack = false;
  for (int i = 0; i < count; i++) {
    uint32_t told[2];
    memcpy(told, duty->packets + HAL_RECEIVED_AT + i * (int)sizeof told, sizeof told);
    uint8_t *frame = place(duty, i);
    must(told[1] == HAL_ICRC_GOOD, "an ICRC that is wrong");
    must(is_request(duty, frame, told[0]), "a frame that is no request of ours");
    if (!duty->has_template) make_template(duty, frame);
    wants_ack |= (frame[BTH_AT + 8] & 0x80) != 0;
    take_record(duty, frame, told[0], (unsigned)i);
  }
  if (wants_ack) answer(duty, OPCODE_ACK, ACK_BYTES, first, (unsigned)count);
  commit(duty, (unsigned)count);
  answer(duty, OPCODE_PERSIST_ACK, PERSIST_ACK_BYTES, first, (unsigned)count);
  duty->link.flush(&duty->link);
}

static uint32_t number(const char *text) { return (uint32_t)strtoul(text, NULL, 10); }

static void set_up(struct duty *duty, char **arguments) {
  struct fault fault;
  duty->rkey = number(arguments[3]);
  must(strlen(arguments[4]) == 2 * KEY_BYTES, "a check key has 16 bytes");
  sodium_hex2bin(duty->key, KEY_BYTES, arguments[4], 2 * KEY_BYTES, NULL, NULL, NULL);
  duty->qp = number(arguments[5]);
  duty->client_qp = number(arguments[6]);
  duty->psn = number(arguments[7]);
  duty->slots = number(arguments[8]);
  duty->capacity = number(arguments[9]);
  duty->stride = (LINE + duty->capacity + LINE - 1) / LINE * LINE;
  duty->client = 7;
  uint64_t bytes = SLOTS_AT + (uint64_t)COPIES * duty->slots * duty->stride;
  const struct memory_options options = {.path = arguments[2],
                                         .bytes = (bytes + 4095) / 4096 * 4096,
                                         .create = true,
                                         .development = true};
  must(memory_open(&duty->memory, &options, &fault), fault.text);
  must(link_open(&duty->link, arguments[1], &fault), fault.text);
  duty->packets = aligned_alloc(4096, (HAL_MEMORY_BYTES + 4095) / 4096 * 4096);
  must(duty->packets != NULL, "no memory");
  memset(duty->packets, 0, HAL_MEMORY_BYTES);
}

int main(int count, char **arguments) {
  static struct duty duty;
  must(count == 10, "LINK MEMORY RKEY CHECK-KEY QP CLIENT-QP PSN SLOTS CAPACITY");
  must(sodium_init() >= 0, "libsodium");
  set_up(&duty, arguments);
  printf("%s\n", duty.link.name);
  fflush(stdout);
  for (;;) {
    int frames = duty.link.receive(&duty.link, duty.packets);
    if (frames > 0) serve(&duty, frames);
    if (frames == HAL_BURST_FRAMES) continue;
    struct pollfd wait = {.fd = duty.link.descriptor(&duty.link), .events = POLLIN};
    poll(&wait, 1, -1);
  }
}
