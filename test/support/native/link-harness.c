/*
 * A board that does nothing but packets, for test/boards/linux/linux-link.test.ts.
 *
 *   link-harness icrc          judges and fills frames: on stdin and stdout, see judge_frames
 *   link-harness crc32c        computes: a 32-bit length and so many bytes in, 32 bits out
 *   link-harness echo WHERE... sends every frame back with its Ethernet addresses exchanged, over
 *                              so many links
 *   link-harness relay A B     hands every frame of one link to the other; prints the names of both
 *   link-harness peers         whose addresses are: see judge_peers
 *
 * The echo takes lines on stdin: "pause" and "resume", "step" (one burst), "send LENGTH COUNT"
 * (broadcasts that it makes itself), "listen MAC", "later SECONDS" (so much time has passed),
 * "freeze" (no other time passes), "ignore BYTE" (frames whose last byte is that are not sent
 * back), "counters". It answers each with a line, and ends with stdin.
 */

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "card/crc32c.h"
#include "card/icrc.h"
#include "hal.h"
#include "link/clock.h"
#include "link/links.h"
#include "link/known/peers.h"

static void must(bool holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "%s\n", what);
  exit(3);
}

static void put(const void *bytes, size_t length) {
  must(fwrite(bytes, 1, length, stdout) == length, "cannot write");
}

/*
 * In: a 32-bit length, then a frame, over and over. Out: 32-bit flags, then whether it was filled
 * and the frame with the standard ICRC, then the same with that of Linux's FLUSH. Each frame lies
 * at the very end of its block, at an odd address: the sanitizers see every byte too far.
 */
static int judge_frames(void) {
  uint32_t length;
  while (fread(&length, sizeof length, 1, stdin) == 1) {
    uint8_t *block = malloc(length + 1);
    must(block != NULL, "no memory");
    uint8_t *frame = block + 1;
    must(fread(frame, 1, length, stdin) == length, "half a frame");
    uint32_t flags = icrc_flags(frame, length);
    put(&flags, sizeof flags);
    for (uint32_t kind = 0; kind <= HAL_ICRC_LINUX_FLUSH; kind += HAL_ICRC_LINUX_FLUSH) {
      uint32_t filled = icrc_fill(frame, length, kind);
      put(&filled, sizeof filled);
      put(frame, length);
    }
    free(block);
  }
  fprintf(stderr, "%s\n", icrc_engine());
  return 0;
}

/* As judge_frames, of any bytes. */
static int compute_guards(void) {
  uint32_t length;
  while (fread(&length, sizeof length, 1, stdin) == 1) {
    uint8_t *block = malloc(length + 1);
    must(block != NULL, "no memory");
    must(fread(block + 1, 1, length, stdin) == length, "half of the bytes");
    uint32_t code = crc32c(block + 1, length);
    put(&code, sizeof code);
    free(block);
  }
  fprintf(stderr, "%s\n", crc32c_engine());
  return 0;
}

static void tell_endpoint(void *whom, const struct endpoint *endpoint) {
  (void)whom;
  char text[ENDPOINT_TEXT_BYTES];
  endpoint_write(endpoint, text);
  printf(" %s", text);
}

/*
 * In, a line each: "hear MAC WHERE NOW", an address as a number, an endpoint, microseconds; "find
 * MAC"; "all". Out, a line each: 1 or 0; the endpoint, or nothing; every endpoint.
 */
static int judge_peers(void) {
  static struct peers peers;
  peers_init(&peers);
  unsigned long long mac, now;
  char line[160], where[128];
  struct endpoint from;
  struct fault fault;
  while (fgets(line, sizeof line, stdin) != NULL) {
    if (sscanf(line, "hear %llu %127s %llu", &mac, where, &now) == 3) {
      must(endpoint_parse(&from, where, &fault), fault.text);
      printf("%d", peers_hear(&peers, mac, &from, now));
    } else if (sscanf(line, "find %llu", &mac) == 1) {
      const struct endpoint *at = peers_find(&peers, mac);
      if (at != NULL) tell_endpoint(NULL, at);
    } else {
      must(peers_count(&peers) <= PEERS_MAX, "more than are remembered");
      peers_everybody(&peers, tell_endpoint, NULL);
    }
    printf("\n");
  }
  return 0;
}

