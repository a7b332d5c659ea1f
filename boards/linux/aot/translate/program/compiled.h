/* The program as QuickJS has compiled it, and what else is asked of QuickJS. */
#ifndef TRANSLATE_COMPILED_H
#define TRANSLATE_COMPILED_H

#include <stddef.h>

#include "program/program.h"

/* Compiles it, as the board will, and lists its functions. `path` is for what is said of it. */
void read_program(struct program *program, const char *path, const char *source, size_t length);

/* Is the name an ordinary one, of which there is a string? */
bool is_string(const struct program *program, uint32_t name);

bool is_spelt(const struct program *program, uint32_t name, const char *text);

/* `**` of JavaScript. */
double power_of(double base, double exponent);

#endif
