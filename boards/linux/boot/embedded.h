/* The script that the program was linked with. */
#ifndef PERDURE_BOOT_EMBEDDED_H
#define PERDURE_BOOT_EMBEDDED_H

#include <stdint.h>

/* Its bytes, and a NUL behind them that is not counted. */
extern const char embedded_script[];
extern const uint64_t embedded_script_bytes;

#endif
