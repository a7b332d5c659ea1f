/*
 * The body of one function while it is written: what stands on the interpreter's stack, and the
 * ways out of it.
 *
 * Invariants:
 * - Everything that stands on the interpreter's stack is in a C variable of its own, which is
 *   never stored to again. It is `owned`, then its reference is given up where it is consumed; or
 *   it is borrowed of something that outlives it: an argument, `this`, a variable of the function
 *   (before that is stored to, what was borrowed of it gets a reference of its own), a variable of
 *   a closure that is stored to once in all the program; or of an object that holds it, until
 *   something happens that may change or free that (`keep_held` comes before); or it is `plain`,
 *   without references.
 * - Where ways meet, what stands on the stack is handed over in s0, s1 and so on, each owned.
 * - Before an operation has done anything it may leave: all that the function holds goes to a frame
 *   of the interpreter, which begins with that very operation. Ownership goes with it. When it is
 *   done it may leave, too: the frame begins with the next one.
 */
#ifndef TRANSLATE_BODY_H
#define TRANSLATE_BODY_H

#include "body/facts.h"
#include "program/program.h"

#define STACK_MAX 64

enum kind { VALUE, INTEGER, NUMBER, TRUTH, FUNCTION };
enum source { NOWHERE, LOCAL, ARGUMENT, LASTING, HELD };

struct entry {
  enum kind kind;
  enum source source; /* what it is borrowed of, if it is not owned */
  int index;          /* of the local or argument; of the function */
  bool owned, plain;
  char text[32]; /* a C expression without effects */
};

struct stack {
  struct entry entries[STACK_MAX];
  int depth;
};

/* An operation that leaves, and what the interpreter finds on the stack. */
struct leaving {
  uint32_t at;
  bool is_done; /* the next operation is the interpreter's first */
  uint32_t offset;
  struct stack stack;
};

/* A way out where something threw: what is owned is dropped one by one, the last first, each way
 * going on where that of one less does. */
struct way {
  int temporary, rest; /* `rest` is the index of the way for those below; -1: there are none */
};

/* An operation of the function. */
struct point {
  int depth;    /* of the stack before it; -1: nothing comes here */
  int arrivals; /* how many operations it comes after */
  bool is_written;
  int carried; /* from how many arrivals there are facts */
  struct facts *facts;
};

struct body {
  struct program *program;
  int index; /* of the function in the program */
  const struct function *function;
  const uint32_t *seen; /* by offset; NULL: nothing is known */
  bool is_linked;       /* its frame was entered at its beginning */
  struct stack stack, before; /* `before` is as the operation found it */
  struct facts facts;
  struct point *points; /* by offset */
  struct leaving *leavings;
  int leaving_count;
  struct way *ways;
  int way_count;
  int temporaries;
};

#endif
