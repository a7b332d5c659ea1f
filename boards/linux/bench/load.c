/*
 * The load of the bench: records over UDP, every acknowledgement checked.
 *
 *   load WAY FROM PORT COUNT BURST WINDOW PSN OPERATION SLOTS CLIENT-QP < [KEYS] FRAME
 *
 * FRAME is one WRITE_PERSIST Only; each record is this frame with PSN, slot and operation of its
 * own. BURST records leave port FROM at once for PORT, whenever WINDOW has room for them. Prints
 * one JSON object; an acknowledgement that is wrong or does not come ends it with a word about it.
 * WAY is
 *
 *   persist   as that
 *   tagged    FRAME has room for a trailer, and 64 bytes of keys come first, as CONNECT tells them:
 *             of what the client sends, and of what the card does. Each record has a tag, the
 *             counter of the first one is its operation, and each answer must have one
 *   besieged  as tagged, where records may be lost on their way: from the first one that the card
 *             misses, or that is not answered in time, they are sent again
 *   echo      the other end is a plain echo, and what comes back must be what left
 */

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "card/icrc.h"
#include "card/tags.h"
#include "frame.h"
#include "hal.h"

enum {
  BURST_MAX = 64,
  WINDOW_MAX = 1024,
  WAIT_MS = 5000,
  AGAIN_MS = 10, /* until records that may be lost are sent again */
  SOCKET_BYTES = 4 << 20,
};

struct load {
  bool echoes, is_tagged, sends_again;
  int fd;
  unsigned count, burst, window;
  uint32_t psn, operation, slots, client_qp;
  uint32_t frame_bytes;
  unsigned sent, done, answers;
  unsigned begun; /* as sent, and never less again */
  unsigned again; /* records that were sent again */
  unsigned waits; /* for an answer, one after another */
  struct tags tags;
  uint64_t sent_ns[WINDOW_MAX];
  uint32_t *took_ns;
  uint8_t frame[HAL_FRAME_STRIDE_BYTES];
  uint8_t out_bytes[BURST_MAX][HAL_FRAME_STRIDE_BYTES];
  uint8_t in_bytes[BURST_MAX][HAL_FRAME_STRIDE_BYTES];
  struct mmsghdr out[BURST_MAX], in[BURST_MAX];
  struct iovec out_places[BURST_MAX], in_places[BURST_MAX];
};

static void must(bool holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "load: %s\n", what);
  exit(1);
}

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void lay_out(struct load *load) {
  for (int i = 0; i < BURST_MAX; i++) {
    load->out_places[i] = (struct iovec){load->out_bytes[i], load->frame_bytes};
    load->in_places[i] = (struct iovec){load->in_bytes[i], HAL_FRAME_STRIDE_BYTES};
    load->out[i].msg_hdr.msg_iov = &load->out_places[i];
    load->in[i].msg_hdr.msg_iov = &load->in_places[i];
    load->out[i].msg_hdr.msg_iovlen = load->in[i].msg_hdr.msg_iovlen = 1;
    memcpy(load->out_bytes[i], load->frame, load->frame_bytes);
  }
}

static void send_burst(struct load *load, unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    uint8_t *frame = load->out_bytes[i];
    uint32_t turn = load->sent + i;
    put24(frame + PSN_AT, (load->psn + turn) & PSN_MASK);
    put32(frame + SLOT_AT, (load->operation + turn) % load->slots);
    put32(frame + OPERATION_AT, load->operation + turn);
    if (load->is_tagged) {
      uint32_t place = load->client_qp % HAL_QUEUE_PAIRS;
      must(tags_fill(&load->tags, place, frame, load->frame_bytes), "a frame without room");
    }
    icrc_fill(frame, load->frame_bytes, HAL_ICRC_STANDARD);
  }
  uint64_t now = now_ns();
  for (unsigned i = 0; i < count; i++) load->sent_ns[(load->sent + i) % WINDOW_MAX] = now;
  for (unsigned at = 0; at < count;) {
    int sent = sendmmsg(load->fd, load->out + at, count - at, 0);
    must(sent > 0, strerror(errno));
    at += (unsigned)sent;
  }
  load->sent += count;
  if (load->sent > load->begun) load->begun = load->sent;
}

