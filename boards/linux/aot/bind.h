#ifndef AOT_BIND_H
#define AOT_BIND_H

#include <stdbool.h>
#include <stdint.h>

#include "quickjs.h"

/*
 * Has the functions of a compiled program, whose source has that SHA-256 in hexadecimal, run as
 * what they were translated to. False if another program was translated: nothing is changed then,
 * and it is interpreted. One runtime at a time. The program has come to its end without an error
 * before, so that what it stores once is stored: the translation counts on that.
 */
bool aot_bind(JSValueConst program, const char *sha256);

/* How many functions of a compiled program run as what they were translated to. */
int aot_bound(JSValueConst program);

/* How often a translated function went on in the interpreter. */
uint64_t aot_resumes(void);

/* How many calls met a function that had done so too often: they ran as written for anything. */
uint64_t aot_rested(void);

/* Before the runtime is freed: what the translated functions remember of its objects. */
void aot_unbind(JSRuntime *runtime);

#endif
