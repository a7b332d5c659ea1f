/*
 * Writes one function's operations as C.
 *
 * What always holds:
 * - Everything that stands on the interpreter's stack is in a C variable of its own, which is
 *   never stored to again. It is `owned`, then its reference is given up where it is consumed; or
 *   it is borrowed of something that outlives it: an argument, `this`, a variable of the function
 *   (before that is stored to, what was borrowed of it gets a reference of its own), a variable of
 *   a closure that is stored to once in all the program; or it is `plain`, without references.
 * - Where ways meet, what stands on the stack is handed over in s0, s1 and so on, each owned.
 * - Before an operation has done anything it may leave: all that the function holds goes to a frame
 *   of the interpreter, which begins with that very operation. Ownership goes with it.
 */
#ifndef AOT_OPERATIONS_H
#define AOT_OPERATIONS_H

#include <ctype.h>

#include "program.h"

#define STACK_MAX 64

enum kind { VALUE, INTEGER, TRUTH, FUNCTION };
enum source { NOWHERE, LOCAL, ARGUMENT, LASTING };

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

/* An operation that leaves, and what it found on the stack. */
struct leaving {
  uint32_t at;
  struct stack stack;
};

/* A way out where something threw: what is owned is dropped one by one, the last first, each way
 * going on where that of one less does. */
struct way {
  int temporary, rest; /* `rest` is the index of the way for those below; -1: there are none */
};

/* Of the function that is being written. */
static struct {
  int index;
  const JSFunctionBytecode *b;
  struct stack stack, before; /* `before` is as the operation found it */
  struct leaving *leavings;
  int leaving_count;
  struct way *ways;
  int way_count;
  int temporaries;
} now;

static int place_count;

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
  struct entry e = {.kind = kind, .plain = kind == INTEGER || kind == TRUTH};
  snprintf(e.text, sizeof e.text, format, number);
  return e;
}

