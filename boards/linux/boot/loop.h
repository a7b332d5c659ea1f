/*
 * What the program waits for, and what it tells the script then.
 *
 * Invariant: SIGTERM, SIGINT and SIGCHLD never interrupt anything; they are read here.
 */
#ifndef PERDURE_BOOT_LOOP_H
#define PERDURE_BOOT_LOOP_H

#include "values.h"

/* Holds the signals back; -1: errno says why that cannot be. */
int loop_signals(void);

/* Waits for what a Watch of the script names; returns a Came, or an exception. */
JSValue loop_wait(JSContext *context, JSValueConst watch, int signals);

#endif
