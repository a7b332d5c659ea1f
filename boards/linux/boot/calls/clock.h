/* A clock that goes on whatever the date is set to, and waiting by it. */
#ifndef PERDURE_BOOT_CLOCK_H
#define PERDURE_BOOT_CLOCK_H

#include <poll.h>

/* Milliseconds, with fractions. */
double clock_ms(void);

/* As poll(2), until `until_ms` of that clock at the latest. */
int clock_poll(struct pollfd *places, nfds_t count, double until_ms);

#endif
