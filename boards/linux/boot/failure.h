/*
 * What the script did not catch.
 *
 * Invariant: a promise that was refused, and that nobody looks after when all work that
 * waits is done, is a failure as an exception is.
 */
#ifndef PERDURE_BOOT_FAILURE_H
#define PERDURE_BOOT_FAILURE_H

#include "values.h"

/* From now on promises that are refused are noted. */
void failure_watch(JSRuntime *runtime);

/* Throws the reason of one that nobody looks after, and returns true, if there is one. */
bool failure_refused(JSContext *context);

/* Says in the log what was thrown: the message, and where it was. */
void failure_tell(JSContext *context);

#endif
