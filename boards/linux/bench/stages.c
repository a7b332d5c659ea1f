/*
 * Clocks between the parts of perdured, for the bench: linked into a second build of it, in which
 * the linker leads the calls of these functions through here (`--wrap`). The runtime itself has no
 * line for it.
 *
 * What always holds: a stage is charged for its own time, not for that of the stages inside it;
 * what happens inside `idle` is idle's. When the program ends the sums are written to the file that
 * PERDURE_STAGES names, one JSON object of nanoseconds.
 */

#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "engine.h"
#include "memory.h"

enum stage {
  RECEIVE,
  ICRC_IN,
  JAVASCRIPT,
  LISTS,
  CHECK_CODE,
  CLEAN,
  FENCE,
  ICRC_OUT,
  SEND,
  IDLE,
  STAGES,
};

static const char *const NAMES[STAGES] = {"receive", "icrcIn", "javascript", "lists", "checkCode",
                                          "clean",   "fence",  "icrcOut",    "send",  "idle"};

static uint64_t spent[STAGES];
static uint64_t inner; /* what the stages inside the one that runs have taken */
static int idle_depth;

struct span {
  uint64_t begun, outer_inner;
};

static uint64_t ticks(void) {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  uint64_t count;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
  return count;
#endif
}

static struct span begin(void) {
  struct span span = {ticks(), inner};
  inner = 0;
  return span;
}

static void end(struct span span, enum stage stage) {
  uint64_t whole = ticks() - span.begun;
  spent[idle_depth > 0 ? IDLE : stage] += whole - inner;
  inner = span.outer_inner + whole;
}

#define WRAP(stage, type, name, parameters, arguments) \
  type __real_##name parameters;                        \
  type __wrap_##name parameters;                        \
  type __wrap_##name parameters {                       \
    struct span span = begin();                         \
    type result = __real_##name arguments;              \
    end(span, stage);                                   \
    return result;                                      \
  }

WRAP(RECEIVE, int, recvmmsg,
     (int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *limit),
     (fd, messages, count, flags, limit))
WRAP(SEND, int, sendmmsg, (int fd, struct mmsghdr *messages, unsigned count, int flags),
     (fd, messages, count, flags))
WRAP(ICRC_IN, uint32_t, icrc_flags, (const uint8_t *frame, uint32_t length), (frame, length))
WRAP(ICRC_OUT, bool, icrc_fill, (uint8_t *frame, uint32_t length, uint32_t kind),
     (frame, length, kind))
WRAP(JAVASCRIPT, double, engine_serve, (struct engine *engine, uint32_t count, double now_us),
     (engine, count, now_us))
WRAP(LISTS, uint32_t, machine_run, (struct machine *machine, double count), (machine, count))
WRAP(CHECK_CODE, int, crypto_shorthash_siphashx24,
     (unsigned char *out, const unsigned char *in, unsigned long long length,
      const unsigned char *key),
     (out, in, length, key))
WRAP(FENCE, int, memory_fence, (struct memory *memory), (memory))

void __real_memory_clean(struct memory *memory, uint64_t at, uint64_t length);
void __wrap_memory_clean(struct memory *memory, uint64_t at, uint64_t length);
void __wrap_memory_clean(struct memory *memory, uint64_t at, uint64_t length) {
  struct span span = begin();
  __real_memory_clean(memory, at, length);
  end(span, CLEAN);
}

double __real_engine_idle(struct engine *engine, double now_us);
double __wrap_engine_idle(struct engine *engine, double now_us);
double __wrap_engine_idle(struct engine *engine, double now_us) {
  struct span span = begin();
  idle_depth++;
  double wanted = __real_engine_idle(engine, now_us);
  end(span, IDLE);
  idle_depth--;
  return wanted;
}

static uint64_t begun_ticks;
static struct timespec begun_time;

__attribute__((constructor)) static void start_clocks(void) {
  clock_gettime(CLOCK_MONOTONIC, &begun_time);
  begun_ticks = ticks();
}

__attribute__((destructor)) static void tell(void) {
  const char *path = getenv("PERDURE_STAGES");
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  double ns = (double)(now.tv_sec - begun_time.tv_sec) * 1e9 +
              (double)(now.tv_nsec - begun_time.tv_nsec);
  double each = ns / (double)(ticks() - begun_ticks);
  FILE *file = path == NULL ? NULL : fopen(path, "w");
  if (file == NULL) return;
  for (int i = 0; i < STAGES; i++) {
    fprintf(file, "%s\"%s\":%.0f", i == 0 ? "{" : ",", NAMES[i], (double)spent[i] * each);
  }
  fputs("}\n", file);
  fclose(file);
}
