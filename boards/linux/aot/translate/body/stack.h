/* What stands on the interpreter's stack while a function is written: see body.h. */
#ifndef TRANSLATE_STACK_H
#define TRANSLATE_STACK_H

#include "body/body.h"

/* The number of a C variable that nothing else has: `t` and that. */
int temporary(struct body *body);

/* The entry that stands so far below the last. */
struct entry *top(struct body *body, int below);
struct entry pop(struct body *body);

/* An entry whose text has a number in it. */
struct entry entry_of(enum kind kind, const char *format, int number);
void push_entry(struct body *body, struct entry e);
void push_number(struct body *body, enum kind kind, const char *format, int number);
void push_integer(struct body *body, int32_t number);
void push_constant(struct body *body, const char *text);
void push_borrowed(struct body *body, enum source source, const char *format, int index);

/* A temporary with a reference of its own; one without references. */
void push_owned(struct body *body, int t);
void push_plain(struct body *body, int t);

/* Of C. */
struct expression {
  char text[96];
};

/* The value, borrowed. */
struct expression value_of(const struct entry *e);

/* The value with a reference of its own, which e's becomes if it has one. */
struct expression own_of(const struct entry *e);

/* Gives what was borrowed of a variable a reference of its own, before that is stored to. */
void keep_borrowed(struct body *body, enum source source, int index);

/* The same for what objects hold, before anything is stored, freed or called. */
void keep_held(struct body *body);

/* The same before an operation has begun, which may leave yet; not for its operands. */
void keep_held_below(struct body *body, int operands);

/* Gives up what was taken from the stack; the same on a way that is seldom gone. */
void drop(struct body *body, const struct entry *e);
void drop_aside(const struct entry *e);

/* Takes so many from the stack and gives them up. */
void consume(struct body *body, int count);

#endif
