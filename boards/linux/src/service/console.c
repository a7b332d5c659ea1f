#include "service/console.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "link/unix-socket.h"

/* What a pipe takes at once when it polls writable (PIPE_BUF). */
#define WRITE_BYTES 4096

/* From one attempt to open a terminal to the next. */
#define RETRY_US 1000000u

static const char TERMINAL[] = "tty:";

static const char *behind(const char *where, const char *kind) {
  size_t length = strlen(kind);
  return strncmp(where, kind, length) == 0 ? where + length : NULL;
}

static void use(struct console_connection *connection, int in, int out) {
  connection->in = in;
  connection->out = out;
  connection->too_long = false;
  connection->line_length = connection->waiting_length = 0;
}

static bool open_socket(struct console *console, const char *path, struct fault *fault) {
  /* Who may stop the service is who may write here: the owner and the group. */
  mode_t mask = umask(0117);
  console->listener = unix_listen(path, fault);
  umask(mask);
  if (console->listener >= 0) snprintf(console->path, sizeof console->path, "%s", path);
  return console->listener >= 0;
}

static bool open_terminal(struct console *console, const char *path, struct fault *fault) {
  int terminal = open(path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  struct termios settings;
  if (terminal < 0) return fault_set(fault, "console: %s: %s", path, strerror(errno));
  if (tcgetattr(terminal, &settings) != 0) {
    close(terminal);
    return fault_set(fault, "console: %s is no terminal", path);
  }
  /* No echo: a program at the other end would read its own lines as answers. */
  cfmakeraw(&settings);
  settings.c_cflag |= CLOCAL | CREAD;
  tcsetattr(terminal, TCSANOW, &settings);
  use(&console->connections[0], terminal, terminal);
  return true;
}

bool console_open(struct console *console, const char *where, struct fault *fault) {
  memset(console, 0, sizeof *console);
  console->name = where;
  console->listener = -1;
  for (int i = 0; i < CONSOLE_CONNECTIONS; i++) use(&console->connections[i], -1, -1);
  const char *path = behind(where, "unix:");
  if (path != NULL) return open_socket(console, path, fault);
  path = behind(where, TERMINAL);
  if (path != NULL) return open_terminal(console, path, fault);
  if (strcmp(where, "stdio") == 0) use(&console->connections[0], STDIN_FILENO, STDOUT_FILENO);
  else if (strcmp(where, "none") != 0) {
    return fault_set(fault, "console = %s: none, stdio, unix:PATH or tty:DEVICE", where);
  }
  return true;
}

int console_watch(const struct console *console, struct pollfd *places) {
  int count = 0;
  if (console->listener >= 0) places[count++] = (struct pollfd){console->listener, POLLIN, 0};
  for (int i = 0; i < CONSOLE_CONNECTIONS; i++) {
    const struct console_connection *connection = &console->connections[i];
    if (connection->in < 0) continue;
    bool waits = connection->waiting_length > 0;
    places[count++] = waits ? (struct pollfd){connection->out, POLLOUT, 0}
                            : (struct pollfd){connection->in, POLLIN, 0};
  }
  return count;
}

static void end(struct console_connection *connection) {
  if (connection->in > STDERR_FILENO) close(connection->in);
  use(connection, -1, -1);
}

/* It has ended, or cannot be used any more: a terminal is opened again. */
static void hang_up(struct console *console, struct console_connection *connection) {
  end(connection);
  console->hung_up = behind(console->name, TERMINAL) != NULL;
  console->retry_us = 0;
}

uint64_t console_retry(struct console *console, uint64_t now_us) {
  struct fault fault;
  if (!console->hung_up) return UINT64_MAX;
  if (console->retry_us != 0 && now_us >= console->retry_us) {
    console->hung_up = !open_terminal(console, behind(console->name, TERMINAL), &fault);
    if (!console->hung_up) return UINT64_MAX;
    console->retry_us = 0;
  }
  if (console->retry_us == 0) console->retry_us = now_us + RETRY_US;
  return console->retry_us;
}

static bool is_ready(int descriptor, short event) {
  struct pollfd place = {descriptor, event, 0};
  return poll(&place, 1, 0) > 0;
}

/* Sends what waits, as far as it is taken. */
static void send_waiting(struct console *console, struct console_connection *connection) {
  while (connection->waiting_length > 0 && is_ready(connection->out, POLLOUT)) {
    size_t length = connection->waiting_length;
    if (length > WRITE_BYTES) length = WRITE_BYTES;
    ssize_t written = write(connection->out, connection->waiting, length);
    if (written < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (written <= 0) {
      hang_up(console, connection);
      return;
    }
    connection->waiting_length -= (size_t)written;
    memmove(connection->waiting, connection->waiting + written, connection->waiting_length);
  }
}

static void answer_line(struct console_connection *connection, console_answer *answer,
                        void *context) {
  char *to = connection->waiting + connection->waiting_length;
  size_t length = connection->line_length;
  while (length > 0 && connection->line[length - 1] == ' ') length--;
  connection->line[length] = '\0';
  connection->line_length = 0;
  if (sizeof connection->waiting - connection->waiting_length < CONSOLE_ANSWER_BYTES) return;
  if (connection->too_long) {
    snprintf(to, CONSOLE_ANSWER_BYTES, "{\"error\":\"a line has at most %d bytes\"}\n",
             CONSOLE_LINE_BYTES - 1);
  } else if (length > 0) {
    answer(context, connection->line, to);
  } else {
    *to = '\0';
  }
  connection->too_long = false;
  connection->waiting_length += strlen(to);
}

/* At most one read: a peer that talks without end gets its turn like all others. */
static void serve(struct console *console, struct console_connection *connection,
                  console_answer *answer, void *context) {
  char bytes[CONSOLE_LINE_BYTES];
  if (connection->waiting_length > 0) send_waiting(console, connection);
  if (connection->in < 0 || connection->waiting_length > 0) return;
  if (!is_ready(connection->in, POLLIN)) return;
  ssize_t count = read(connection->in, bytes, sizeof bytes);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    hang_up(console, connection);
    return;
  }
  for (ssize_t i = 0; i < count; i++) {
    if (bytes[i] == '\n' || bytes[i] == '\r') {
      answer_line(connection, answer, context);
    } else if (connection->line_length + 1 < CONSOLE_LINE_BYTES) {
      connection->line[connection->line_length++] = bytes[i] == '\0' ? ' ' : bytes[i];
    } else {
      connection->too_long = true;
    }
  }
  send_waiting(console, connection);
}

static void accept_one(struct console *console) {
  int peer = accept4(console->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (peer < 0) return;
  for (int i = 0; i < CONSOLE_CONNECTIONS; i++) {
    if (console->connections[i].in >= 0) continue;
    use(&console->connections[i], peer, peer);
    return;
  }
  close(peer);
}

void console_serve(struct console *console, console_answer *answer, void *context) {
  if (console->listener >= 0) accept_one(console);
  for (int i = 0; i < CONSOLE_CONNECTIONS; i++) {
    if (console->connections[i].in >= 0) {
      serve(console, &console->connections[i], answer, context);
    }
  }
}

void console_close(struct console *console) {
  for (int i = 0; i < CONSOLE_CONNECTIONS; i++) {
    if (console->connections[i].in < 0) continue;
    send_waiting(console, &console->connections[i]);
    if (console->connections[i].in >= 0) end(&console->connections[i]);
  }
  if (console->listener < 0) return;
  close(console->listener);
  unlink(console->path);
  console->listener = -1;
}
