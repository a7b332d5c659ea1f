/*
 * What the card does, written down in a ring that is a file: frames, stores into the part,
 * write-backs, fences. `perdure timeline` makes a page of it.
 *
 * Invariants:
 * - The pages are the file's: what was written down is there however the process ends. The ring
 *   that the process before it left is kept beside it, as `PATH.old`.
 * - `first` and `written` bound whole entries. What is about to be overwritten is given up first;
 *   what is new counts when it is whole. A reader who meets both before and after it has read the
 *   entries knows which of them are good.
 * - A store is written down with what was there before, zeros where nobody can read it. So an
 *   entry can be taken back, and whoever has the part and its ring knows what the part held at the
 *   ring's first entry.
 * - It holds content of records: the file is its owner's alone.
 *
 * The form of the file: `host-driver/command/timeline/read-ring.ts` reads it.
 */
#ifndef PERDURE_TRACE_H
#define PERDURE_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "service/fault.h"

/* Numbers in it are in the order of the machine's bytes, which is little-endian everywhere. */
struct trace_head {
  uint32_t magic, version;
  uint64_t area_bytes;      /* of entries; they begin at byte 4096 */
  uint64_t part_bytes;      /* of the part */
  uint64_t part_at;         /* where in the file or device the part begins */
  uint64_t dirty_shutdowns; /* that the part had counted */
  uint64_t first, written;  /* bytes of entries, ever: of the oldest one, and behind the newest */
  char board[64], part[1024]; /* its name, and of what the part is */
};

/* Zeros: nothing is written down. */
struct trace {
  struct trace_head *head; /* NULL: nothing is written down */
  uint8_t *area, *open;    /* `open`: the entry that is not whole yet, or NULL */
  uint32_t open_bytes;
};

struct trace_options {
  const char *path, *board, *part;
  uint64_t bytes, part_bytes, part_at; /* `bytes`: of the whole file, in whole pages of 4096 */
  uint32_t dirty_shutdowns;
};

/* Makes the file, all of it, and begins. False if it cannot be had. */
bool trace_open(struct trace *trace, const struct trace_options *options, struct fault *fault);
void trace_close(struct trace *trace);

/* The firmware is about to start; or to be called, with so many frames of `packets`, or none. */
void trace_start(struct trace *trace, uint64_t now_us);
void trace_call(struct trace *trace, uint8_t *packets, uint32_t frames, uint64_t now_us);
/* A frame leaves. */
void trace_sent(struct trace *trace, const uint8_t *frame, uint32_t length);

/*
 * [at, at + length) of the part is about to be stored to, and holds `before`; NULL: what cannot be
 * read. Nothing is written down until `trace_stored` says what is there now. Whoever comes back
 * from a fault in between leaves it at that.
 */
void trace_storing(struct trace *trace, uint64_t at, const uint8_t *before, uint32_t length);
void trace_stored(struct trace *trace, const uint8_t *after);

void trace_cleaned(struct trace *trace, uint64_t at, uint64_t length);
void trace_fenced(struct trace *trace, int result);

#endif
