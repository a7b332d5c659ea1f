#include "link/clock.h"

#include <time.h>

static uint64_t coarse_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

uint64_t (*link_now_us)(void) = coarse_us;
