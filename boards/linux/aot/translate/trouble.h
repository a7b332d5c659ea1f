/* The end of the translator where it cannot go on, and memory, without which it cannot. */
#ifndef TRANSLATE_TROUBLE_H
#define TRANSLATE_TROUBLE_H

#include <stddef.h>

/* Says why on standard error, and ends the program. */
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* The program ends with the build's step: what it allocates is never freed, unless it is often. */
void *grown(void *memory, size_t bytes);

/* At least one more than `count`. */
void *zeros(size_t count, size_t bytes);

#endif
