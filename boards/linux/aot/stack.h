/*
 * What stands on the interpreter's stack while one function is written, and the ways out of it.
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
#ifndef AOT_STACK_H
#define AOT_STACK_H

#include <ctype.h>

#include "profile.h"

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

/* What is known of the value that a C variable holds: that its shape is the one which a place
 * remembers, that it is an array of a class; -1: nothing. */
struct fact {
  char text[32];
  int place, class;
};

#define FACTS_MAX 64

struct facts {
  struct fact known[FACTS_MAX];
  int count;
};

/* An operation of the function that is being written. */
struct point {
  int depth;    /* of the stack before it; -1: nothing comes here */
  int arrivals; /* how many operations it comes after */
  bool is_written;
  int carried;  /* from how many arrivals there are facts */
  struct facts *facts;
};

/* Of the function that is being written. */
static struct {
  int index;
  const JSFunctionBytecode *b;
  struct stack stack, before; /* `before` is as the operation found it */
  const uint32_t *seen;       /* by offset; NULL: nothing is known */
  int first_seen;             /* where it begins in what is noted of all functions */
  struct facts facts;
  struct point *points;       /* by offset */
  bool is_linked;             /* its frame was entered at its beginning */
  struct leaving *leavings;
  int leaving_count;
  struct way *ways;
  int way_count;
  int temporaries;
} now;

/* ---- Facts ---- */

static struct fact *fact_of(const char *text) {
  for (int k = 0; k < now.facts.count; k++) {
    if (strcmp(now.facts.known[k].text, text) == 0) return &now.facts.known[k];
  }
  return NULL;
}

static void forget(const char *text) {
  struct fact *fact = fact_of(text);
  if (fact != NULL) *fact = now.facts.known[--now.facts.count];
}

static void learn(const char *text, int place, int class) {
  struct fact *fact = fact_of(text);
  if (fact == NULL) {
    if (now.facts.count == FACTS_MAX) return;
    fact = &now.facts.known[now.facts.count++];
    *fact = (struct fact){.place = -1, .class = -1};
    snprintf(fact->text, sizeof fact->text, "%s", text);
  }
  if (place >= 0) fact->place = place;
  if (class >= 0) fact->class = class;
}

/* What is known of one variable is so of another from here on. */
static void learn_same(const char *text, const char *other) {
  forget(text);
  const struct fact *fact = fact_of(other);
  if (fact != NULL) learn(text, fact->place, fact->class);
}

/* Something may happen that gives objects other shapes. */
static void forget_shapes(void) {
  for (int k = 0; k < now.facts.count; k++) now.facts.known[k].place = -1;
}

/* What is known both now and there. */
static void meet(struct facts *there) {
  for (int k = 0; k < there->count; k++) {
    const struct fact *fact = fact_of(there->known[k].text);
    if (fact == NULL || fact->place != there->known[k].place) there->known[k].place = -1;
    if (fact == NULL || fact->class != there->known[k].class) there->known[k].class = -1;
  }
}

/* On a way to an operation that is not written yet. */
static void carry_facts(uint32_t at) {
  struct point *point = &now.points[at];
  if (point->carried++ > 0) {
    meet(point->facts);
    return;
  }
  point->facts = zeros(1, sizeof now.facts);
  *point->facts = now.facts;
}

/* Where ways meet, what is known on all of them. Nothing, if one of them has yet to be written. */
static void meet_facts(uint32_t at) {
  struct point *point = &now.points[at];
  if (point->carried == point->arrivals) now.facts = *point->facts;
  else now.facts.count = 0;
}

/* ---- The stack ---- */

static struct entry *top(int below) {
  return &now.stack.entries[now.stack.depth - 1 - below];
}

static void push_entry(struct entry e) {
  if (now.stack.depth == STACK_MAX) die("translate: a stack of more than %d", STACK_MAX);
  now.stack.entries[now.stack.depth++] = e;
}

static struct entry pop(void) { return now.stack.entries[--now.stack.depth]; }

static int temporary(void) { return now.temporaries++; }

static struct entry entry_of(enum kind kind, const char *format, int number) {
  struct entry e = {.kind = kind, .plain = kind != VALUE && kind != FUNCTION};
  snprintf(e.text, sizeof e.text, format, number);
  return e;
}

static void push_number(enum kind kind, const char *format, int number) {
  push_entry(entry_of(kind, format, number));
}

