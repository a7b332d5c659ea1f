/*
 * A listening Unix socket of stream type at a path.
 *
 * A socket file that a killed process left is replaced; one that is listened on is not, and neither
 * is anything else that stands there.
 */
#ifndef PERDURE_UNIX_SOCKET_H
#define PERDURE_UNIX_SOCKET_H

#include "service/fault.h"

/* The descriptor, non-blocking and closed on exec; -1 with the fault set. */
int unix_listen(const char *path, struct fault *fault);

#endif
