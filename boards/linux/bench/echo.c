/*
 * The floor of the path: datagrams come in bursts and go back as they are.
 *
 *   echo      prints the port that it listens on, and serves until it is killed
 */

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

#include "hal.h"

enum { BURST = HAL_BURST_FRAMES };

static uint8_t frames[BURST][HAL_FRAME_STRIDE_BYTES];
static struct mmsghdr messages[BURST];
static struct iovec places[BURST];
static struct sockaddr_in from[BURST];

int main(void) {
  struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof own;
  int bytes = 4 << 20;
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&own, sizeof own) != 0) return 1;
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  if (getsockname(fd, (struct sockaddr *)&own, &length) != 0) return 1;
  printf("udp:127.0.0.1:%u\n", ntohs(own.sin_port));
  fflush(stdout);
  for (;;) {
    for (int i = 0; i < BURST; i++) {
      places[i] = (struct iovec){frames[i], HAL_FRAME_STRIDE_BYTES};
      messages[i].msg_hdr = (struct msghdr){.msg_name = &from[i],
                                            .msg_namelen = sizeof from[i],
                                            .msg_iov = &places[i],
                                            .msg_iovlen = 1};
    }
    int count = recvmmsg(fd, messages, BURST, MSG_DONTWAIT, NULL);
    if (count <= 0) {
      struct pollfd wait = {.fd = fd, .events = POLLIN};
      poll(&wait, 1, -1);
      continue;
    }
    for (int i = 0; i < count; i++) places[i].iov_len = messages[i].msg_len;
    for (int at = 0; at < count;) {
      int sent = sendmmsg(fd, messages + at, (unsigned)(count - at), 0);
      if (sent <= 0) return 1;
      at += sent;
    }
  }
}