enum { UNTOUCHED = 0xa5 };

static uint8_t packets[HAL_MEMORY_BYTES];

static uint8_t *place(int i) {
  return packets + HAL_RECEIVE_AT + i * HAL_FRAME_STRIDE_BYTES + HAL_FRAME_OFFSET_BYTES;
}

/* What no link may write: everything but the places of the frames, and what is told of them. */
static void check_untouched(void) {
  for (int i = 0; i < HAL_BURST_FRAMES; i++) {
    for (int k = HAL_FRAME_BYTES_MAX; k < HAL_FRAME_STRIDE_BYTES; k++) {
      must(place(i)[k] == UNTOUCHED, "a frame was written beyond its place");
    }
  }
  for (int i = 0; i < HAL_RECEIVED_AT; i++) must(packets[i] == UNTOUCHED, "written before");
  for (int i = HAL_RECEIVED_AT + 8 * HAL_BURST_FRAMES; i < HAL_RECEIVE_AT; i++) {
    must(packets[i] == UNTOUCHED, "written between");
  }
}

static unsigned ignored = 256;

static void echo_burst(struct links *links) {
  int count = links_receive(links, packets);
  must(count >= 0 && count <= HAL_BURST_FRAMES, "no burst has so many");
  for (int i = 0; i < count; i++) {
    uint32_t told[2];
    memcpy(told, packets + HAL_RECEIVED_AT + i * (int)sizeof told, sizeof told);
    must(told[0] >= 14 && told[0] <= HAL_FRAME_BYTES_MAX, "a length that no frame has");
    must(told[1] == icrc_flags(place(i), told[0]), "flags of another frame");
    if (place(i)[told[0] - 1] == ignored) continue;
    uint8_t *frame = packets + HAL_TRANSMIT_AT + HAL_FRAME_OFFSET_BYTES;
    memcpy(frame, place(i), told[0]);
    memcpy(frame, place(i) + 6, 6);
    memcpy(frame + 6, place(i), 6);
    links_transmit(links, frame, told[0]);
    memset(frame, 0, told[0]); /* the place is ours again */
  }
  links_flush(links);
  check_untouched();
}

static void send_broadcasts(struct links *links, uint32_t length, unsigned count) {
  static uint8_t frame[2 * HAL_FRAME_STRIDE_BYTES];
  memset(frame, 0xff, sizeof frame);
  for (unsigned i = 0; i < count; i++) {
    memcpy(frame + 14, &i, sizeof i);
    links_transmit(links, frame, length);
  }
  links_flush(links);
}

static void tell_counters(const struct links *links) {
  const struct link_counters sum = links_sum(links), *c = &sum;
  printf("{\"received\":%llu,\"receivedBytes\":%llu,\"sent\":%llu,\"sentBytes\":%llu,"
         "\"receiveDropped\":%llu,\"receiveClaimed\":%llu,\"sendDropped\":%llu,\"floods\":%llu}\n",
         (unsigned long long)c->received, (unsigned long long)c->received_bytes,
         (unsigned long long)c->sent, (unsigned long long)c->sent_bytes,
         (unsigned long long)c->receive_dropped, (unsigned long long)c->receive_claimed,
         (unsigned long long)c->send_dropped, (unsigned long long)c->floods);
}

static uint64_t (*real_us)(void);
static uint64_t skipped_us, frozen_us;

static uint64_t later_us(void) {
  return (frozen_us != 0 ? frozen_us : real_us()) + skipped_us;
}

