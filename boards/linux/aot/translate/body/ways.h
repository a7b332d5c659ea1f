/* The ways out of a function that is written, and those from one of its operations to another. */
#ifndef TRANSLATE_WAYS_H
#define TRANSLATE_WAYS_H

#include "body/body.h"

/* Where the operation goes that finds something it does not know: the label's number. */
uint32_t way_to_leave(struct body *body, const struct instruction *i);

/* Where the operation goes that is done, and has given something that was not expected. */
uint32_t way_to_leave_done(struct body *body, const struct instruction *i);

/* All of them, at the end of the function. */
void write_leavings(const struct body *body);

/* Ends `if (unlikely(CONDITION)) `: what the stack owns is dropped, and the function fails. */
void write_failure(struct body *body);
void fail_if_exception(struct body *body, int t);

/* Where failures go, at the end of the function. */
void write_ways(const struct body *body);

/* Gives what stands on the stack to where ways meet, and takes so much from there. */
void hand_over(const struct body *body);
void take_over(struct body *body, int depth);

/* A jump under a condition, or with none; what stands on the stack is handed over only where it
 * jumps. */
void write_jump(struct body *body, const struct instruction *i, const char *condition);

/* On a way to an operation that is not written yet: what is known is so there, too. */
void carry_facts(struct body *body, uint32_t at);

/* Where ways meet, what is known on all of them. Nothing, if one of them has yet to be written. */
void meet_facts(struct body *body, uint32_t at);

#endif
