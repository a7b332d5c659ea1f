/*
 * Files of memory: a program, or what one reads, that is on no disk.
 *
 * Invariant: once it is given to the script its bytes never change, and a program that is
 * not to be run cannot be.
 */
#ifndef PERDURE_BOOT_MEMORY_FILE_H
#define PERDURE_BOOT_MEMORY_FILE_H

#include "values.h"

JSCFunction host_memory_file;

#endif