/* Carries out one line; returns whether it goes on to take frames. */
static bool obey(struct links *links, const char *line, bool takes) {
  unsigned length, count, seconds;
  uint8_t mac[6];
  struct fault fault;
  if (strcmp(line, "counters\n") == 0) {
    tell_counters(links);
    return takes;
  }
  if (sscanf(line, "send %u %u", &length, &count) == 2) send_broadcasts(links, length, count);
  sscanf(line, "ignore %u", &ignored);
  if (strcmp(line, "freeze\n") == 0) frozen_us = real_us();
  if (sscanf(line, "later %u", &seconds) == 1) skipped_us += seconds * UINT64_C(1000000);
  if (sscanf(line, "listen %hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &mac[0], &mac[1], &mac[2], &mac[3],
             &mac[4], &mac[5]) == 6) {
    must(links_listen_as(links, mac, &fault), fault.text);
  }
  if (strcmp(line, "step\n") == 0) echo_burst(links);
  printf("{}\n");
  if (strcmp(line, "pause\n") == 0) return false;
  return takes || strcmp(line, "resume\n") == 0;
}

static int echo(int count, char **where) {
  static struct links links;
  struct fault fault;
  real_us = link_now_us;
  link_now_us = later_us;
  for (int i = 0; i < count; i++) {
    if (!links_add(&links, where[i], &fault)) {
      printf("%s\n", fault.text);
      links_close(&links);
      return 1;
    }
  }
  for (int i = 0; i < count; i++) printf("%s\n", links.each[i].name);
  memset(packets, UNTOUCHED, sizeof packets);
  char line[128];
  bool takes = true;
  setvbuf(stdin, NULL, _IONBF, 0); /* poll has to see what is not read yet */
  for (;;) {
    fflush(stdout);
    struct pollfd waits[1 + LINKS_MAX] = {{.fd = STDIN_FILENO, .events = POLLIN}};
    int places = takes ? 1 + links_watch(&links, waits + 1) : 1;
    poll(waits, (nfds_t)places, -1);
    for (int i = 1; i < places; i++) {
      if (waits[i].revents != 0) echo_burst(&links);
    }
    if (waits[0].revents == 0) continue;
    if (fgets(line, sizeof line, stdin) == NULL) break;
    takes = obey(&links, line, takes);
  }
  links_close(&links);
  return 0;
}

static void hand_on(struct link *from, struct link *to) {
  int count = from->receive(from, packets);
  for (int i = 0; i < count; i++) {
    uint32_t length;
    memcpy(&length, packets + HAL_RECEIVED_AT + 8 * i, sizeof length);
    to->transmit(to, place(i), length);
  }
  to->flush(to);
}

static int relay(const char *one, const char *other) {
  struct link links[2];
  struct fault fault;
  must(link_open(&links[0], one, &fault), fault.text);
  must(link_open(&links[1], other, &fault), fault.text);
  printf("%s %s\n", links[0].name, links[1].name);
  fflush(stdout);
  for (;;) {
    struct pollfd waits[3] = {{.fd = STDIN_FILENO, .events = POLLIN}};
    for (int i = 0; i < 2; i++) {
      waits[1 + i] = (struct pollfd){.fd = links[i].descriptor(&links[i]), .events = POLLIN};
    }
    poll(waits, 3, -1);
    if (waits[0].revents != 0) break;
    for (int i = 0; i < 2; i++) {
      if (waits[1 + i].revents != 0) hand_on(&links[i], &links[1 - i]);
    }
  }
  for (int i = 0; i < 2; i++) links[i].close(&links[i]);
  return 0;
}

int main(int count, char **arguments) {
  if (count == 2 && strcmp(arguments[1], "icrc") == 0) return judge_frames();
  if (count == 2 && strcmp(arguments[1], "crc32c") == 0) return compute_guards();
  if (count == 2 && strcmp(arguments[1], "peers") == 0) return judge_peers();
  if (count > 2 && strcmp(arguments[1], "echo") == 0) return echo(count - 2, arguments + 2);
  if (count == 4 && strcmp(arguments[1], "relay") == 0) return relay(arguments[2], arguments[3]);
  return 2;
}
