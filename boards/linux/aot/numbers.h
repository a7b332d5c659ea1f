/*
 * Writes operations of numbers and of truth, and the branches.
 */
#ifndef AOT_NUMBERS_H
#define AOT_NUMBERS_H

#include "stack.h"

/* ---- Truth ---- */

/* The truth of a value: the text of a C expression. */
static const char *truth_of(const struct instruction *i, const struct entry *e) {
  static char text[32];
  if (e->kind == INTEGER || e->kind == TRUTH) {
    snprintf(text, sizeof text, "%s", e->text);
    return text;
  }
  if (e->kind == NUMBER) {
    snprintf(text, sizeof text, "aot_is_not_0(%.10s)", e->text);
    return text;
  }
  int t = temporary();
  const char *x = value_of(e);
  printf("  bool t%d;\n  if (likely(aot_is_small(%s))) t%d = INT(%s) != 0;\n", t, x, t, x);
  printf("  else if (likely(aot_is_true(%s))) t%d = true;\n", x, t);
  printf("  else goto X%u;\n", way_to_leave(i));
  snprintf(text, sizeof text, "t%d", t);
  return text;
}

/* A branch goes the one way that it was seen to go, or leaves. */
enum ways { BOTH, ONLY_JUMPS, ONLY_GOES_ON };

static enum ways ways_of(const struct instruction *i) {
  if (i->opcode == OP_goto) return ONLY_JUMPS;
  unsigned seen = seen_at(i->at) & (SEEN_JUMP | SEEN_NO_JUMP);
  return seen == SEEN_JUMP ? ONLY_JUMPS : seen == SEEN_NO_JUMP ? ONLY_GOES_ON : BOTH;
}

