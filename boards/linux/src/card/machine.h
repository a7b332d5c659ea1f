/*
 * The machine that the firmware asks for (firmware/board/hal.ts): spaces, and lists of commands.
 *
 * Invariants, whatever JavaScript has written into the ring:
 * - No command reads or writes a byte outside the space that its address names. Addresses, lengths
 *   and counts are doubles that JavaScript wrote; each is checked to be a whole number in range
 *   before it becomes a pointer.
 * - The list runs in order and stops at the first command that fails, the reason in its result.
 * - A load that the medium cannot answer (SIGBUS) is MEDIA_ERROR of that command, not the end of
 *   the process; a fence that cannot is FLUSH_FAILED; the host's memory is DMA_FAILED.
 */
#ifndef PERDURE_MACHINE_H
#define PERDURE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "access/peers-keeper.h"
#include "card/tags.h"
#include "card/window.h"
#include "hal.h"
#include "link/links.h"
#include "memory/memory.h"
#include "trace/trace.h"

struct machine_counters {
  uint64_t runs, commands, fences, bytes_stored, lines_cleaned, media_errors, bad_commands;
  uint64_t host_failures; /* accesses that the host's memory did not answer */
};

/* The words of a command that the machine reads, as JavaScript wrote them. */
struct command {
  double op, from, to, length, aux;
};

struct machine {
  uint8_t *packets; /* MEMORY_BYTES of hal.h, aligned to a page, zero at first */
  struct memory *memory;
  struct window host; /* HOST_SPACE */
  struct window dma;  /* DMA_SPACE */
  struct links *links;
  struct peers_keeper *peers; /* NULL: of an open card */
  uint64_t kept;              /* commands that may have waited for a file system */
  struct tags tags; /* of what comes, too: see tags_judge */
  struct machine_counters counters;
  struct trace trace;
  /* The machine's own: where the list stands, which survives the jump out of a fault. */
  uint32_t at, until;
  struct command command;
  bool on_trial; /* the firmware goes back unless it is confirmed */
  bool peeking, blind; /* the trace reads what is there before a store; it must not */
  uint8_t frame[HAL_FRAME_BYTES_MAX] __attribute__((aligned(64)));
};

/* `Machine.run` of firmware/board/hal.ts. `count` is what JavaScript gave. */
uint32_t machine_run(struct machine *machine, double count);

/* Writes the health bits into packet memory. Called before every call of the firmware. */
void machine_tell_health(struct machine *machine);

/* Likewise when the last call was over. Called behind it, when what it sent has left. */
void machine_tell_end(struct machine *machine, double now_us);

#endif
