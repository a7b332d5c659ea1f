/*
 * The load of the bench: records over UDP, every acknowledgement checked.
 *
 *   load persist|echo PORT COUNT BURST WINDOW PSN OPERATION SLOTS CLIENT-QP < FRAME
 *
 * FRAME is one WRITE_PERSIST Only; each record is this frame with PSN, slot and operation of its
 * own. BURST records leave at once, whenever WINDOW has room for them. With `echo` the other end is
 * a plain echo, and what comes back must be what left. Prints one JSON object; an acknowledgement
 * that is wrong or does not come ends it with a word about it.
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
#include "frame.h"
#include "hal.h"

enum { BURST_MAX = 64, WINDOW_MAX = 1024, WAIT_MS = 5000, SOCKET_BYTES = 4 << 20 };

struct load {
  bool echoes;
  int fd;
  unsigned count, burst, window;
  uint32_t psn, operation, slots, client_qp;
  uint32_t frame_bytes;
  unsigned sent, done, answers;
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
}

/* Records up to this one, counted from 0, are answered. */
static void finish(struct load *load, unsigned end) {
  uint64_t now = now_ns();
  for (; load->done < end; load->done++) {
    load->took_ns[load->done] = (uint32_t)(now - load->sent_ns[load->done % WINDOW_MAX]);
  }
}

static void take_answer(struct load *load, const uint8_t *frame, uint32_t length) {
  must(length >= ACK_BYTES && icrc_flags(frame, length) == HAL_ICRC_GOOD, "an answer's ICRC");
  must(get24(frame + QP_AT) == load->client_qp, "an answer to another queue pair");
  must(frame[AETH_AT] == SYNDROME_ACK, "an answer that is no acknowledgement");
  if (frame[BTH_AT] == OPCODE_ACK) return;
  const uint8_t *paeth = frame + PAETH_AT;
  must(frame[BTH_AT] == OPCODE_PERSIST_ACK && length == PERSIST_ACK_BYTES, "an answer's opcode");
  uint32_t first = get24(paeth + 5), last = get24(paeth + 9);
  uint32_t records = (last - first + 1) & PSN_MASK;
  must(paeth[1] == PAETH_ALL && paeth[2] == 0, "a record that is not durable");
  must(first == ((load->psn + load->done) & PSN_MASK), "an acknowledgement out of order");
  must(records >= 1 && records <= load->sent - load->done, "records that nobody sent");
  must(get16(paeth + 30) == records && paeth[28] == COPIES, "records or copies miscounted");
  must(get32(paeth + 20) == load->operation + load->done + records - 1, "another operation");
  load->answers++;
  finish(load, load->done + records);
}

static void take_echo(struct load *load, const uint8_t *frame, uint32_t length) {
  must(length == load->frame_bytes, "an echo of another length");
  must(get32(frame + OPERATION_AT) == load->operation + load->done, "an echo out of order");
  finish(load, load->done + 1);
}

static void take_answers(struct load *load) {
  int came = recvmmsg(load->fd, load->in, BURST_MAX, MSG_DONTWAIT, NULL);
  if (came < 0 && errno == EAGAIN) {
    struct pollfd wait = {.fd = load->fd, .events = POLLIN};
    must(poll(&wait, 1, WAIT_MS) == 1, "no answer came");
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
  printf("{\"records\":%u,\"answers\":%u,\"seconds\":%.6f,\"minNs\":%u,\"medianNs\":%u,"
         "\"p90Ns\":%u}\n",
         load->count, load->answers, seconds, load->took_ns[0], load->took_ns[load->count / 2],
         load->took_ns[load->count / 10 * 9]);
}

static unsigned number(const char *text) { return (unsigned)strtoul(text, NULL, 10); }

static void open_socket(struct load *load, unsigned port) {
  int bytes = SOCKET_BYTES;
  struct sockaddr_in to = {.sin_family = AF_INET,
                           .sin_port = htons((uint16_t)port),
                           .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  load->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  must(load->fd >= 0, strerror(errno));
  setsockopt(load->fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  setsockopt(load->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  must(connect(load->fd, (struct sockaddr *)&to, sizeof to) == 0, strerror(errno));
}

int main(int count, char **arguments) {
  static struct load load;
  must(count == 10, "persist|echo PORT COUNT BURST WINDOW PSN OPERATION SLOTS CLIENT-QP");
  load.echoes = strcmp(arguments[1], "echo") == 0;
  load.count = number(arguments[3]);
  load.burst = number(arguments[4]);
  load.window = number(arguments[5]);
  load.psn = number(arguments[6]);
  load.operation = number(arguments[7]);
  load.slots = number(arguments[8]);
  load.client_qp = number(arguments[9]);
  must(load.count > 0 && load.burst > 0 && load.slots > 0, "a count of 0");
  must(load.burst <= BURST_MAX && load.window <= WINDOW_MAX, "a burst or window too large");
  load.frame_bytes = (uint32_t)fread(load.frame, 1, sizeof load.frame, stdin);
  must(load.frame_bytes >= PAYLOAD_AT + ICRC_BYTES, "half a frame");
  load.took_ns = calloc(load.count, sizeof *load.took_ns);
  must(load.took_ns != NULL, "no memory");
  lay_out(&load);
  open_socket(&load, number(arguments[2]));
  run(&load);
  return 0;
}
