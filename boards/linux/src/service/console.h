/*
 * The console: lines in, one line out for each, over a Unix socket, a terminal or stdin and stdout.
 *
 * Invariants:
 * - Nothing here waits. Whoever does not read what was answered loses the connection, or on a
 *   terminal the answers, and holds up no frame.
 * - A line of any length and any bytes is harmless.
 * - A terminal whose line hangs up is closed, and opened again once a second until it is there: a
 *   descriptor that has hung up would be ready permanently, and nothing could be read from it.
 */
#ifndef PERDURE_CONSOLE_H
#define PERDURE_CONSOLE_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "service/fault.h"

#define CONSOLE_CONNECTIONS 4
#define CONSOLE_LINE_BYTES 256
#define CONSOLE_ANSWER_BYTES 4096

/* Writes the answer to a line: one line with its end, shorter than CONSOLE_ANSWER_BYTES. */
typedef void console_answer(void *context, const char *line, char *answer);

struct console_connection {
  int in, out; /* -1: free */
  bool too_long;
  size_t line_length, waiting_length;
  char line[CONSOLE_LINE_BYTES];
  char waiting[2 * CONSOLE_ANSWER_BYTES];
};

struct console {
  const char *name;
  int listener;   /* -1: none */
  bool hung_up; /* a terminal that is to be opened again, */
  uint64_t retry_us; /* then; 0: that is still to be said */
  char path[108];
  struct console_connection connections[CONSOLE_CONNECTIONS];
};

/* `where` as in the configuration: none, stdio, unix:PATH, tty:DEVICE. */
bool console_open(struct console *console, const char *where, struct fault *fault);

/* What to poll for: fills at most 1 + CONSOLE_CONNECTIONS places and returns how many. */
int console_watch(const struct console *console, struct pollfd *places);

/* Reads and answers what waits. */
void console_serve(struct console *console, console_answer *answer, void *context);

/*
 * Opens a terminal again that has hung up, when it is time to. Returns when it is to be called
 * next at the latest, µs of the clock of `now_us`; UINT64_MAX is never.
 */
uint64_t console_retry(struct console *console, uint64_t now_us);

void console_close(struct console *console);

#endif
