#include "calls/clock.h"

#include <math.h>
#include <stddef.h>
#include <time.h>

/* Longer than anybody waits. */
#define WAIT_MS_MAX 1e9

double clock_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

int clock_poll(struct pollfd *places, nfds_t count, double until_ms) {
  double ms = until_ms - clock_ms();
  if (ms > WAIT_MS_MAX) ms = WAIT_MS_MAX;
  if (ms < 0) ms = 0;
  /* Upwards, so that it is that late when it comes back. */
  double ns = ceil(fmod(ms, 1e3) * 1e6);
  if (ns > 999999999) ns = 999999999;
  struct timespec wait = {.tv_sec = (time_t)(ms / 1e3), .tv_nsec = (long)ns};
  return ppoll(places, count, &wait, NULL);
}
