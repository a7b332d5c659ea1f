#include "calls/streams.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "calls/clock.h"
#include "calls/descriptors.h"

enum { READ_BYTES_MAX = 1 << 20, ANSWER_BYTES_MAX = 64 << 10 };

static bool is_nothing_yet(int reason) {
  return reason == EAGAIN || reason == EINTR;
}

/* EIO: a serial line has hung up. */
static bool is_gone(int reason) {
  return reason == EPIPE || reason == ECONNRESET || reason == EIO || reason == ENODEV ||
         reason == ENXIO || reason == ETIMEDOUT;
}

HOST_FUNCTION(host_accept) {
  int listener;
  if (!take_descriptor(context, arguments[0], "descriptor", &listener)) return JS_EXCEPTION;
  int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd >= 0) return give_descriptor(context, fd);
  if (is_nothing_yet(errno) || errno == ECONNABORTED) return JS_NewInt32(context, -1);
  return throw_system(context, errno, "descriptor %d: the next connection cannot be had", listener);
}

HOST_FUNCTION(host_read) {
  int fd;
  int64_t most;
  if (!take_descriptor(context, arguments[0], "descriptor", &fd)) return JS_EXCEPTION;
  if (!take_whole(context, arguments[1], "most", 1, READ_BYTES_MAX, &most)) return JS_EXCEPTION;
  uint8_t *bytes = js_malloc(context, (size_t)most);
  if (bytes == NULL) return JS_EXCEPTION;
  ssize_t came = read(fd, bytes, (size_t)most);
  int reason = errno;
  JSValue result = JS_NULL;
  if (came > 0) result = JS_NewArrayBufferCopy(context, bytes, (size_t)came);
  else if (came < 0 && is_nothing_yet(reason)) result = JS_NewArrayBufferCopy(context, bytes, 0);
  else if (came < 0 && !is_gone(reason)) {
    result = throw_system(context, reason, "descriptor %d cannot be read", fd);
  }
  js_free(context, bytes);
  return result;
}

HOST_FUNCTION(host_write) {
  int fd;
  struct bytes bytes;
  if (!take_descriptor(context, arguments[0], "descriptor", &fd)) return JS_EXCEPTION;
  if (!take_bytes(context, arguments[1], "bytes", &bytes)) return JS_EXCEPTION;
  ssize_t went = write(fd, bytes.at, bytes.length);
  if (went >= 0) return JS_NewInt64(context, went);
  if (is_nothing_yet(errno)) return JS_NewInt32(context, 0);
  if (is_gone(errno)) return JS_NewInt32(context, -1);
  return throw_system(context, errno, "descriptor %d cannot be written to", fd);
}

/* Waits for the event, at most until then; false: it did not come. */
static bool await(int fd, short event, double until_ms) {
  struct pollfd place = {fd, event, 0};
  return clock_poll(&place, 1, until_ms) > 0;
}

static bool say_all(int fd, const char *text, size_t length, double until_ms) {
  while (length > 0) {
    ssize_t went = send(fd, text, length, MSG_NOSIGNAL);
    if (went < 0 && (!is_nothing_yet(errno) || !await(fd, POLLOUT, until_ms))) return false;
    if (went < 0) continue;
    text += went;
    length -= (size_t)went;
  }
  return true;
}

/* How long the line is that comes back, without its end; -1: none came. */
static ssize_t hear_line(int fd, char *line, double until_ms) {
  for (size_t length = 0; length < ANSWER_BYTES_MAX;) {
    ssize_t came = recv(fd, line + length, ANSWER_BYTES_MAX - length, 0);
    if (came < 0 && is_nothing_yet(errno) && await(fd, POLLIN, until_ms)) continue;
    if (came <= 0) return -1;
    const char *end = memchr(line + length, '\n', (size_t)came);
    if (end != NULL) return end - line;
    length += (size_t)came;
  }
  return -1;
}

static JSValue converse(JSContext *context, int fd, const char *question, double until_ms) {
  static char line[ANSWER_BYTES_MAX];
  if (!say_all(fd, question, strlen(question), until_ms)) return JS_NULL;
  if (!say_all(fd, "\n", 1, until_ms)) return JS_NULL;
  ssize_t length = hear_line(fd, line, until_ms);
  return length < 0 ? JS_NULL : JS_NewStringLen(context, line, (size_t)length);
}

/* Nobody listens there, or nobody has taken those who wait. */
static bool is_nobody(int reason) {
  return reason == ENOENT || reason == ECONNREFUSED || reason == EAGAIN || reason == ECONNRESET;
}

HOST_FUNCTION(host_ask) {
  char path[PATH_MAX];
  int64_t within_ms;
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  if (!take_path(context, arguments[0], "path", path)) return JS_EXCEPTION;
  if (!take_whole(context, arguments[2], "withinMs", 0, NUMBER_MAX, &within_ms)) {
    return JS_EXCEPTION;
  }
  if (strlen(path) >= sizeof at.sun_path) {
    return throw_error(context, "ENAMETOOLONG", "a Unix socket's path has at most %zu bytes: %s",
                       sizeof at.sun_path - 1, path);
  }
  memcpy(at.sun_path, path, strlen(path) + 1);
  const char *question = take_string(context, arguments[1], "line");
  if (question == NULL) return JS_EXCEPTION;
  double until_ms = clock_ms() + (double)within_ms;
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  JSValue answer = JS_NULL;
  if (fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0) {
    answer = converse(context, fd, question, until_ms);
  } else if (!is_nobody(errno)) {
    answer = throw_system(context, errno, "the Unix socket %s cannot be asked", path);
  }
  if (fd >= 0) close(fd);
  JS_FreeCString(context, question);
  return answer;
}
