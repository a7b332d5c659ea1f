/*
 * The port to a host in another process: the card's end of a file that both share, and DMA_SPACE.
 *
 * Invariants:
 * - The file has the form of `boards/port/port-file.ts`, and the card here does what
 *   `boards/emulator/host/file-port-end.ts` does: no host can tell the two apart. Except for one
 *   thing: what the firmware writes into the host's own words is not held back here.
 * - There is a link while the firmware serves and a host lives. When either begins or ends a
 *   session begins, with registers of 0; doorbells of the one before are taken by nobody.
 * - Words are read and written by system calls, one behind the other, each by one side alone; the
 *   host's memory behind them is mapped.
 * - No host ends the process: a file that is cut short makes accesses come to nothing.
 */
#ifndef PERDURE_PORT_H
#define PERDURE_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "card/machine.h"
#include "memory/image-lock.h"
#include "service/fault.h"

enum { PORT_WORDS = 64 };

struct port {
  int descriptor;
  struct machine *machine;
  struct image_lock lock;
  uint32_t words[PORT_WORDS]; /* of the file, as they were seen last */
  uint32_t serves;            /* the life of the host that is served, or 0 */
  uint32_t session, consumed, dropped, interrupts;
  uint32_t interrupts_seen; /* what the firmware had counted when the host was last told */
  uint32_t beat;
  uint64_t beat_due_us, active_us;
  bool is_serving;
  struct {
    uint32_t life, beat;
    uint64_t beat_us;
    bool alive;
  } host;
};

/*
 * Opens the file, or makes it with so many bytes of the host's memory, and gives it to the machine
 * as DMA_SPACE. To be called before the firmware starts, whose registers are then 0. What it opened
 * is closed again where it fails.
 */
bool port_open(struct port *port, const char *path, uint64_t bytes, struct machine *machine,
               struct fault *fault);

/* The firmware serves from now on. */
void port_serve(struct port *port, uint64_t now_us);

/*
 * Takes what the host has done. True if the firmware is to be called: by `serve` of no frames.
 * To be called behind every call of the firmware, too, and when `port_look_at_us` says.
 */
bool port_look(struct port *port, uint64_t now_us);

/* When to look next, µs. */
uint64_t port_look_at_us(const struct port *port, uint64_t now_us);

/* The card has no power any more: the host sees that. */
void port_close(struct port *port);

#endif
