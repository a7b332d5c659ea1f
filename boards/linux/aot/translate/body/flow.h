/*
 * Writes the operations of a function in the order in which they come after one another.
 *
 * Invariant: an operation is written once, where the first way to it ends, or at its label.
 * What only one operation comes before needs no label: the stack and the facts go on. Ways that
 * were never seen to be gone are not written: see `ways_of`.
 */
#ifndef TRANSLATE_FLOW_H
#define TRANSLATE_FLOW_H

#include "body/body.h"

void write_flow(struct body *body);

#endif
