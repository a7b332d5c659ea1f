/*
 * The object that the script has of the system: `Host` of script/host.ts.
 *
 * Invariant: it has exactly what is said there; whatever the script gives is checked.
 */
#ifndef PERDURE_BOOT_SCRIPT_H
#define PERDURE_BOOT_SCRIPT_H

#include "values.h"

/* `words` are those behind the program's name. */
JSValue script_host(JSContext *context, char *const *words);

/* Whether the script wants the program to end, and with which code. */
bool script_exits(int *code);

#endif
