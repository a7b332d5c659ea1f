#include "notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void notify(const char *state) {
  const char *path = getenv("NOTIFY_SOCKET");
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  if (path == NULL || (path[0] != '/' && path[0] != '@')) return;
  size_t length = strlen(path);
  if (length >= sizeof to.sun_path) return;
  memcpy(to.sun_path, path, length);
  if (path[0] == '@') to.sun_path[0] = '\0';
  int socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket_ < 0) return;
  socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
  ssize_t sent = sendto(socket_, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&to, size);
  (void)sent;
  close(socket_);
}

uint64_t notify_watchdog_us(void) {
  const char *text = getenv("WATCHDOG_USEC"), *process = getenv("WATCHDOG_PID");
  if (text == NULL) return 0;
  if (process != NULL && strtoull(process, NULL, 10) != (unsigned long long)getpid()) return 0;
  errno = 0;
  unsigned long long us = strtoull(text, NULL, 10);
  return errno == 0 ? us / 2 : 0;
}
