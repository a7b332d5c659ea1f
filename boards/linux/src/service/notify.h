/*
 * Telling the service manager how we are (sd_notify(3)): a datagram to NOTIFY_SOCKET, if there is
 * one. What cannot be told is no failure of ours.
 */
#ifndef PERDURE_NOTIFY_H
#define PERDURE_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

/* Before privileges are given up: the socket may be for root alone. Nothing is told before it. */
void notify_open(void);

/* As "READY=1\nSTATUS=serving". */
void notify(const char *state);

/*
 * READY=1, and in the same datagram what is ready: the bundle's SHA-256, whether the memory keeps
 * what it takes, and what the firmware reports of its start, each word `name=value` of at most 200
 * characters as a line PERDURE_NAME=value.
 */
void notify_ready(const char *bundle, bool armed, const char *report);

/* Microseconds after which a sign of life is due (WATCHDOG_USEC, halved); 0 if nobody waits. */
uint64_t notify_watchdog_us(void);

#endif