/* All of a branch but the jump of one that only jumps. */
static void write_branch(const struct instruction *i) {
  char condition[64];
  struct entry e = pop();
  bool jumps_if = i->opcode == OP_if_true;
  const char *truth = truth_of(i, &e);
  note(i->at, "%s(%s) ? SEEN_JUMP : SEEN_NO_JUMP", jumps_if ? "" : "!", truth);
  enum ways ways = ways_of(i);
  if (ways != BOTH) {
    const char *sign = jumps_if == (ways == ONLY_JUMPS) ? "!" : "";
    printf("  if (unlikely(%s(%s))) goto X%u;\n", sign, truth, way_to_leave(i));
    drop(&e);
    return;
  }
  snprintf(condition, sizeof condition, "if (%s(%s)) ", jumps_if ? "" : "!", truth);
  drop(&e);
  write_jump(i, condition);
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

/* Was nothing seen but integers in, and the plain way? */
static bool is_quick(const struct instruction *i) {
  unsigned seen = seen_at(i->at);
  return (seen & SEEN_VALUES) != 0 && (seen & SEEN_ASIDE) == 0;
}

static void write_other(const struct instruction *i, const char *other, const char *x,
                        const char *y, int t) {
  if (!is_quick(i)) {
    printf("\n  else ");
    write_pattern(other, x, y, t);
  }
  printf("\n  else goto X%u;\n", way_to_leave(i));
}

static void push_result(const struct instruction *i, enum kind kind, int t) {
  if (kind == VALUE) push_plain(t);
  else push_number(kind, "t%d", t);
  note(i->at, "aot_kind_seen(%s)", value_of(top(0)));
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
  note(i->at, "JS_VALUE_IS_BOTH_INT(%s, %s) ? 0 : SEEN_ASIDE", x, y);
  printf("  %s t%d;\n  {\n", kind == VALUE ? "JSValue" : "int32_t", t);
  printf("  int32_t r;\n  uint32_t p, q;\n  (void)r;\n  (void)p;\n  (void)q;\n");
  write_pattern("  if (likely(JS_VALUE_IS_BOTH_INT(X, Y))", x, y, t);
  write_pattern(quick, x, y, t);
  write_other(i, other, x, y, t);
  printf("  }\n");
  push_result(i, kind, t);
}

#define INTS(operation) " && !__builtin_" operation "_overflow(INT(X), INT(Y), &r)"
#define NUMBERS(call) "if (aot_are_numbers(X, Y)) R = " call "(X, Y);"
#define WORDS(result) "if (aot_are_words(X, Y, &p, &q)) R = " result ";"
#define BITS(sign) INTEGER, ") R = INT(X) " sign " INT(Y);", WORDS("(int32_t)(p " sign " q)")
#define COMPARE(sign, orders)                                                                      \
  TRUTH, ") R = INT(X) " sign " INT(Y);", "if ((r = aot_order(X, Y)) != 3) R = " orders ";"

/* Operations of two numbers, as `write_binary` takes them; `sign` is that of the same operation of
 * two doubles in C, if that is the same. */
static const struct {
  OPCodeEnum opcode;
  const char *sign;
  enum kind kind;
  const char *quick, *other;
} numerics[] = {
    {OP_add, "+", VALUE, INTS("add") ") R = aot_of_int(r);", NUMBERS("aot_sum")},
    {OP_sub, "-", VALUE, INTS("sub") ") R = aot_of_int(r);", NUMBERS("aot_difference")},
    /* A product of 0 and less than 0 is -0, which is no integer. */
    {OP_mul, "*", VALUE,
     INTS("mul") " && (r != 0 || (INT(X) | INT(Y)) >= 0)) R = aot_of_int(r);",
     NUMBERS("aot_product")},
    {OP_div, "/", VALUE, ") R = aot_quotient(X, Y);", NUMBERS("aot_quotient")},
    {OP_mod, NULL, VALUE, " && INT(X) >= 0 && INT(Y) > 0) R = aot_of_int(INT(X) % INT(Y));",
     NUMBERS("aot_remainder")},
    {OP_pow, NULL, VALUE, ") R = aot_power(X, Y);", NUMBERS("aot_power")},
    {OP_and, NULL, BITS("&")},
    {OP_or, NULL, BITS("|")},
    {OP_xor, NULL, BITS("^")},
    {OP_shl, NULL, INTEGER, ") R = (int32_t)((uint32_t)INT(X) << (INT(Y) & 31));",
     WORDS("(int32_t)(p << (q & 31))")},
    {OP_sar, NULL, INTEGER, ") R = INT(X) >> (INT(Y) & 31);", WORDS("(int32_t)p >> (q & 31)")},
    {OP_shr, NULL, VALUE, ") R = aot_of_uint32((uint32_t)INT(X) >> (INT(Y) & 31));",
     WORDS("aot_of_uint32(p >> (q & 31))")},
    {OP_lt, "<", COMPARE("<", "r < 0")},
    {OP_lte, "<=", COMPARE("<=", "r <= 0")},
    {OP_gt, ">", COMPARE(">", "r == 1")},
    {OP_gte, ">=", COMPARE(">=", "r == 0 || r == 1")},
    {OP_eq, "==", COMPARE("==", "r == 0")},
    {OP_neq, "!=", COMPARE("!=", "r != 0")},
};

/* A number as a double: the text of a C expression. What is none leaves. */
static const char *double_of(const struct instruction *i, const struct entry *e) {
  static char texts[2][64];
  static int turn;
  char *text = texts[turn++ & 1];
  if (e->kind == NUMBER) {
    snprintf(text, sizeof texts[0], "%s", e->text);
  } else if (e->kind == INTEGER) {
    snprintf(text, sizeof texts[0], "(double)(%s)", e->text);
  } else {
    const char *x = value_of(e);
    printf("  if (unlikely(!aot_is_number(%s))) goto X%u;\n", x, way_to_leave(i));
    snprintf(text, sizeof texts[0], "aot_number(%s)", x);
  }
  return text;
}

/* Were numbers seen, not integers alone? An operation that gives a truth shows it by its way. */
static bool is_of_doubles(const struct instruction *i, enum kind kind) {
  unsigned seen = seen_at(i->at), values = seen & SEEN_VALUES;
  if (is_quick(i) || (seen & SEEN_ASIDE) == 0) return false;
  if (kind == TRUTH) return values == SEEN_BOOL;
  return values != 0 && (values & ~(unsigned)(SEEN_INT | SEEN_FLOAT)) == 0;
}

static void write_doubles(const struct instruction *i, enum kind kind, const char *sign) {
  struct entry b = pop(), a = pop();
  int t = temporary();
  const char *x = double_of(i, &a), *y = double_of(i, &b);
  printf("  const %s t%d = %s %s %s;\n", kind == TRUTH ? "bool" : "double", t, x, sign, y);
  push_number(kind == TRUTH ? TRUTH : NUMBER, "t%d", t);
}

/* Is it a number that stands in the program? */
static bool is_literal_entry(const struct entry *e, double *number) {
  char *end;
  *number = strtod(e->text, &end);
  return e->kind == INTEGER && *end == '\0';
}

/* `2 ** 24` is a number already here. */
static bool write_known_power(const struct instruction *i) {
  double base, exponent;
  if (i->opcode != OP_pow || !is_literal_entry(top(1), &base)) return false;
  if (!is_literal_entry(top(0), &exponent)) return false;
  double power = js_pow(base, exponent);
  if (!isfinite(power)) return false;
  consume(2);
  int t = temporary();
  printf("  const double t%d = %a;\n", t, power);
  push_number(NUMBER, "t%d", t);
  return true;
}

static bool write_numeric(const struct instruction *i) {
  if (write_known_power(i)) return true;
  for (size_t k = 0; k < sizeof numerics / sizeof *numerics; k++) {
    if (numerics[k].opcode != i->opcode) continue;
    if (numerics[k].sign != NULL && is_of_doubles(i, numerics[k].kind)) {
      write_doubles(i, numerics[k].kind, numerics[k].sign);
    } else {
      write_binary(i, numerics[k].kind, numerics[k].quick, numerics[k].other);
    }
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
  note(i->at, "aot_is_int(%s) ? 0 : SEEN_ASIDE", x);
  printf("  %s t%d;\n", kind == VALUE ? "JSValue" : "int32_t", t);
  write_pattern("  if (likely(aot_is_int(X))", x, "", t);
  write_pattern(quick, x, "", t);
  write_other(i, other, x, "", t);
  push_result(i, kind, t);
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
  bool are_numbers = (a.kind == INTEGER || a.kind == NUMBER) &&
                     (b.kind == INTEGER || b.kind == NUMBER);
  if (are_numbers) printf("  const bool t%d = %s(%s == %s);\n", t, sign, a.text, b.text);
  else printf("  const bool t%d = %saot_same(ctx, %s, %s);\n", t, sign, value_of(&a), value_of(&b));
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

#endif
