#include "service/notify.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Room for the words of a report: two characters and a blank are the shortest, and grow to 11. */
#define READY_BYTES 1024

/* The socket to whom we tell, or -1. */
static int manager = -1;

void notify_open(void) {
  const char *path = getenv("NOTIFY_SOCKET");
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  if (path == NULL || (path[0] != '/' && path[0] != '@')) return;
  size_t length = strlen(path);
  if (length >= sizeof to.sun_path) return;
  memcpy(to.sun_path, path, length);
  if (path[0] == '@') to.sun_path[0] = '\0';
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
  if (fd >= 0 && connect(fd, (struct sockaddr *)&to, size) == 0) manager = fd;
  else if (fd >= 0) close(fd);
}

void notify(const char *state) {
  ssize_t sent = manager < 0 ? 0 : send(manager, state, strlen(state), MSG_NOSIGNAL);
  (void)sent;
}

/* Adds a word of the report as a line, if it is a name with a value; the text's new length. */
static size_t add_word(char text[READY_BYTES], size_t length, const char *word, size_t size) {
  static const char PREFIX[] = "\nPERDURE_";
  size_t name = strcspn(word, "=");
  if (name == 0 || name >= size || length + sizeof PREFIX + size > READY_BYTES) return length;
  memcpy(text + length, PREFIX, sizeof PREFIX);
  length += sizeof PREFIX - 1;
  for (size_t i = 0; i < size; i++) {
    text[length++] = i < name ? (char)toupper((unsigned char)word[i]) : word[i];
  }
  text[length] = '\0';
  return length;
}

void notify_ready(const char *bundle, bool armed, const char *report) {
  char text[READY_BYTES];
  size_t length = (size_t)snprintf(text, sizeof text,
                                   "READY=1\nPERDURE_BUNDLE=%.64s\nPERDURE_ARMED=%d", bundle,
                                   armed ? 1 : 0);
  while (*report != '\0') {
    size_t size = strcspn(report, " ");
    length = add_word(text, length, report, size);
    report += size + strspn(report + size, " ");
  }
  notify(text);
}

uint64_t notify_watchdog_us(void) {
  const char *text = getenv("WATCHDOG_USEC"), *process = getenv("WATCHDOG_PID");
  if (text == NULL) return 0;
  if (process != NULL && strtoull(process, NULL, 10) != (unsigned long long)getpid()) return 0;
  errno = 0;
  unsigned long long us = strtoull(text, NULL, 10);
  return errno == 0 ? us / 2 : 0;
}