/* From that record on, counted from 0, they are sent again. */
static void go_back(struct load *load, unsigned to) {
  must(to <= load->begun, "a record asked for that nobody sent");
  if (to < load->done) to = load->done;
  if (to >= load->sent) return;
  load->again += load->sent - to;
  load->sent = to;
}

/* Records up to this one, counted from 0, are answered. */
static void finish(struct load *load, unsigned end) {
  uint64_t now = now_ns();
  for (; load->done < end; load->done++) {
    load->took_ns[load->done] = (uint32_t)(now - load->sent_ns[load->done % WINDOW_MAX]);
  }
  if (load->sent < load->done) load->sent = load->done;
  load->waits = 0;
}

static void take_receipt(struct load *load, const uint8_t *paeth) {
  uint32_t first = get24(paeth + 5), last = get24(paeth + 9);
  uint32_t records = (last - first + 1) & PSN_MASK;
  /* Those that were sent again are answered again. */
  uint32_t known = (load->psn + load->done - first) & PSN_MASK;
  must(paeth[1] == PAETH_ALL && paeth[2] == 0, "a record that is not durable");
  must(get16(paeth + 30) == records && paeth[28] == COPIES, "records or copies miscounted");
  if (load->sends_again && known >= records) return;
  must(known == 0 || load->sends_again, "an acknowledgement out of order");
  records -= known;
  must(records >= 1 && records <= load->begun - load->done, "records that nobody sent");
  must(get32(paeth + 20) == load->operation + load->done + records - 1, "another operation");
  load->answers++;
  finish(load, load->done + records);
}

static void take_answer(struct load *load, const uint8_t *frame, uint32_t length) {
  must(length >= ACK_BYTES && icrc_flags(frame, length) == HAL_ICRC_GOOD, "an answer's ICRC");
  must(get24(frame + QP_AT) == load->client_qp, "an answer to another queue pair");
  if (load->is_tagged) {
    must(tags_take(&load->tags, frame, length), "an answer's tag");
    length -= HAL_TRAILER_BYTES;
  }
  if (load->sends_again && frame[AETH_AT] == SYNDROME_NAK_SEQUENCE) {
    go_back(load, (get24(frame + PSN_AT) - load->psn) & PSN_MASK);
    return;
  }
  must(frame[AETH_AT] == SYNDROME_ACK, "an answer that is no acknowledgement");
  if (frame[BTH_AT] == OPCODE_ACK) return;
  must(frame[BTH_AT] == OPCODE_PERSIST_ACK && length == PERSIST_ACK_BYTES, "an answer's opcode");
  take_receipt(load, frame + PAETH_AT);
}

static void take_echo(struct load *load, const uint8_t *frame, uint32_t length) {
  must(length == load->frame_bytes, "an echo of another length");
  must(get32(frame + OPERATION_AT) == load->operation + load->done, "an echo out of order");
  finish(load, load->done + 1);
}

static void wait_for_answers(struct load *load) {
  struct pollfd wait = {.fd = load->fd, .events = POLLIN};
  int found = poll(&wait, 1, load->sends_again ? AGAIN_MS : WAIT_MS);
  must(found >= 0, strerror(errno));
  if (found > 0) return;
  must(load->sends_again && ++load->waits < WAIT_MS / AGAIN_MS, "no answer came");
  go_back(load, load->done);
}

static void take_answers(struct load *load) {
  int came = recvmmsg(load->fd, load->in, BURST_MAX, MSG_DONTWAIT, NULL);
  if (came < 0 && errno == EAGAIN) {
    wait_for_answers(load);
    return;
  }
  must(came > 0, strerror(errno));
  for (int i = 0; i < came; i++) {
    if (load->echoes) take_echo(load, load->in_bytes[i], load->in[i].msg_len);
    else take_answer(load, load->in_bytes[i], load->in[i].msg_len);
  }
}

