/*
 * The service: bursts in, the firmware, bursts out, and what is asked of it meanwhile.
 *
 * Invariants:
 * - The firmware is called by one thread, one burst at a time; the console and signals are looked
 *   after between two calls.
 * - Nothing is waited for while a frame waits.
 */
#ifndef PERDURE_SERVICE_H
#define PERDURE_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "access/identity.h"
#include "card/engine.h"
#include "card/machine.h"
#include "card/port.h"
#include "card/verify.h"
#include "link/links.h"
#include "memory/memory.h"
#include "service/config.h"
#include "service/console.h"
#include "service/health.h"
#include "service/json.h"

struct service {
  const struct config *config;
  const struct bundle *bundle;
  const struct identity *identity;
  struct memory *memory;
  struct machine *machine;
  struct links *links;
  struct engine *engine;
  struct console *console;
  struct port *port; /* NULL: there is no host behind one */
  int signals; /* a descriptor of signalfd */
  struct health health;
  uint64_t bursts, frames, idle_calls;
  uint64_t sent; /* frames that the links had sent when the firmware was last called */
  uint64_t started_us;
  bool stopping;
  /*
   * When `idle` is called, µs, UINT64_MAX being never: at the latest; and for work that can wait,
   * if no frame has come until then, or at the latest even if frames come.
   */
  uint64_t idle_us, lazy_us, lazy_latest_us;
};

/* Microseconds of the clock that the firmware lives by. */
uint64_t service_now_us(void);

/* perdure-boot says by it that what was on trial is confirmed. An older perdured ignores it. */
#define SERVICE_CONFIRMED SIGURG

/* Makes the descriptor of SERVICE_CONFIRMED, and of what ends the service, SIGTERM and SIGINT. */
int service_signals(void);

/*
 * Serves until it is told to stop, or a link is gone: true. False if the firmware stopped: see
 * engine_stopped.
 */
bool service_run(struct service *service);

/* What the memory is, and what of it is durable: members of the object that `json` is in. */
void service_tell_memory(const struct memory *memory, struct json *json);

/* One line of the console (console.h); `context` is the service. */
void service_answer(void *context, const char *line, char *answer);

#endif
