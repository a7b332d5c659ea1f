/*
 * Telling the service manager how we are (sd_notify(3)): a datagram to NOTIFY_SOCKET, if there is
 * one. What cannot be told is no failure of ours.
 */
#ifndef PERDURE_NOTIFY_H
#define PERDURE_NOTIFY_H

#include <stdint.h>

/* As "READY=1\nSTATUS=serving". */
void notify(const char *state);

/* Microseconds after which a sign of life is due (WATCHDOG_USEC, halved); 0 if nobody waits. */
uint64_t notify_watchdog_us(void);

#endif
