/* Small files, read whole. */
#ifndef PERDURE_FILE_H
#define PERDURE_FILE_H

#include <stddef.h>

#include "service/fault.h"

/*
 * All bytes of a file of at most `max`, with a NUL behind them: the caller frees them. NULL if it
 * cannot be read, or is larger.
 */
char *file_read(const char *path, size_t max, size_t *length, struct fault *fault);

#endif