static void push_number(enum kind kind, const char *format, int number) {
  push_entry(entry_of(kind, format, number));
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
  static char texts[8][64];
  static int turn;
  char *text = texts[turn++ & 7];
  const char *format = e->kind == INTEGER ? "aot_of_int(%s)"
                       : e->kind == TRUTH ? "aot_of_bool(%s)"
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

static void drop(const struct entry *e) {
  if (e->owned) printf("  JS_FreeValue(ctx, %s);\n", e->text);
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

/* Gives what was borrowed of a variable a reference of its own, before that is stored to. */
static void keep_borrowed(enum source source, int index) {
  for (int i = 0; i < now.stack.depth; i++) {
    struct entry *e = &now.stack.entries[i];
    if (e->owned || e->source != source || e->index != index) continue;
    int t = temporary();
    printf("  const JSValue t%d = %s;\n", t, own_of(e));
    *e = entry_of(VALUE, "t%d", t);
    e->owned = true;
  }
}

/* ---- Ways out ---- */

/* Where the operation goes that finds something it does not know: the label's number. */
static uint32_t way_to_leave(const struct instruction *i) {
  int last = now.leaving_count - 1;
  if (last >= 0 && now.leavings[last].at == i->at) return i->at;
  now.leavings = grown(now.leavings, sizeof *now.leavings * (size_t)(last + 2));
  now.leavings[now.leaving_count++] = (struct leaving){i->at, now.before};
  return i->at;
}

static void write_leavings(void) {
  const JSFunctionBytecode *b = now.b;
  int below = b->arg_count + b->var_count;
  for (int k = 0; k < now.leaving_count; k++) {
    const struct leaving *leaving = &now.leavings[k];
    printf(" X%u:\n", leaving->at);
    for (int i = 0; i < leaving->stack.depth; i++) {
      printf("  frame[%d] = %s;\n", below + i, own_of(&leaving->stack.entries[i]));
    }
    printf("  depth = %d;\n  offset = %u;\n  goto leave;\n", leaving->stack.depth, leaving->at);
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

static void poll_if_back(const struct instruction *i) {
  if ((uint32_t)i->operand > i->at) return;
  printf("  if (unlikely(js_poll_interrupts(ctx))) ");
  write_failure();
}

static void write_jump(const struct instruction *i, const char *condition) {
  poll_if_back(i);
  hand_over();
  printf("  %sgoto L%d;\n", condition, i->operand);
}

/* The truth of a value: the text of a C expression. */
static const char *truth_of(const struct instruction *i, const struct entry *e) {
  static char text[32];
  if (e->kind == INTEGER || e->kind == TRUTH) {
    snprintf(text, sizeof text, "%s", e->text);
    return text;
  }
  int t = temporary();
  const char *x = value_of(e);
  printf("  bool t%d;\n  if (likely(aot_is_small(%s))) t%d = JS_VALUE_GET_INT(%s) != 0;\n", t, x, t,
         x);
  printf("  else if (likely(aot_is_true(%s))) t%d = true;\n", x, t);
  printf("  else goto X%u;\n", way_to_leave(i));
  snprintf(text, sizeof text, "t%d", t);
  return text;
}

static void write_branch(const struct instruction *i) {
  char condition[64];
  struct entry e = pop();
  const char *sign = i->opcode == OP_if_false ? "!" : "";
  snprintf(condition, sizeof condition, "if (%s%s) ", sign, truth_of(i, &e));
  drop(&e);
  write_jump(i, condition);
  take_over(now.stack.depth);
}

/* ---- Numbers ---- */

static bool is_of_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Writes a pattern in which the words X and Y stand for the operands, R for the result. */
static void write_pattern(const char *pattern, const char *x, const char *y, int t) {
  char before = ' ';
  for (const char *c = pattern; *c != '\0'; before = *c++) {
    bool is_alone = !is_of_word(before) && !is_of_word(c[1]);
    if (is_alone && *c == 'X') fputs(x, stdout);
    else if (is_alone && *c == 'Y') fputs(y, stdout);
    else if (is_alone && *c == 'R') printf("t%d", t);
    else putchar(*c);
  }
}

/*
 * Two operands. `quick` is a condition that also gives the result where both are integers, `other`
 * one where they are not; where neither holds the operation leaves.
 */
static void write_binary(const struct instruction *i, enum kind kind, const char *quick,
                         const char *other) {
  struct entry b = pop(), a = pop();
  int t = temporary();
  const char *x = value_of(&a), *y = value_of(&b);
  printf("  %s t%d;\n  {\n", kind == VALUE ? "JSValue" : "int32_t", t);
  printf("  int32_t r;\n  uint32_t p, q;\n  (void)r;\n  (void)p;\n  (void)q;\n");
  write_pattern("  if (likely(JS_VALUE_IS_BOTH_INT(X, Y))", x, y, t);
  write_pattern(quick, x, y, t);
  printf("\n  else ");
  write_pattern(other, x, y, t);
  printf("\n  else goto X%u;\n  }\n", way_to_leave(i));
  if (kind == VALUE) push_plain(t);
  else push_number(kind, "t%d", t);
}

#define INTS(operation) " && !__builtin_" operation "_overflow(INT(X), INT(Y), &r)"
#define NUMBERS(call) "if (aot_are_numbers(X, Y)) R = " call "(X, Y);"
#define WORDS(result) "if (aot_are_words(X, Y, &p, &q)) R = " result ";"
#define BITS(sign) INTEGER, ") R = INT(X) " sign " INT(Y);", WORDS("(int32_t)(p " sign " q)")
#define COMPARE(sign, orders)                                                                      \
  TRUTH, ") R = INT(X) " sign " INT(Y);", "if ((r = aot_order(X, Y)) != 3) R = " orders ";"

/* Operations of two numbers, as `write_binary` takes them. */
static const struct {
  OPCodeEnum opcode;
  enum kind kind;
  const char *quick, *other;
} numerics[] = {
    {OP_add, VALUE, INTS("add") ") R = aot_of_int(r);", NUMBERS("aot_sum")},
    {OP_sub, VALUE, INTS("sub") ") R = aot_of_int(r);", NUMBERS("aot_difference")},
    /* A product of 0 and less than 0 is -0, which is no integer. */
    {OP_mul, VALUE, INTS("mul") " && (r != 0 || (INT(X) | INT(Y)) >= 0)) R = aot_of_int(r);",
     NUMBERS("aot_product")},
    {OP_div, VALUE, ") R = aot_quotient(X, Y);", NUMBERS("aot_quotient")},
    {OP_mod, VALUE, " && INT(X) >= 0 && INT(Y) > 0) R = aot_of_int(INT(X) % INT(Y));",
     NUMBERS("aot_remainder")},
    {OP_pow, VALUE, ") R = aot_power(X, Y);", NUMBERS("aot_power")},
    {OP_and, BITS("&")},
    {OP_or, BITS("|")},
    {OP_xor, BITS("^")},
    {OP_shl, INTEGER, ") R = (int32_t)((uint32_t)INT(X) << (INT(Y) & 31));",
     WORDS("(int32_t)(p << (q & 31))")},
    {OP_sar, INTEGER, ") R = INT(X) >> (INT(Y) & 31);", WORDS("(int32_t)p >> (q & 31)")},
    {OP_shr, VALUE, ") R = aot_of_uint32((uint32_t)INT(X) >> (INT(Y) & 31));",
     WORDS("aot_of_uint32(p >> (q & 31))")},
    {OP_lt, COMPARE("<", "r < 0")},
    {OP_lte, COMPARE("<=", "r <= 0")},
    {OP_gt, COMPARE(">", "r == 1")},
    {OP_gte, COMPARE(">=", "r == 0 || r == 1")},
    {OP_eq, COMPARE("==", "r == 0")},
    {OP_neq, COMPARE("!=", "r != 0")},
};

static bool write_numeric(const struct instruction *i) {
  for (size_t k = 0; k < sizeof numerics / sizeof *numerics; k++) {
    if (numerics[k].opcode != i->opcode) continue;
    write_binary(i, numerics[k].kind, numerics[k].quick, numerics[k].other);
    return true;
  }
  return false;
}

/* One operand: as `write_binary`. */
static void write_unary(const struct instruction *i, enum kind kind, const char *quick,
                        const char *other) {
  struct entry a = pop();
  int t = temporary();
  const char *x = value_of(&a);
  printf("  %s t%d;\n", kind == VALUE ? "JSValue" : "int32_t", t);
  write_pattern("  if (likely(aot_is_int(X))", x, "", t);
  write_pattern(quick, x, "", t);
  printf("\n  else ");
  write_pattern(other, x, "", t);
  printf("\n  else goto X%u;\n", way_to_leave(i));
  if (kind == VALUE) push_plain(t);
  else push_number(kind, "t%d", t);
}

/* One more or less. */
static void write_step(const struct instruction *i, bool up) {
  if (up) {
    write_unary(i, VALUE, " && INT(X) != INT32_MAX) R = aot_of_int(INT(X) + 1);",
                "if (aot_is_number(X)) R = aot_sum(X, aot_of_int(1));");
  } else {
    write_unary(i, VALUE, " && INT(X) != INT32_MIN) R = aot_of_int(INT(X) - 1);",
                "if (aot_is_number(X)) R = aot_difference(X, aot_of_int(1));");
  }
}

static void push_truth_of(const char *pattern) {
  struct entry a = pop();
  int t = temporary();
  write_pattern("  const bool R = ", "", "", t);
  write_pattern(pattern, value_of(&a), "", t);
  printf(";\n");
  drop(&a);
  push_number(TRUTH, "t%d", t);
}

static void write_same(const struct instruction *i) {
  struct entry b = pop(), a = pop();
  int t = temporary();
  const char *sign = i->opcode == OP_strict_neq ? "!" : "";
  printf("  const bool t%d = %saot_same(ctx, %s, %s);\n", t, sign, value_of(&a), value_of(&b));
  drop(&a);
  drop(&b);
  push_number(TRUTH, "t%d", t);
}

static bool write_logic(const struct instruction *i) {
  struct entry e;
  switch (i->opcode) {
    case OP_strict_eq:
    case OP_strict_neq: write_same(i); return true;
    case OP_inc: write_step(i, true); return true;
    case OP_dec: write_step(i, false); return true;
    case OP_plus:
      write_unary(i, VALUE, ") R = X;", "if (aot_is_number(X)) R = X;");
      return true;
    case OP_not:
      write_unary(i, INTEGER, ") R = ~INT(X);", "if (false) R = 0;");
      return true;
    case OP_neg:
      write_unary(i, VALUE,
                  " && (INT(X) & INT32_MAX) != 0) R = aot_of_int(-INT(X));",
                  "if (aot_is_number(X)) R = __JS_NewFloat64(ctx, -aot_number(X));");
      return true;
    case OP_lnot: {
      e = pop();
      char truth[32];
      snprintf(truth, sizeof truth, "%s", truth_of(i, &e));
      int t = temporary();
      printf("  const bool t%d = !%s;\n", t, truth);
      drop(&e);
      push_number(TRUTH, "t%d", t);
      return true;
    }
    case OP_is_undefined: push_truth_of("JS_IsUndefined(X)"); return true;
    case OP_is_null: push_truth_of("JS_IsNull(X)"); return true;
    case OP_is_undefined_or_null:
      push_truth_of("(JS_IsUndefined(X) || JS_IsNull(X))");
      return true;
    default: return false;
  }
}

/* ---- Variables ---- */

static void store_variable(enum source source, int index, const struct entry *e) {
  keep_borrowed(source, index);
  printf("  aot_store(ctx, &%c%d, %s);\n", source == LOCAL ? 'v' : 'a', index, own_of(e));
}

static void write_store(enum source source, const struct instruction *i, bool stays) {
  struct entry e = pop();
  store_variable(source, i->operand, &e);
  if (stays) push_borrowed(source, source == LOCAL ? "v%d" : "a%d", i->operand);
}

static void leave_if_uninitialized(const struct instruction *i, const char *format) {
  char name[24];
  snprintf(name, sizeof name, format, i->operand);
  printf("  if (unlikely(JS_IsUninitialized(%s))) goto X%u;\n", name, way_to_leave(i));
}

/* `x++` and the like of a local variable, where the old value is of no use; `x += y`. */
static void write_change(const struct instruction *i) {
  push_borrowed(LOCAL, "v%d", i->operand);
  if (i->opcode == OP_add_loc) {
    struct entry variable = pop(), added = pop();
    push_entry(variable);
    push_entry(added);
    struct instruction add = *i;
    add.opcode = OP_add;
    write_numeric(&add);
  } else {
    write_step(i, i->opcode == OP_inc_loc);
  }
  write_store(LOCAL, i, false);
}

static void write_get_closure(const struct instruction *i) {
  const struct variable *v = variable_of(now.index, i->operand);
  int function = function_in(now.index, i->operand);
  if (function >= 0) {
    struct entry e = entry_of(FUNCTION, "AOT_VAR(%d)", i->operand);
    e.source = LASTING;
    e.index = function;
    push_entry(e);
    return;
  }
  int t = temporary();
  if (v != NULL && v->stores <= 1) {
    printf("  const JSValue t%d = AOT_VAR(%d);\n", t, i->operand);
    push_borrowed(LASTING, "t%d", t);
  } else {
    printf("  const JSValue t%d = JS_DupValue(ctx, AOT_VAR(%d));\n", t, i->operand);
    push_owned(t);
  }
}

static void write_put_closure(const struct instruction *i, bool stays) {
  struct entry e = *top(0);
  if (stays) {
    printf("  aot_store(ctx, &AOT_VAR(%d), JS_DupValue(ctx, %s));\n", i->operand, value_of(&e));
    return;
  }
  pop();
  printf("  aot_store(ctx, &AOT_VAR(%d), %s);\n", i->operand, own_of(&e));
}

static bool write_variable(const struct instruction *i) {
  switch (i->opcode) {
    case OP_get_loc_check: leave_if_uninitialized(i, "v%d"); /* fall through */
    case OP_get_loc: push_borrowed(LOCAL, "v%d", i->operand); return true;
    case OP_put_loc_check: leave_if_uninitialized(i, "v%d"); /* fall through */
    case OP_put_loc: write_store(LOCAL, i, false); return true;
    case OP_set_loc: write_store(LOCAL, i, true); return true;
    case OP_get_arg: push_borrowed(ARGUMENT, "a%d", i->operand); return true;
    case OP_put_arg: write_store(ARGUMENT, i, false); return true;
    case OP_set_arg: write_store(ARGUMENT, i, true); return true;
    case OP_set_loc_uninitialized:
      keep_borrowed(LOCAL, i->operand);
      printf("  aot_store(ctx, &v%d, JS_UNINITIALIZED);\n", i->operand);
      return true;
    case OP_get_var_ref_check: leave_if_uninitialized(i, "AOT_VAR(%d)"); /* fall through */
    case OP_get_var_ref: write_get_closure(i); return true;
    case OP_put_var_ref_check: leave_if_uninitialized(i, "AOT_VAR(%d)"); /* fall through */
    case OP_put_var_ref: write_put_closure(i, false); return true;
    case OP_set_var_ref: write_put_closure(i, true); return true;
    case OP_inc_loc:
    case OP_dec_loc:
    case OP_add_loc: write_change(i); return true;
    default: return false;
  }
}

/* ---- Objects ---- */

static void write_get_field(const struct instruction *i, bool keeps) {
  struct entry object = *top(0);
  int t = temporary(), place = place_count++;
  const char *o = value_of(&object);
  printf("  JSValue t%d;\n  if (aot_is_at(%s, &aot_places[%d])) {\n", t, o, place);
  printf("  t%d = JS_DupValue(ctx, *aot_property(%s, &aot_places[%d]));\n", t, o, place);
  printf("  } else {\n  t%d = aot_get_field(ctx, &sf, self, %u, %s, &aot_places[%d]);\n", t,
         i->at, o, place);
  fail_if_exception(t);
  printf("  }\n");
  if (!keeps) consume(1);
  push_owned(t);
}

static void write_put_field(const struct instruction *i) {
  struct entry value = pop(), object = pop();
  int place = place_count++;
  const char *o = value_of(&object), *v = own_of(&value);
  printf("  if (aot_is_at(%s, &aot_places[%d])) {\n", o, place);
  printf("  aot_store(ctx, aot_property(%s, &aot_places[%d]), %s);\n", o, place, v);
  drop(&object);
  printf("  } else {\n");
  printf("  const int r = aot_put_field(ctx, &sf, self, %u, %s, %s, &aot_places[%d]);\n",
         i->at, o, v, place);
  drop_aside(&object);
  printf("  if (unlikely(r < 0)) ");
  write_failure();
  printf("  }\n");
}

/* Arrays of numbers, the most frequent first: class, member, how an element is read, which values
 * are stored, and as what. */
static const struct {
  const char *class, *member, *read, *takes, *stores;
} arrays[] = {
    {"UINT8", "uint8_ptr", "aot_of_int(%s)", "aot_is_int", "(uint8_t)JS_VALUE_GET_INT"},
    {"INT32", "int32_ptr", "aot_of_int(%s)", "aot_is_word", "(int32_t)aot_word"},
    {"FLOAT64", "double_ptr", "__JS_NewFloat64(ctx, %s)", "aot_is_number", "aot_number"},
    {"UINT32", "uint32_ptr", "aot_of_uint32(%s)", "aot_is_word", "aot_word"},
    {"INT16", "int16_ptr", "aot_of_int(%s)", "aot_is_int", "(int16_t)JS_VALUE_GET_INT"},
    {"UINT16", "uint16_ptr", "aot_of_int(%s)", "aot_is_int", "(uint16_t)JS_VALUE_GET_INT"},
};
#define ARRAYS (sizeof arrays / sizeof *arrays)

static void begin_element(const struct instruction *i, const char *object, const char *index) {
  printf("  if (unlikely(!aot_has_element(%s, %s))) goto X%u;\n  {\n", object, index,
         way_to_leave(i));
  printf("  const JSObject *p = JS_VALUE_GET_OBJ(%s);\n  const int at = JS_VALUE_GET_INT(%s);\n",
         object, index);
}

static void write_get_element(const struct instruction *i, bool keeps) {
  struct entry index = pop(), object = *top(0);
  int t = temporary();
  char element[48];
  printf("  JSValue t%d;\n", t);
  begin_element(i, value_of(&object), value_of(&index));
  for (size_t k = 0; k < ARRAYS; k++) {
    printf("  if (p->class_id == JS_CLASS_%s_ARRAY) t%d = ", arrays[k].class, t);
    snprintf(element, sizeof element, "p->u.array.u.%s[at]", arrays[k].member);
    printf(arrays[k].read, element);
    printf(";\n  else");
  }
  printf(" if (p->class_id == JS_CLASS_ARRAY) t%d = JS_DupValue(ctx, p->u.array.u.values[at]);\n",
         t);
  printf("  else goto X%u;\n  }\n", i->at);
  if (!keeps) consume(1);
  push_owned(t);
}

static void write_put_element(const struct instruction *i) {
  struct entry value = pop(), index = pop(), object = pop();
  const char *v = value_of(&value);
  begin_element(i, value_of(&object), value_of(&index));
  for (size_t k = 0; k < ARRAYS; k++) {
    printf("  if (p->class_id == JS_CLASS_%s_ARRAY && %s(%s)) ", arrays[k].class,
           arrays[k].takes, v);
    printf("p->u.array.u.%s[at] = %s(%s);\n  else", arrays[k].member, arrays[k].stores, v);
  }
  printf(" if (p->class_id == JS_CLASS_ARRAY) aot_store(ctx, &p->u.array.u.values[at], %s);\n",
         own_of(&value));
  printf("  else goto X%u;\n  }\n", i->at);
  drop(&object);
}

static bool write_object_operation(const struct instruction *i) {
  switch (i->opcode) {
    case OP_get_field:
    case OP_get_length: write_get_field(i, false); return true;
    case OP_get_field2: write_get_field(i, true); return true;
    case OP_put_field: write_put_field(i); return true;
    case OP_get_array_el: write_get_element(i, false); return true;
    case OP_get_array_el2: write_get_element(i, true); return true;
    case OP_put_array_el: write_put_element(i); return true;
    case OP_to_propkey2:
      printf("  if (unlikely(!aot_is_int(%s) || !JS_IsObject(%s))) goto X%u;\n", value_of(top(0)),
             value_of(top(1)), way_to_leave(i));
      return true;
    case OP_to_object:
      printf("  if (unlikely(!JS_IsObject(%s))) goto X%u;\n", value_of(top(0)), way_to_leave(i));
      return true;
    default: return false;
  }
}

/* ---- Calls ---- */

/* A call: function, then arguments; of a method also what it is called on, before the function. */
static void write_call(const struct instruction *i, bool is_method) {
  int count = i->operand, t = temporary();
  const struct entry *function = top(count);
  char self[64];
  snprintf(self, sizeof self, "%s", is_method ? value_of(top(count + 1)) : "JS_UNDEFINED");
  printf("  JSValue t%d;\n  if (unlikely(aot_link(ctx, &sf, self))) ", t);
  write_failure();
  printf("  sf.cur_pc = aot_code(self) + %u;\n", i->next);
  if (function->kind == FUNCTION && functions[function->index].translated) {
    printf("  t%d = f%d(ctx, JS_VALUE_GET_OBJ(%s), %s", t, function->index, function->text, self);
    for (int k = 0; k < functions[function->index].b->arg_count; k++) {
      printf(", %s", k < count ? value_of(top(count - 1 - k)) : "JS_UNDEFINED");
    }
    printf(");\n");
  } else {
    printf("  {\n  JSValue arguments[] = {");
    for (int k = 0; k < count; k++) printf("%s, ", value_of(top(count - 1 - k)));
    printf("JS_UNDEFINED};\n");
    printf("  t%d = JS_CallInternal(ctx, %s, %s, JS_UNDEFINED, %d, arguments, "
           "JS_CALL_FLAG_COPY_ARGV);\n  }\n",
           t, value_of(function), self, count);
  }
  consume(count + 1 + is_method);
  fail_if_exception(t);
  push_owned(t);
}

static void write_return(struct entry e) {
  printf("  result = %s;\n", own_of(&e));
  consume(now.stack.depth);
  printf("  goto done;\n");
}

static bool write_call_or_return(const struct instruction *i) {
  switch (i->opcode) {
    case OP_call: write_call(i, false); return true;
    case OP_call_method: write_call(i, true); return true;
    case OP_tail_call:
      write_call(i, false);
      write_return(pop());
      return true;
    case OP_tail_call_method:
      write_call(i, true);
      write_return(pop());
      return true;
    case OP_return: write_return(pop()); return true;
    case OP_return_undef:
      push_constant("(JS_UNDEFINED)");
      write_return(pop());
      return true;
    default: return false;
  }
}

/* ---- Constants, and moves on the stack ---- */

/* A value that a call of support.h gives; an exception if there is no memory. */
static void push_checked(const char *call, unsigned number) {
  int t = temporary();
  printf("  const JSValue t%d = %s(ctx, &sf, self, %u);\n", t, call, number);
  fail_if_exception(t);
  push_owned(t);
}

static void write_constant(const struct instruction *i) {
  JSValue constant = now.b->cpool[i->operand];
  bool is_float = JS_TAG_IS_FLOAT64(JS_VALUE_GET_TAG(constant));
  if (!is_float || !isfinite(JS_VALUE_GET_FLOAT64(constant))) {
    push_checked("aot_constant", (unsigned)i->operand);
    return;
  }
  int t = temporary();
  printf("  const JSValue t%d = __JS_NewFloat64(ctx, %a);\n", t, JS_VALUE_GET_FLOAT64(constant));
  push_plain(t);
}

static bool write_push(const struct instruction *i) {
  switch (i->opcode) {
    case OP_nop: return true;
    case OP_push_i32:
      if (i->operand == INT32_MIN) push_number(INTEGER, "(-%d - 1)", INT32_MAX);
      else push_number(INTEGER, "%d", i->operand);
      return true;
    case OP_undefined: push_constant("(JS_UNDEFINED)"); return true;
    case OP_null: push_constant("(JS_NULL)"); return true;
    case OP_push_false: push_number(TRUTH, "%d", 0); return true;
    case OP_push_true: push_number(TRUTH, "%d", 1); return true;
    case OP_push_this: push_borrowed(LASTING, "this_val", 0); return true;
    case OP_push_const: write_constant(i); return true;
    case OP_push_atom_value: push_checked("aot_name", i->at); return true;
    case OP_get_var: push_checked("aot_global", i->at); return true;
    default: return false;
  }
}

/* Moves entries: the order of the stack's last ones, as indexes from below. */
static void reorder(int count, const char *order) {
  struct entry old[8];
  memcpy(old, top(count - 1), sizeof *old * (size_t)count);
  for (int k = 0; k < count; k++) *top(count - 1 - k) = old[order[k] - '0'];
}

/* Another one of an entry: borrowed where that one is, else with a reference of its own. */
static void push_again(int below) {
  struct entry e = *top(below);
  if (e.owned) {
    int t = temporary();
    printf("  const JSValue t%d = JS_DupValue(ctx, %s);\n", t, e.text);
    snprintf(e.text, sizeof e.text, "t%d", t);
  }
  push_entry(e);
}

static void push_several_again(int count) {
  for (int k = 0; k < count; k++) push_again(count - 1);
}

static bool write_move(const struct instruction *i) {
  switch (i->opcode) {
    case OP_drop: consume(1); return true;
    case OP_nip: reorder(2, "10"); consume(1); return true;
    case OP_nip1: reorder(3, "120"); consume(1); return true;
    case OP_dup: push_again(0); return true;
    case OP_dup1: push_again(1); reorder(3, "021"); return true;
    case OP_dup2: push_several_again(2); return true;
    case OP_dup3: push_several_again(3); return true;
    case OP_insert2: push_again(0); reorder(3, "201"); return true;
    case OP_insert3: push_again(0); reorder(4, "3012"); return true;
    case OP_insert4: push_again(0); reorder(5, "40123"); return true;
    case OP_perm3: reorder(3, "102"); return true;
    case OP_perm4: reorder(4, "2013"); return true;
    case OP_perm5: reorder(5, "30124"); return true;
    case OP_swap: reorder(2, "10"); return true;
    case OP_swap2: reorder(4, "2301"); return true;
    case OP_rot3l: reorder(3, "120"); return true;
    case OP_rot3r: reorder(3, "201"); return true;
    case OP_rot4l: reorder(4, "1230"); return true;
    case OP_rot5l: reorder(5, "12340"); return true;
    default: return false;
  }
}

/* `x++` where the old value is wanted: it stays below the new one. */
static bool write_post_step(const struct instruction *i) {
  if (i->opcode != OP_post_inc && i->opcode != OP_post_dec) return false;
  printf("  if (unlikely(!aot_is_int(%s))) goto X%u;\n", value_of(top(0)), way_to_leave(i));
  push_again(0);
  write_step(i, i->opcode == OP_post_inc);
  return true;
}

/* Writes one operation; false, and nothing is written, where it is not known. */
static bool write_operation(const struct instruction *i) {
  now.before = now.stack;
  if (i->opcode == OP_goto) {
    write_jump(i, "");
    return true;
  }
  if (i->opcode == OP_if_false || i->opcode == OP_if_true) {
    write_branch(i);
    return true;
  }
  return write_push(i) || write_move(i) || write_variable(i) || write_numeric(i) ||
         write_logic(i) || write_post_step(i) || write_object_operation(i) ||
         write_call_or_return(i);
}

#endif
