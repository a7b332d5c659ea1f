/* Which functions of a program are translated. */
#ifndef TRANSLATE_CHOICE_H
#define TRANSLATE_CHOICE_H

#include "program/program.h"

/* Those that stand in the files and can be, what these call, and what calls these in a loop. */
void choose_functions(struct program *program, const char *source, char **files, int count);

#endif
