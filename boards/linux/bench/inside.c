/*
 * A link that costs nothing, for the bench: records come from memory and answers go to memory, so
 * that what is measured is the program and not the kernel's way to it. The linker leads the calls
 * of `link_open`, `poll` and `ppoll` through here (`--wrap`), in perdured and in the C program of
 * the same duty alike; neither has a line for it.
 *
 * Invariants:
 * - Until an order comes, the link is the real one. An order is an Ethernet frame of the type for
 *   local experiments (IEEE 802, 88b5) with `struct order` and one WRITE_PERSIST Only behind its
 *   header; when its records have run, one JSON object goes back to where it came from.
 * - Records are numbered and sealed outside the timed part. Timed is the processor time of the
 *   thread, per chunk of CHUNK records: placing the frame, its ICRC, everything that the program
 *   does with it, and the answers with their ICRC.
 * - Every answer must be one of success, and every record must be acknowledged, or the run says so.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "card/icrc.h"
#include "frame.h"
#include "hal.h"
#include "link/link-kinds.h"
#include "link/link.h"

enum {
  CHUNK = 2048,
  CHUNKS_MAX = 4096,
  SINKS = 64,
  TYPE_AT = 12,
  ORDER_AT = ETHERNET_HEADER_BYTES,
  TYPE_ORDER = 0x88b5,
  LINE = 64,
  ANSWER_BYTES = 256,
};

/* Little-endian words, as the host that sends them. */
struct order {
  uint32_t count, burst, psn, operation, slots, frame_bytes;
};

static struct {
  bool runs;
  struct order order;
  uint8_t back[ORDER_AT]; /* Ethernet header of the answer to the order */
  uint8_t *pool;          /* a chunk of frames */
  size_t stride;
  uint32_t given, pooled, sent, acked, refused;
  uint64_t begun_ns;
  double chunks[CHUNKS_MAX]; /* ns per record */
  unsigned chunk_count;
  uint8_t sinks[SINKS][HAL_FRAME_STRIDE_BYTES];
  unsigned sunk;
  int (*receive)(struct link *link, uint8_t *packets);
  void (*transmit)(struct link *link, const uint8_t *frame, uint32_t length);
  void (*flush)(struct link *link);
} inside;

static uint64_t thread_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint32_t fewer(uint32_t one, uint32_t other) { return one < other ? one : other; }

/* Numbers and seals the next chunk, and begins to measure. */
static void next_chunk(void) {
  const struct order *order = &inside.order;
  inside.pooled = fewer(order->count - inside.sent, CHUNK);
  inside.given = 0;
  for (uint32_t i = 0; i < inside.pooled; i++) {
    uint8_t *frame = inside.pool + i * inside.stride;
    uint32_t turn = inside.sent + i;
    put24(frame + PSN_AT, (order->psn + turn) & PSN_MASK);
    put32(frame + SLOT_AT, (order->operation + turn) % order->slots);
    put32(frame + OPERATION_AT, order->operation + turn);
    icrc_fill(frame, order->frame_bytes, HAL_ICRC_STANDARD);
  }
  inside.begun_ns = thread_ns();
}

