/*
 * Datagrams for the script: over UDP, and what children say of themselves.
 *
 * Invariant: an answer leaves from the address that was asked. Of what comes to a socket
 * for children, only what children of this program say is heard; `peer` is the process's number.
 */
#ifndef PERDURE_BOOT_MESSAGES_H
#define PERDURE_BOOT_MESSAGES_H

#include "values.h"

JSCFunction host_receive_from, host_send_to;

#endif
