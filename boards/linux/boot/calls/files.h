/*
 * Files and block devices for the script.
 *
 * Invariant: what cannot be read or written whole is an exception; nothing is cut short.
 */
#ifndef PERDURE_BOOT_FILES_H
#define PERDURE_BOOT_FILES_H

#include "values.h"

JSCFunction host_read_file, host_open_storage, host_lock, host_read_at, host_write_at, host_sync;

#endif