static void push_integer(int32_t number) {
  if (number == INT32_MIN) push_number(INTEGER, "(-%d - 1)", INT32_MAX);
  else push_number(INTEGER, number < 0 ? "(%d)" : "%d", number);
}

/* A temporary with a reference of its own. */
static void push_owned(int t) {
  struct entry e = entry_of(VALUE, "t%d", t);
  e.owned = true;
  push_entry(e);
}

/* A temporary without references. */
static void push_plain(int t) {
  struct entry e = entry_of(VALUE, "t%d", t);
  e.plain = true;
  push_entry(e);
}

static void push_constant(const char *text) {
  struct entry e = entry_of(VALUE, "", 0);
  e.plain = true;
  snprintf(e.text, sizeof e.text, "%s", text);
  push_entry(e);
}

static void push_borrowed(enum source source, const char *format, int index) {
  struct entry e = entry_of(VALUE, format, index);
  e.source = source;
  e.index = index;
  push_entry(e);
}

/* The value, borrowed. The text lives until eight more were asked for. */
static const char *value_of(const struct entry *e) {
  static char texts[8][80];
  static int turn;
  char *text = texts[turn++ & 7];
  const char *format = e->kind == INTEGER  ? "aot_of_int(%s)"
                       : e->kind == NUMBER ? "JS_NewFloat64(ctx, %s)"
                       : e->kind == TRUTH  ? "aot_of_bool(%s)"
                                           : "%s";
  snprintf(text, sizeof texts[0], format, e->text);
  return text;
}

/* The value with a reference of its own, which e's becomes if it has one. */
static const char *own_of(const struct entry *e) {
  static char texts[8][96];
  static int turn;
  if (e->owned || e->plain) return value_of(e);
  char *text = texts[turn++ & 7];
  snprintf(text, sizeof texts[0], "JS_DupValue(ctx, %s)", value_of(e));
  return text;
}

static void keep(struct entry *e) {
  int t = temporary();
  printf("  const JSValue t%d = %s;\n", t, own_of(e));
  struct entry kept = entry_of(VALUE, "t%d", t);
  kept.owned = true;
  learn_same(kept.text, e->text);
  *e = kept;
}

/* Gives what was borrowed of a variable a reference of its own, before that is stored to. */
static void keep_borrowed(enum source source, int index) {
  for (int i = 0; i < now.stack.depth; i++) {
    struct entry *e = &now.stack.entries[i];
    if (!e->owned && e->source == source && e->index == index) keep(e);
  }
}

/* The same for what objects hold, before anything is stored, freed or called. */
static void keep_held(void) {
  for (int i = 0; i < now.stack.depth; i++) {
    struct entry *e = &now.stack.entries[i];
    if (!e->owned && e->source == HELD) keep(e);
  }
}

/* The same before an operation has begun, which may leave yet; not for its operands. */
static void keep_held_below(int operands) {
  now.stack.depth -= operands;
  keep_held();
  now.stack.depth += operands;
  now.before = now.stack;
}

static void drop(const struct entry *e) {
  if (!e->owned) return;
  keep_held();
  printf("  JS_FreeValue(ctx, %s);\n", e->text);
}

/* The same on a way that is seldom gone. */
static void drop_aside(const struct entry *e) {
  if (e->owned) printf("  aot_drop(ctx, %s);\n", e->text);
}

static void consume(int count) {
  for (int k = 0; k < count; k++) {
    struct entry e = pop();
    drop(&e);
  }
}

/* ---- Ways out ---- */

static void add_leaving(struct leaving leaving) {
  now.leavings = grown(now.leavings, sizeof *now.leavings * (size_t)(now.leaving_count + 1));
  now.leavings[now.leaving_count++] = leaving;
}

/* Where the operation goes that finds something it does not know: the label's number. */
static uint32_t way_to_leave(const struct instruction *i) {
  int last = now.leaving_count - 1;
  bool is_there = last >= 0 && now.leavings[last].at == i->at && !now.leavings[last].is_done;
  if (!is_there) add_leaving((struct leaving){i->at, false, i->at, now.before});
  return i->at;
}

/* Where the operation goes that is done, and has given something that was not expected. */
static uint32_t way_to_leave_done(const struct instruction *i) {
  add_leaving((struct leaving){i->at, true, i->next, now.stack});
  return i->at;
}

