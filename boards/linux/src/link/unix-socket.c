#include "link/unix-socket.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { WAITING_MAX = 16 };

static int try_listen(const struct sockaddr_un *at) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  if (bind(fd, (const struct sockaddr *)at, sizeof *at) == 0 && listen(fd, WAITING_MAX) == 0) {
    return fd;
  }
  int reason = errno;
  close(fd);
  errno = reason;
  return -1;
}

/* Whether a socket is there that nobody listens on any more. */
static bool is_left_over(const struct sockaddr_un *at) {
  struct stat about;
  if (lstat(at->sun_path, &about) != 0 || !S_ISSOCK(about.st_mode)) return false;
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  bool refused = connect(fd, (const struct sockaddr *)at, sizeof *at) != 0 && errno == ECONNREFUSED;
  close(fd);
  return refused;
}

int unix_listen(const char *path, struct fault *fault) {
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  if (path[0] == '\0' || strlen(path) >= sizeof at.sun_path) {
    fault_set(fault, "a Unix socket's path has 1 to %zu bytes; '%s' has %zu",
              sizeof at.sun_path - 1, path, strlen(path));
    return -1;
  }
  memcpy(at.sun_path, path, strlen(path) + 1);
  int fd = try_listen(&at);
  if (fd < 0 && errno == EADDRINUSE && is_left_over(&at) && unlink(path) == 0) fd = try_listen(&at);
  if (fd < 0) fault_set(fault, "cannot listen on the Unix socket %s: %s", path, strerror(errno));
  return fd;
}
