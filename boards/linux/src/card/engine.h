/*
 * The firmware bundle in QuickJS: the only file that knows the engine.
 *
 * Invariants:
 * - The engine has its bounds in bytes of heap and of stack, no clock, no chance, no files: what
 *   the firmware does follows from its frames, as in `boards/emulator/run/guest.ts`.
 * - What was translated is what the same bundle says, and the engine evaluates the bundle all the
 *   same; any other bundle is interpreted.
 * - Packet memory is shared without a copy.
 * - A firmware that throws, runs out of memory or of stack, or does not come back is stopped for
 *   good: the reason is one of 'threw', 'memory', 'stack', 'hung', 'bundle', as in
 *   `boards/emulator/run/engine.ts`, and every later call answers with it.
 */
#ifndef PERDURE_ENGINE_H
#define PERDURE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "access/identity.h"
#include "card/machine.h"
#include "card/verify.h"
#include "service/fault.h"

/* `Facts` of firmware/board/hal.ts. */
struct facts {
  char board[64];
  uint64_t nvdimm_bytes, host_bytes, dma_bytes;
  bool strict_icrc;
  uint32_t dirty_shutdowns;
  uint8_t mac[6], ipv4[4], ipv6[16];
  uint32_t path_mtu;
  uint32_t entropy[8];
  const struct identity *identity;
};

struct engine_limits {
  size_t heap_bytes, stack_bytes;
  uint32_t start_ms; /* a start, which recovers the whole part, that takes longer has hung */
  uint32_t call_ms;  /* likewise any other call */
  bool interpret;    /* even what was translated */
};

/* What a firmware may say of the part, characters. */
#define ENGINE_REPORT_MAX 200

struct engine;

/*
 * Evaluates the bundle and starts the firmware: recovery has run when this returns. Meanwhile the
 * service manager hears about once a second that it takes longer.
 */
struct engine *engine_start(const struct bundle *bundle, const struct facts *facts,
                            struct machine *machine, const struct engine_limits *limits,
                            struct fault *fault);

/* Whether the hot path runs as what it was translated to (boards/linux/aot). */
bool engine_is_translated(const struct engine *engine);

/* How often a translated function went on in the interpreter. */
uint64_t engine_resumes(void);

/* How many calls met a function that had done so too often, and rests from its translation. */
uint64_t engine_rested(void);

/* What the firmware said of the part, one line of words NAME=VALUE; empty: it says nothing. */
const char *engine_report(const struct engine *engine);

/* Asks the firmware again what it has to say of the part. False when it has stopped. */
bool engine_ask(struct engine *engine);

/* `Firmware.serve` and `idle`. Negative when the firmware has stopped; then see engine_stopped. */
double engine_serve(struct engine *engine, uint32_t count, double now_us);
double engine_idle(struct engine *engine, double now_us);

/* NULL while it runs, else "threw", "memory", …; `text` then has message and stack. */
const char *engine_stopped(const struct engine *engine, const char **text);

/* Bytes that the heap holds, as its bound counts them: packet memory is the machine's. */
size_t engine_heap_bytes(struct engine *engine);

void engine_free(struct engine *engine);

#endif
