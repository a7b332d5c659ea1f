/*
 * Linked into the bench's own builds of perdured, in place of the filter of system calls: they sort
 * what they have measured, and write it to a file, which perdured itself has no business to do.
 */
#include "confine/syscalls.h"

bool __wrap_syscalls_confine(struct fault *fault);
bool __wrap_syscalls_confine(struct fault *fault) {
  (void)fault;
  return true;
}
