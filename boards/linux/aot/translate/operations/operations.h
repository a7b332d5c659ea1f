/*
 * Writes one operation of a function as C, by what it is about.
 *
 * Invariant: where one of these is not about an operation it says so, and has written nothing.
 */
#ifndef TRANSLATE_OPERATIONS_H
#define TRANSLATE_OPERATIONS_H

#include "body/body.h"
#include "body/stack.h"

/* Any, except for a jump that is always done; false where it is not known. */
bool write_operation(struct body *body, const struct instruction *i);

/* Constants and names; moves on the stack. */
bool write_push(struct body *body, const struct instruction *i);
bool write_move(struct body *body, const struct instruction *i);

/* Of the function, and of closures. */
bool write_variable(struct body *body, const struct instruction *i);

/* Of two numbers; of one, and of any value: is it the same, is it nothing, is it true? */
bool write_numeric(struct body *body, const struct instruction *i);
bool write_logic(struct body *body, const struct instruction *i);

/* Of objects: their properties; elements of arrays. */
bool write_property(struct body *body, const struct instruction *i);
bool write_element(struct body *body, const struct instruction *i);

bool write_call_or_return(struct body *body, const struct instruction *i);

/* All of a branch but the jump of one that only jumps. */
void write_branch(struct body *body, const struct instruction *i);

/* ---- Parts of several operations ---- */

/* The truth of a value. What is not told at once leaves. */
struct expression truth_of(struct body *body, const struct instruction *i, const struct entry *e);

/* One more or less, in place of the last of the stack. */
void write_step(struct body *body, const struct instruction *i, bool up);

/* Another one of an entry: borrowed where that one is, else with a reference of its own. */
void push_again(struct body *body, int below);

#endif
