/*
 * The descriptors that the script has: those that were opened for it, and no others.
 *
 * Invariant: a number that the script gives is one of these, or an exception is thrown, so
 * that no mistake of it reaches stdio or what the program itself has open.
 */
#ifndef PERDURE_BOOT_DESCRIPTORS_H
#define PERDURE_BOOT_DESCRIPTORS_H

#include "values.h"

enum { DESCRIPTORS_MAX = 1024 };

/* The number for the script. One too many is closed, and an exception is thrown. */
JSValue give_descriptor(JSContext *context, int descriptor);

bool take_descriptor(JSContext *context, JSValueConst value, const char *name, int *descriptor);

/* An array of them that is a property of an object; how many, at most so many; -1: thrown. */
int take_descriptors(JSContext *context, JSValueConst object, const char *name, int *descriptors,
                     int most);

/* Whether the script has it. */
bool descriptor_is_known(int descriptor);

/* host.close */
JSCFunction host_close;

#endif
