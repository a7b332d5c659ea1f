/*
 * Connections and serial lines for the script, and a question to another program's socket.
 *
 * Invariant: the end of a connection, however it comes, is a value and no exception.
 */
#ifndef PERDURE_BOOT_STREAMS_H
#define PERDURE_BOOT_STREAMS_H

#include "values.h"

JSCFunction host_accept, host_read, host_write, host_ask;

#endif
