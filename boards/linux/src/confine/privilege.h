/*
 * Giving up what only opening needed.
 *
 * Invariant: when this returns true there is no way back: no privilege is left in any set,
 * and none can be gained by executing another program.
 */
#ifndef PERDURE_PRIVILEGE_H
#define PERDURE_PRIVILEGE_H

#include <stdbool.h>

#include "service/fault.h"

/* Becomes `user`, of /etc/passwd or a number, if one is named; drops every capability anyhow. */
bool privilege_drop(const char *user, struct fault *fault);

#endif
