#include "memory/guard.h"

#include <stdint.h>
#include <string.h>

/* The mapping, its shadow, and two windows; twice that, for tests that open several. */
enum { RANGES = 8 };

struct range {
  uintptr_t from;
  size_t bytes;
};

sigjmp_buf guard_mark;
volatile sig_atomic_t guard_armed;
const unsigned char *volatile guard_fault;

static struct range ranges[RANGES];
static bool installed;

static bool is_covered(uintptr_t address) {
  for (int i = 0; i < RANGES; i++) {
    if (address >= ranges[i].from && address - ranges[i].from < ranges[i].bytes) return true;
  }
  return false;
}

static void on_bus_error(int number, siginfo_t *info, void *context) {
  (void)context;
#ifdef BUS_MCEERR_AO
  /* A page has gone bad that nobody is reading: whoever reads it gets a signal of its own. */
  if (info->si_code == BUS_MCEERR_AO) return;
#endif
  if (guard_armed && is_covered((uintptr_t)info->si_addr)) {
    guard_armed = 0;
    guard_fault = info->si_addr;
    siglongjmp(guard_mark, 1);
  }
  /* Not ours: the same instruction faults again, and now it is the end. */
  signal(number, SIG_DFL);
}

/* No signal is blocked in the handler, so that leaving it by a jump leaves nothing blocked. */
static bool install(struct fault *fault) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  if (sigaction(SIGBUS, &action, NULL) != 0) {
    return fault_set(fault, "cannot catch SIGBUS, the signal of memory that does not answer");
  }
  installed = true;
  return true;
}

bool guard_cover(const void *from, size_t bytes, struct fault *fault) {
  if (!installed && !install(fault)) return false;
  for (int i = 0; i < RANGES; i++) {
    if (ranges[i].bytes != 0) continue;
    ranges[i].from = (uintptr_t)from;
    ranges[i].bytes = bytes;
    return true;
  }
  return fault_set(fault, "more than %d mappings at once", RANGES);
}

void guard_uncover(const void *from) {
  for (int i = 0; i < RANGES; i++) {
    if (ranges[i].from == (uintptr_t)from) ranges[i].bytes = 0;
  }
}

bool guard_copy(void *to, const void *from, size_t bytes) {
  bool answered = true;
  if (sigsetjmp(guard_mark, 0) == 0) {
    guard_armed = 1;
    memcpy(to, from, bytes);
  } else {
    answered = false;
  }
  guard_armed = 0;
  return answered;
}
