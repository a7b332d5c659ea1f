/*
 * Clocks between the parts of perdured, for the bench: linked into a second build of it, in which
 * the linker leads the calls of these functions through here (`--wrap`). The runtime itself has no
 * line for it.
 *
 * Invariant: a stage is charged for its own time, not for that of the stages inside it;
 * what happens inside `idle` is idle's. When the program ends, the file that PERDURE_STAGES names
 * gets one JSON object: of each stage the nanoseconds per frame, as the median over the turns of
 * the loop, so that a turn in which another program had the processor does not count; of idle,
 * which has few turns, the mean. `ring` is the median of the calls for no frame, all that is inside
 * them with it: what the host rang for.
 */

#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "card/engine.h"
#include "card/tags.h"
#include "memory/memory.h"

enum stage {
  RECEIVE,
  ICRC_IN,
  TAGS_IN,
  JAVASCRIPT,
  LISTS,
  CHECK_CODE,
  CLEAN,
  FENCE,
  TAGS_OUT,
  ICRC_OUT,
  SEND,
  IDLE,
  STAGES,
};

static const char *const NAMES[STAGES] = {
    "receive", "icrcIn", "tagsIn", "javascript", "lists", "checkCode",
    "clean",   "fence",  "tagsOut", "icrcOut",   "send",  "idle"};

enum { TURNS_MAX = 1 << 17 };

static uint64_t spent[STAGES]; /* in this turn; of idle, in all */
static double turns[STAGES][TURNS_MAX]; /* per frame */
static unsigned turn_count, turn_frames;
static double rings[TURNS_MAX]; /* calls of the firmware without a frame */
static unsigned ring_count;
static uint64_t frame_count;
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

/* Processor time, for calls of the system: whoever they wake may run before they return. */
static uint64_t own_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
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

/* As `end`, for a stage that has no other inside, and is charged in nanoseconds of own_ns. */
static void end_call(struct span span, enum stage stage, uint64_t begun_ns) {
  if (idle_depth == 0) spent[stage] += own_ns() - begun_ns;
  inner = span.outer_inner + ticks() - span.begun;
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

/* A turn ends when the next frames come. */
static void end_turn(unsigned frames) {
  for (int i = 0; i < STAGES && turn_frames > 0; i++) {
    if (i == IDLE) continue;
    if (turn_count < TURNS_MAX) turns[i][turn_count] = (double)spent[i] / turn_frames;
    spent[i] = 0;
  }
  if (turn_frames > 0 && turn_count < TURNS_MAX) turn_count++;
  turn_frames = frames;
  frame_count += frames;
}

int __real_recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags,
                    struct timespec *limit);
int __wrap_recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags,
                    struct timespec *limit);
int __wrap_recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags,
                    struct timespec *limit) {
  struct span span = begin();
  uint64_t begun_ns = own_ns();
  int came = __real_recvmmsg(fd, messages, count, flags, limit);
  end_call(span, RECEIVE, begun_ns);
  if (came > 0) end_turn((unsigned)came);
  return came;
}

int __real_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags);
int __wrap_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags);
int __wrap_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags) {
  struct span span = begin();
  uint64_t begun_ns = own_ns();
  int sent = __real_sendmmsg(fd, messages, count, flags);
  end_call(span, SEND, begun_ns);
  return sent;
}

WRAP(ICRC_IN, uint32_t, icrc_flags, (const uint8_t *frame, uint32_t length), (frame, length))
WRAP(ICRC_OUT, bool, icrc_fill, (uint8_t *frame, uint32_t length, uint32_t kind),
     (frame, length, kind))
WRAP(TAGS_OUT, bool, tags_fill,
     (struct tags *tags, uint32_t place, uint8_t *frame, uint32_t length),
     (tags, place, frame, length))
WRAP(LISTS, uint32_t, machine_run, (struct machine *machine, double count), (machine, count))
WRAP(CHECK_CODE, int, crypto_shorthash_siphashx24,
     (unsigned char *out, const unsigned char *in, unsigned long long length,
      const unsigned char *key),
     (out, in, length, key))
WRAP(FENCE, int, memory_fence, (struct memory *memory), (memory))

double __real_engine_serve(struct engine *engine, uint32_t count, double now_us);
double __wrap_engine_serve(struct engine *engine, uint32_t count, double now_us);
double __wrap_engine_serve(struct engine *engine, uint32_t count, double now_us) {
  struct span span = begin();
  double wanted = __real_engine_serve(engine, count, now_us);
  if (count == 0 && ring_count < TURNS_MAX) rings[ring_count++] = (double)(ticks() - span.begun);
  end(span, JAVASCRIPT);
  return wanted;
}

void __real_tags_judge(struct tags *tags, uint8_t *packets, uint32_t frames);
void __wrap_tags_judge(struct tags *tags, uint8_t *packets, uint32_t frames);
void __wrap_tags_judge(struct tags *tags, uint8_t *packets, uint32_t frames) {
  struct span span = begin();
  __real_tags_judge(tags, packets, frames);
  end(span, TAGS_IN);
}

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

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

__attribute__((destructor)) static void tell(void) {
  const char *path = getenv("PERDURE_STAGES");
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  double elapsed = (double)(now.tv_sec - begun_time.tv_sec) * 1e9 +
              (double)(now.tv_nsec - begun_time.tv_nsec);
  double each = elapsed / (double)(ticks() - begun_ticks);
  FILE *file = path == NULL ? NULL : fopen(path, "w");
  if (file == NULL) return;
  for (int i = 0; i < STAGES; i++) {
    qsort(turns[i], turn_count, sizeof turns[i][0], by_size);
    double mean = frame_count == 0 ? 0 : (double)spent[i] / (double)frame_count;
    double value = i == IDLE ? mean : turns[i][turn_count / 2];
    double ns = i == RECEIVE || i == SEND ? value : value * each;
    fprintf(file, "%s\"%s\":%.0f", i == 0 ? "{" : ",", NAMES[i], ns);
  }
  qsort(rings, ring_count, sizeof rings[0], by_size);
  fprintf(file, ",\"ring\":%.0f,\"rings\":%u}\n", rings[ring_count / 2] * each, ring_count);
  fclose(file);
}
