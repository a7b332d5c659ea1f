/*
 * What went wrong outside, as a sentence for people: a value, never an abort.
 *
 * A function that can fail for a reason outside takes a `struct fault *` last and returns false
 * with the text set. The text says what was tried, what was found, and what to do next.
 */
#ifndef PERDURE_FAULT_H
#define PERDURE_FAULT_H

#include <stdbool.h>

struct fault {
  char text[512];
};

/* Sets the text, as printf does, and returns false. */
bool fault_set(struct fault *fault, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
