/*
 * What the variables of a program can be, by the stores to them.
 *
 * Invariant: a variable with one store, outside of loops and by the function whose it is,
 * has no value, or that one. If the store is among the declarations that open the function, nobody
 * ever sees the variable without it. Arguments have a store when they come.
 */
#ifndef TRANSLATE_STORES_H
#define TRANSLATE_STORES_H

#include "program/program.h"

/* Notes every store to every variable. */
void find_stores(struct program *program);

/* The variable that a closure's is; NULL if it is none of a function (a global one). */
struct variable *variable_of(const struct program *program, int function, int index);

/* The function that a closure's variable is wherever it is seen; -1 if it is none. */
int function_in(const struct program *program, int function, int index);

/* For each offset: is it in a loop? To be freed. */
bool *find_loops(const struct function *function);

#endif
