/*
 * The host's memory as the card sees it: a window that is mapped, a file that both share or the BAR
 * of a PCIe device.
 *
 * Invariants:
 * - Stores arrive in the order in which they were made. One is done when it has left. A load comes
 *   back behind every store before it: a store buffer or a write-combining buffer is emptied first,
 *   and a device answers in order.
 * - Device memory is touched in aligned words of eight bytes and single bytes only, which is all
 *   that a BAR promises to take.
 * - Of what it is a window to it shows all, or pieces that were asked for, one behind the other: as
 *   one mapping, so nobody who loads or stores knows of it, or pays for it.
 * - A store that did not arrive makes every later load fail until the process is started again:
 *   behind it no load may be taken for a fence.
 */
#ifndef PERDURE_WINDOW_H
#define PERDURE_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/reserve.h"
#include "service/fault.h"

struct window {
  uint8_t *live;  /* NULL if there is none */
  uint64_t bytes; /* that are shown */
  uint64_t whole; /* of all that it is a window to */
  int descriptor; /* by which it can be arranged; -1 if it cannot */
  uint8_t *stage; /* of a device: as many bytes of ordinary memory, where loads arrive */
  bool device;  /* the BAR of a PCIe device: not memory of ours */
  bool written; /* something was stored since the last load */
  bool lost;    /* a store did not arrive */
  bool absent;  /* nobody is at the far end: loads fail, stores come to nothing */
  struct reserve place, stage_place;
};

/*
 * Maps all of what `where` names: a path, the shared file, or
 * `pci:DOMAIN:BUS:DEVICE.FUNCTION/resourceN`, a resource as sysfs shows it; `resourceN_wc` is the
 * same with write combining.
 */
bool window_open(struct window *window, const char *where, struct fault *fault);
/* Maps `bytes` from `at` on of a file that is open; `path` is for words alone. */
bool window_map(struct window *window, int descriptor, uint64_t at, size_t bytes,
                const char *path, struct fault *fault);

void window_close(struct window *window);

/*
 * Shows `count` pieces of a window that `window_open` has opened, each a first page and pages of
 * HAL_PAGE_BYTES; all of it if there are none. False, and nothing has changed: there can be no such
 * pieces, or the kernel cannot map them.
 */
bool window_arrange(struct window *window, const uint32_t *table, uint32_t count);

/*
 * Loads [at, at + length), which is inside, behind every store before it. Returns where the bytes
 * now stand; NULL if a store was lost, or nobody answers.
 */
const uint8_t *window_load(struct window *window, uint64_t at, size_t length);

/* Stores at `at`; the range is inside. The source may overlap it. */
void window_store(struct window *window, uint64_t at, const uint8_t *from, size_t length);

#endif
