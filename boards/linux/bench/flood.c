/*
 * A flood: one frame over UDP, as often as it goes, from a socket of its own.
 *
 *   flood PORT < FRAME
 *
 * Its Ethernet address, which no ICRC covers, becomes one that ends in the port of the socket: a
 * card knows each at one place only. Prints a line when it has begun, and floods until SIGTERM;
 * then prints one JSON object. It reads no answer.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "hal.h"

enum { BURST = 64, STATION_END_AT = 10 };

static volatile sig_atomic_t is_over;

static void end(int signal) {
  (void)signal;
  is_over = 1;
}

static void must(bool holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "flood: %s\n", what);
  exit(1);
}

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int count, char **arguments) {
  static uint8_t frame[HAL_FRAME_STRIDE_BYTES];
  static struct mmsghdr messages[BURST];
  must(count == 2, "PORT");
  struct sockaddr_in to = {.sin_family = AF_INET,
                           .sin_port = htons((uint16_t)strtoul(arguments[1], NULL, 10)),
                           .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  struct iovec place = {frame, fread(frame, 1, sizeof frame, stdin)};
  must(place.iov_len > STATION_END_AT + sizeof to.sin_port, "no frame");
  for (int i = 0; i < BURST; i++) {
    messages[i].msg_hdr = (struct msghdr){.msg_iov = &place, .msg_iovlen = 1};
  }
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  must(fd >= 0, strerror(errno));
  must(connect(fd, (struct sockaddr *)&to, sizeof to) == 0, strerror(errno));
  struct sockaddr_in own;
  socklen_t length = sizeof own;
  must(getsockname(fd, (struct sockaddr *)&own, &length) == 0, strerror(errno));
  memcpy(frame + STATION_END_AT, &own.sin_port, sizeof own.sin_port);
  signal(SIGTERM, end);
  uint64_t sent = 0;
  double begun = now_s();
  while (!is_over) {
    int left = sendmmsg(fd, messages, BURST, 0);
    must(left > 0 || errno == EINTR, strerror(errno));
    if (sent == 0 && left > 0) {
      printf("floods\n");
      fflush(stdout);
    }
    if (left > 0) sent += (uint64_t)left;
  }
  printf("{\"sent\":%llu,\"seconds\":%.6f}\n", (unsigned long long)sent, now_s() - begun);
  return 0;
}
