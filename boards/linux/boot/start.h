/*
 * Starting another program.
 *
 * Invariant: when start_run returns a number, that program runs; what kept it from running
 * is told, and no process is left.
 */
#ifndef PERDURE_BOOT_START_H
#define PERDURE_BOOT_START_H

#include <sys/types.h>

#include "values.h"

enum { INHERITS_MAX = 64 };

struct start {
  char program[PATH_MAX];
  char **args, **env;
  int inherits[INHERITS_MAX], inherits_count;
  int file; /* the program, where it is a descriptor; -1: it is a path */
};

/* Reads a Spawn of the script; false: thrown. */
bool start_take(JSContext *context, JSValueConst what, struct start *start);
void start_free(struct start *start);

/* The number of its process; -1: errno says why there is none. */
pid_t start_run(const struct start *start);

#endif
