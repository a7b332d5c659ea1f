/*
 * Where the script listens: Unix sockets, UDP, serial lines.
 *
 * Invariant: nothing that the script reads from or writes to ever waits, and no other
 * program inherits it.
 */
#ifndef PERDURE_BOOT_LISTENERS_H
#define PERDURE_BOOT_LISTENERS_H

#include "values.h"

JSCFunction host_listen_unix, host_listen_udp, host_port_of, host_open_tty, host_listen_notify;

#endif