static void begin(const uint8_t *frame, uint32_t length) {
  struct order *order = &inside.order;
  if (length < ORDER_AT + sizeof *order) return;
  memcpy(order, frame + ORDER_AT, sizeof *order);
  const uint8_t *record = frame + ORDER_AT + sizeof *order;
  if (length != ORDER_AT + sizeof *order + order->frame_bytes || order->count == 0) return;
  memcpy(inside.back, frame + 6, 6);
  memcpy(inside.back + 6, frame, 6);
  memcpy(inside.back + TYPE_AT, frame + TYPE_AT, 2);
  inside.stride = (order->frame_bytes + LINE - 1) / LINE * LINE;
  free(inside.pool);
  inside.pool = aligned_alloc(LINE, CHUNK * inside.stride);
  if (inside.pool == NULL) abort();
  for (size_t i = 0; i < CHUNK; i++) {
    memcpy(inside.pool + i * inside.stride, record, order->frame_bytes);
  }
  inside.sent = inside.acked = inside.refused = inside.chunk_count = 0;
  inside.runs = true;
  next_chunk();
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static void finish(struct link *link) {
  unsigned count = inside.chunk_count;
  inside.runs = false;
  qsort(inside.chunks, count, sizeof inside.chunks[0], by_size);
  uint8_t answer[ANSWER_BYTES] = {0};
  memcpy(answer, inside.back, sizeof inside.back);
  int length = snprintf((char *)answer + ORDER_AT, sizeof answer - ORDER_AT,
                        "{\"records\":%u,\"acked\":%u,\"refused\":%u,"
                        "\"p10Ns\":%.1f,\"medianNs\":%.1f}",
                        inside.order.count, inside.acked, inside.refused,
                        inside.chunks[count / 10], inside.chunks[count / 2]);
  inside.transmit(link, answer, ORDER_AT + (uint32_t)length);
  inside.flush(link);
}

/* From the real link, as long as no order comes. */
static int from_outside(struct link *link, uint8_t *packets) {
  int count = inside.receive(link, packets);
  if (count != 1) return count;
  const uint8_t *frame = receive_place(packets, 0);
  uint32_t length;
  memcpy(&length, packets + HAL_RECEIVED_AT, sizeof length);
  if (get16(frame + TYPE_AT) != TYPE_ORDER) return count;
  begin(frame, length);
  return 0;
}

static int inside_receive(struct link *link, uint8_t *packets) {
  if (!inside.runs) return from_outside(link, packets);
  if (inside.given == inside.pooled) {
    double spent = (double)(thread_ns() - inside.begun_ns);
    if (inside.chunk_count < CHUNKS_MAX) {
      inside.chunks[inside.chunk_count++] = spent / inside.pooled;
    }
    if (inside.sent == inside.order.count) {
      finish(link);
      return 0;
    }
    next_chunk();
  }
  uint32_t left = inside.pooled - inside.given;
  uint32_t count = fewer(fewer(left, inside.order.burst), HAL_BURST_FRAMES);
  for (uint32_t i = 0; i < count; i++) {
    const uint8_t *frame = inside.pool + (inside.given + i) * inside.stride;
    memcpy(receive_place(packets, (int)i), frame, inside.order.frame_bytes);
    receive_tell(link, packets, (int)i, inside.order.frame_bytes);
  }
  inside.given += count;
  inside.sent += count;
  return (int)count;
}

static void inside_transmit(struct link *link, const uint8_t *frame, uint32_t length) {
  if (!inside.runs) {
    inside.transmit(link, frame, length);
    return;
  }
  memcpy(inside.sinks[inside.sunk++ % SINKS], frame, length);
  link->counters.sent++;
  if (frame[BTH_AT] != OPCODE_PERSIST_ACK) return;
  const uint8_t *paeth = frame + PAETH_AT;
  bool is_good = frame[AETH_AT] == SYNDROME_ACK && paeth[1] == PAETH_ALL;
  if (is_good) inside.acked += get16(paeth + 30);
  else inside.refused++;
}

static void inside_flush(struct link *link) {
  if (!inside.runs) inside.flush(link);
}

bool __real_link_open(struct link *link, const char *where, struct fault *fault);
bool __wrap_link_open(struct link *link, const char *where, struct fault *fault);
bool __wrap_link_open(struct link *link, const char *where, struct fault *fault) {
  if (!__real_link_open(link, where, fault)) return false;
  inside.receive = link->receive;
  inside.transmit = link->transmit;
  inside.flush = link->flush;
  link->receive = inside_receive;
  link->transmit = inside_transmit;
  link->flush = inside_flush;
  return true;
}

/* While records run nobody waits for anything. */
int __real_poll(struct pollfd *places, nfds_t count, int wait_ms);
int __wrap_poll(struct pollfd *places, nfds_t count, int wait_ms);
int __wrap_poll(struct pollfd *places, nfds_t count, int wait_ms) {
  return inside.runs ? 0 : __real_poll(places, count, wait_ms);
}

int __real_ppoll(struct pollfd *places, nfds_t count, const struct timespec *wait,
                 const sigset_t *signals);
int __wrap_ppoll(struct pollfd *places, nfds_t count, const struct timespec *wait,
                 const sigset_t *signals);
int __wrap_ppoll(struct pollfd *places, nfds_t count, const struct timespec *wait,
                 const sigset_t *signals) {
  return inside.runs ? 0 : __real_ppoll(places, count, wait, signals);
}