static void write_leavings(void) {
  const JSFunctionBytecode *b = now.b;
  int below = b->arg_count + b->var_count;
  for (int k = 0; k < now.leaving_count; k++) {
    const struct leaving *leaving = &now.leavings[k];
    printf(" %c%u:\n", leaving->is_done ? 'Y' : 'X', leaving->at);
    for (int i = 0; i < leaving->stack.depth; i++) {
      printf("  frame[%d] = %s;\n", below + i, own_of(&leaving->stack.entries[i]));
    }
    printf("  depth = %d;\n  offset = %u;\n  goto leave;\n", leaving->stack.depth,
           leaving->offset);
  }
}

static int way_of(int depth) {
  if (depth == 0) return -1;
  const struct entry *e = &now.stack.entries[depth - 1];
  int rest = way_of(depth - 1);
  if (!e->owned) return rest;
  int t = atoi(e->text + 1);
  for (int k = 0; k < now.way_count; k++) {
    if (now.ways[k].temporary == t && now.ways[k].rest == rest) return k;
  }
  now.ways = grown(now.ways, sizeof *now.ways * (size_t)(now.way_count + 1));
  now.ways[now.way_count] = (struct way){t, rest};
  return now.way_count++;
}

static void write_ways(void) {
  for (int k = now.way_count - 1; k >= 0; k--) {
    const struct way *way = &now.ways[k];
    printf(" W%d:\n  aot_drop(ctx, t%d);\n", k, way->temporary);
    if (way->rest < 0) printf("  goto failed;\n");
    else printf("  goto W%d;\n", way->rest);
  }
}

/* Ends `if (unlikely(CONDITION)) `: what the stack owns is dropped, and the function fails. */
static void write_failure(void) {
  int way = way_of(now.stack.depth);
  if (way < 0) printf("goto failed;\n");
  else printf("goto W%d;\n", way);
}

static void fail_if_exception(int t) {
  printf("  if (unlikely(JS_IsException(t%d))) ", t);
  write_failure();
}

/* ---- Where ways meet ---- */

static void hand_over(void) {
  for (int i = 0; i < now.stack.depth; i++) {
    printf("  s%d = %s;\n", i, own_of(&now.stack.entries[i]));
  }
}

static void take_over(int depth) {
  now.stack.depth = 0;
  for (int i = 0; i < depth; i++) {
    int t = temporary();
    printf("  const JSValue t%d = s%d;\n", t, i);
    push_owned(t);
  }
}

/* Every loop has one jump to what stands before it in C. */
static void poll_if_back(const struct instruction *i) {
  if (!now.points[i->operand].is_written) return;
  printf("  if (unlikely(js_poll_interrupts(ctx))) {\n  aot_at(&sf, %u);\n  ", i->next);
  write_failure();
  printf("  }\n");
}

/* What stands on the stack is handed over only where it jumps. */
static void write_jump(const struct instruction *i, const char *condition) {
  poll_if_back(i);
  printf("  %s{\n", condition);
  hand_over();
  printf("  goto L%d;\n  }\n", i->operand);
  if (!now.points[i->operand].is_written) carry_facts((uint32_t)i->operand);
}

/* ---- What was seen ---- */

static unsigned seen_at(uint32_t at) { return now.seen != NULL ? now.seen[at] : 0; }

/* While the program is watched: notes a mask, an expression of C. */
__attribute__((format(printf, 2, 3))) static void note(uint32_t at, const char *format, ...) {
  if (!learns) return;
  va_list arguments;
  va_start(arguments, format);
  printf("  aot_seen[%d] |= ", now.first_seen + (int)at);
  vprintf(format, arguments);
  printf(";\n");
  va_end(arguments);
}

/* If only integers, or only truths, were seen where the last of the stack came from, it is that
 * from here on; what is something else goes on in the interpreter. */
static void narrow(const struct instruction *i) {
  struct entry e = *top(0);
  note(i->at, "aot_kind_seen(%s)", value_of(&e));
  unsigned seen = seen_at(i->at) & SEEN_VALUES;
  if (e.kind != VALUE || (seen != SEEN_INT && seen != SEEN_BOOL)) return;
  printf("  if (unlikely(JS_VALUE_GET_TAG(%s) != %s)) goto Y%u;\n", e.text,
         seen == SEEN_INT ? "JS_TAG_INT" : "JS_TAG_BOOL", way_to_leave_done(i));
  int t = temporary();
  printf("  const int32_t t%d = INT(%s);\n", t, e.text);
  pop();
  push_number(seen == SEEN_INT ? INTEGER : TRUTH, "t%d", t);
}

#endif
