/* Places of the program that remember the shape of an object. */
#ifndef TRANSLATE_PLACES_H
#define TRANSLATE_PLACES_H

#include "program/program.h"

/* Its number. */
int new_place(struct program *program);

/* The operation needs its property to be in that slot of what the place remembers. */
void add_want(struct program *program, int place, const struct instruction *i, uint32_t slot);

/* What every place wants, where all have been written. */
void write_places(const struct program *program);

#endif