static int by_size(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

static void run(struct load *load) {
  uint64_t begun = now_ns();
  while (load->done < load->count) {
    unsigned left = load->count - load->sent;
    unsigned burst = left < load->burst ? left : load->burst;
    if (burst > 0 && load->sent - load->done + burst <= load->window) send_burst(load, burst);
    else take_answers(load);
  }
  double seconds = (double)(now_ns() - begun) / 1e9;
  qsort(load->took_ns, load->count, sizeof *load->took_ns, by_size);
  printf("{\"records\":%u,\"again\":%u,\"answers\":%u,\"seconds\":%.6f,\"minNs\":%u,"
         "\"medianNs\":%u,\"p90Ns\":%u}\n",
         load->count, load->again, load->answers, seconds, load->took_ns[0],
         load->took_ns[load->count / 2], load->took_ns[load->count / 10 * 9]);
}

static unsigned number(const char *text) { return (unsigned)strtoul(text, NULL, 10); }

static struct sockaddr_in loopback(unsigned port) {
  return (struct sockaddr_in){.sin_family = AF_INET,
                              .sin_port = htons((uint16_t)port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void open_socket(struct load *load, unsigned from_port, unsigned port) {
  int bytes = SOCKET_BYTES, on = 1;
  struct sockaddr_in from = loopback(from_port), to = loopback(port);
  load->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  must(load->fd >= 0, strerror(errno));
  /* Who has made the queue pair keeps the port. */
  setsockopt(load->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(load->fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  setsockopt(load->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  must(bind(load->fd, (struct sockaddr *)&from, sizeof from) == 0, strerror(errno));
  must(connect(load->fd, (struct sockaddr *)&to, sizeof to) == 0, strerror(errno));
}

/* The card's keys of the queue pair have its end of them first, and ours stand the other way. */
static void read_keys(struct load *load) {
  uint8_t told[2 * HAL_TAG_KEY_BYTES], block[HAL_SECURE_BYTES];
  must(fread(told, 1, sizeof told, stdin) == sizeof told, "half the keys");
  memcpy(block, told + HAL_TAG_KEY_BYTES, HAL_TAG_KEY_BYTES);
  memcpy(block + HAL_TAG_KEY_BYTES, told, HAL_TAG_KEY_BYTES);
  memcpy(block + sizeof told, &load->client_qp, sizeof load->client_qp);
  uint32_t place = load->client_qp % HAL_QUEUE_PAIRS;
  must(tags_secure(&load->tags, place, block, sizeof block) == HAL_DONE, "keys without a place");
  load->tags.places[place].sent = load->operation;
}

int main(int count, char **arguments) {
  static struct load load;
  must(count == 11, "WAY FROM PORT COUNT BURST WINDOW PSN OPERATION SLOTS CLIENT-QP");
  load.echoes = strcmp(arguments[1], "echo") == 0;
  load.sends_again = strcmp(arguments[1], "besieged") == 0;
  load.is_tagged = load.sends_again || strcmp(arguments[1], "tagged") == 0;
  load.count = number(arguments[4]);
  load.burst = number(arguments[5]);
  load.window = number(arguments[6]);
  load.psn = number(arguments[7]);
  load.operation = number(arguments[8]);
  load.slots = number(arguments[9]);
  load.client_qp = number(arguments[10]);
  must(load.count > 0 && load.burst > 0 && load.slots > 0, "a count of 0");
  must(load.burst <= BURST_MAX && load.window <= WINDOW_MAX, "a burst or window too large");
  if (load.is_tagged) read_keys(&load);
  load.frame_bytes = (uint32_t)fread(load.frame, 1, sizeof load.frame, stdin);
  must(load.frame_bytes >= PAYLOAD_AT + ICRC_BYTES, "half a frame");
  load.took_ns = calloc(load.count, sizeof *load.took_ns);
  must(load.took_ns != NULL, "no memory");
  lay_out(&load);
  open_socket(&load, number(arguments[2]), number(arguments[3]));
  run(&load);
  return 0;
}
