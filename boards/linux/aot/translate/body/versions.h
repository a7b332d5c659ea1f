/* Writes whole functions. */
#ifndef TRANSLATE_VERSIONS_H
#define TRANSLATE_VERSIONS_H

#include "program/program.h"

/* Declares every version of a function. */
void declare_function(struct program *program, int index);

/* Writes every version, and what the engine calls. */
void write_function(struct program *program, int index);

#endif
