/*
 * The system calls that are left to perdured while it serves: those of a list, in a filter of
 * seccomp (seccomp(2)).
 *
 * Invariant: from when this returns true any other call ends the process, and nothing takes the
 * filter away. What is open by then is read, written and closed; no program is run, no process is
 * made, nothing is connected to, and no page becomes code.
 */
#ifndef PERDURE_SYSCALLS_H
#define PERDURE_SYSCALLS_H

#include <stdbool.h>

#include "service/fault.h"

/*
 * Leaves the calls of the list; new privileges must be forbidden by then (privilege.h). False where
 * the kernel has no such filters, with the reason.
 */
bool syscalls_confine(struct fault *fault);

#endif
