#include "calls/listeners.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

#include "calls/descriptors.h"
#include "link/endpoint.h"
#include "link/unix-socket.h"

HOST_FUNCTION(host_listen_unix) {
  char path[PATH_MAX];
  struct fault fault;
  if (!take_path(context, arguments[0], "path", path)) return JS_EXCEPTION;
  mode_t mask = umask(0177);
  errno = 0;
  int fd = unix_listen(path, &fault);
  int reason = errno;
  umask(mask);
  if (fd >= 0) return give_descriptor(context, fd);
  return throw_error(context, strerrorname_np(reason), "%s", fault.text);
}

/* The kernel says of each datagram at which address it came, where there is a choice. */
static void tell_asked(int fd, const struct endpoint *own) {
  int on = 1;
  if (!endpoint_is_any(own)) return;
  if (own->address.any.sa_family == AF_INET) {
    setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
  } else {
    setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on);
  }
}

HOST_FUNCTION(host_listen_udp) {
  char address[PATH_MAX], text[PATH_MAX + 16];
  int64_t port;
  struct endpoint own;
  struct fault fault;
  if (!take_path(context, arguments[0], "address", address)) return JS_EXCEPTION;
  if (!take_whole(context, arguments[1], "port", 0, UINT16_MAX, &port)) return JS_EXCEPTION;
  const char *form = strchr(address, ':') == NULL ? "%s:%d" : "[%s]:%d";
  snprintf(text, sizeof text, form, address, (int)port);
  if (!endpoint_parse(&own, text, &fault)) return throw_error(context, NULL, "%s", fault.text);
  int fd = socket(own.address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0 && bind(fd, &own.address.any, own.length) == 0) {
    tell_asked(fd, &own);
    return give_descriptor(context, fd);
  }
  int reason = errno;
  if (fd >= 0) close(fd);
  return throw_system(context, reason, "cannot listen on UDP %s", text);
}

HOST_FUNCTION(host_port_of) {
  int fd;
  struct endpoint own = {.length = sizeof own.address};
  if (!take_descriptor(context, arguments[0], "descriptor", &fd)) return JS_EXCEPTION;
  if (getsockname(fd, &own.address.any, &own.length) != 0) {
    return throw_system(context, errno, "descriptor %d has no port", fd);
  }
  /* The port of IPv4 and of IPv6 stands at the same place. */
  if (own.address.any.sa_family != AF_INET && own.address.any.sa_family != AF_INET6) {
    return throw_error(context, "EAFNOSUPPORT", "descriptor %d has no port", fd);
  }
  return JS_NewInt32(context, ntohs(own.address.v4.sin_port));
}

HOST_FUNCTION(host_open_tty) {
  char path[PATH_MAX];
  struct termios settings;
  if (!take_path(context, arguments[0], "path", path)) return JS_EXCEPTION;
  int fd = open(path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return throw_system(context, errno, "%s cannot be opened", path);
  bool is_terminal = tcgetattr(fd, &settings) == 0;
  if (is_terminal) {
    cfmakeraw(&settings);
    settings.c_cflag &= ~(tcflag_t)CSTOPB;
    settings.c_cflag |= CLOCAL | CREAD;
    if (tcsetattr(fd, TCSANOW, &settings) == 0) return give_descriptor(context, fd);
  }
  int reason = errno;
  close(fd);
  return throw_system(context, reason, "%s %s", path,
                      is_terminal ? "cannot be set up" : "is no serial line");
}

/*
 * A socket for root alone: nobody else can fill it. What we run connects to it before it gives its
 * privileges up. The kernel says who wrote, and only our own are heard.
 */
static int bind_notify(const struct sockaddr_un *at) {
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
  mode_t mask = umask(0177);
  bool bound = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0 &&
               bind(fd, (const struct sockaddr *)at, sizeof *at) == 0;
  int reason = errno;
  umask(mask);
  if (bound) return fd;
  if (fd >= 0) close(fd);
  errno = reason;
  return -1;
}

/* Whether a socket is there that nobody reads any more. */
static bool is_left_over(const struct sockaddr_un *at) {
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  bool refused = connect(fd, (const struct sockaddr *)at, sizeof *at) != 0 && errno == ECONNREFUSED;
  close(fd);
  struct stat about;
  return refused && lstat(at->sun_path, &about) == 0 && S_ISSOCK(about.st_mode);
}

HOST_FUNCTION(host_listen_notify) {
  char path[PATH_MAX];
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  if (!take_path(context, arguments[0], "path", path)) return JS_EXCEPTION;
  if (strlen(path) >= sizeof at.sun_path) {
    return throw_error(context, "ENAMETOOLONG", "a Unix socket's path has at most %zu bytes: %s",
                       sizeof at.sun_path - 1, path);
  }
  memcpy(at.sun_path, path, strlen(path) + 1);
  int fd = bind_notify(&at);
  if (fd < 0 && errno == EADDRINUSE) {
    if (is_left_over(&at) && unlink(path) == 0) fd = bind_notify(&at);
    else errno = EADDRINUSE;
  }
  if (fd >= 0) return give_descriptor(context, fd);
  return throw_system(context, errno, "cannot listen on the Unix socket %s", path);
}
