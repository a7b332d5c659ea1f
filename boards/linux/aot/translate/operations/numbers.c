/*
 * Operations of numbers, and of values that may be some. Where the operands are what was seen,
 * integers or doubles of C; else whatever support.h can do, or the interpreter.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "body/notes.h"
#include "body/ways.h"
#include "operations/operations.h"
#include "program/compiled.h"
#include "program/opcodes.h"

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
 * Ends the pattern of `quick`: with `other`, if more than that was seen, and the way to leave. Two
 * integers whose result was a double went beyond the integers, which `quick` does not.
 */
static void write_other(struct body *body, const struct instruction *i, const char *other,
                        const char *x, const char *y, int t) {
  if (!is_quick(body, i) || (seen_at(body, i->at) & SEEN_FLOAT) != 0) {
    printf("\n  else ");
    write_pattern(other, x, y, t);
  }
  printf("\n  else goto X%u;\n", way_to_leave(body, i));
}

static void push_result(struct body *body, const struct instruction *i, enum kind kind, int t) {
  if (kind == VALUE) push_plain(body, t);
  else push_number(body, kind, "t%d", t);
  note(body, i->at, "aot_kind_seen(%s)", value_of(top(body, 0)).text);
}

/*
 * Two operands. `quick` is a condition that also gives the result where both are integers, `other`
 * one where they are not; where neither holds the operation leaves.
 */
static void write_binary(struct body *body, const struct instruction *i, enum kind kind,
                         const char *quick, const char *other) {
  struct entry b = pop(body), a = pop(body);
  int t = temporary(body);
  const struct expression x = value_of(&a), y = value_of(&b);
  note(body, i->at, "JS_VALUE_IS_BOTH_INT(%s, %s) ? 0 : SEEN_ASIDE", x.text, y.text);
  printf("  %s t%d;\n  {\n", kind == VALUE ? "JSValue" : "int32_t", t);
  printf("  int32_t r;\n  uint32_t p, q;\n  (void)r;\n  (void)p;\n  (void)q;\n");
  write_pattern("  if (likely(JS_VALUE_IS_BOTH_INT(X, Y))", x.text, y.text, t);
  write_pattern(quick, x.text, y.text, t);
  write_other(body, i, other, x.text, y.text, t);
  printf("  }\n");
  push_result(body, i, kind, t);
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
  int opcode;
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

/* A number as a double. What is none leaves. */
static struct expression double_of(struct body *body, const struct instruction *i,
                                   const struct entry *e) {
  struct expression number;
  if (e->kind == NUMBER) {
    snprintf(number.text, sizeof number.text, "%s", e->text);
  } else if (e->kind == INTEGER) {
    snprintf(number.text, sizeof number.text, "(double)(%s)", e->text);
  } else {
    const struct expression x = value_of(e);
    printf("  if (unlikely(!aot_is_number(%s))) goto X%u;\n", x.text, way_to_leave(body, i));
    snprintf(number.text, sizeof number.text, "aot_number(%.64s)", x.text);
  }
  return number;
}

/* Were numbers seen, not integers alone? An operation that gives a truth shows it by its way. */
static bool is_of_doubles(struct body *body, const struct instruction *i, enum kind kind) {
  unsigned seen = seen_at(body, i->at), values = seen & SEEN_VALUES;
  if (is_quick(body, i) || (seen & SEEN_ASIDE) == 0) return false;
  if (kind == TRUTH) return values == SEEN_BOOL;
  return values != 0 && (values & ~(unsigned)(SEEN_INT | SEEN_FLOAT)) == 0;
}

static void write_doubles(struct body *body, const struct instruction *i, enum kind kind,
                          const char *sign) {
  struct entry b = pop(body), a = pop(body);
  int t = temporary(body);
  const struct expression x = double_of(body, i, &a), y = double_of(body, i, &b);
  printf("  const %s t%d = %s %s %s;\n", kind == TRUTH ? "bool" : "double", t, x.text, sign,
         y.text);
  push_number(body, kind == TRUTH ? TRUTH : NUMBER, "t%d", t);
}

/* Is it a number that stands in the program? */
static bool is_literal_entry(const struct entry *e, double *number) {
  char *end;
  *number = strtod(e->text, &end);
  return e->kind == INTEGER && *end == '\0';
}

/* `2 ** 24` is a number already here. */
static bool write_known_power(struct body *body, const struct instruction *i) {
  double base, exponent;
  if (i->opcode != OP_pow || !is_literal_entry(top(body, 1), &base)) return false;
  if (!is_literal_entry(top(body, 0), &exponent)) return false;
  double power = power_of(base, exponent);
  if (!isfinite(power)) return false;
  consume(body, 2);
  int t = temporary(body);
  printf("  const double t%d = %a;\n", t, power);
  push_number(body, NUMBER, "t%d", t);
  return true;
}

bool write_numeric(struct body *body, const struct instruction *i) {
  if (write_known_power(body, i)) return true;
  for (size_t k = 0; k < sizeof numerics / sizeof *numerics; k++) {
    if (numerics[k].opcode != i->opcode) continue;
    if (numerics[k].sign != NULL && is_of_doubles(body, i, numerics[k].kind)) {
      write_doubles(body, i, numerics[k].kind, numerics[k].sign);
    } else {
      write_binary(body, i, numerics[k].kind, numerics[k].quick, numerics[k].other);
    }
    return true;
  }
  return false;
}

/* One operand: as `write_binary`. */
static void write_unary(struct body *body, const struct instruction *i, enum kind kind,
                        const char *quick, const char *other) {
  struct entry a = pop(body);
  int t = temporary(body);
  const struct expression x = value_of(&a);
  note(body, i->at, "aot_is_int(%s) ? 0 : SEEN_ASIDE", x.text);
  printf("  %s t%d;\n", kind == VALUE ? "JSValue" : "int32_t", t);
  write_pattern("  if (likely(aot_is_int(X))", x.text, "", t);
  write_pattern(quick, x.text, "", t);
  write_other(body, i, other, x.text, "", t);
  push_result(body, i, kind, t);
}

void write_step(struct body *body, const struct instruction *i, bool up) {
  if (up) {
    write_unary(body, i, VALUE, " && INT(X) != INT32_MAX) R = aot_of_int(INT(X) + 1);",
                "if (aot_is_number(X)) R = aot_sum(X, aot_of_int(1));");
  } else {
    write_unary(body, i, VALUE, " && INT(X) != INT32_MIN) R = aot_of_int(INT(X) - 1);",
                "if (aot_is_number(X)) R = aot_difference(X, aot_of_int(1));");
  }
}

static void push_truth_of(struct body *body, const char *pattern) {
  struct entry a = pop(body);
  int t = temporary(body);
  write_pattern("  const bool R = ", "", "", t);
  write_pattern(pattern, value_of(&a).text, "", t);
  printf(";\n");
  drop(body, &a);
  push_number(body, TRUTH, "t%d", t);
}

static void write_same(struct body *body, const struct instruction *i) {
  struct entry b = pop(body), a = pop(body);
  int t = temporary(body);
  const char *sign = i->opcode == OP_strict_neq ? "!" : "";
  bool are_numbers = (a.kind == INTEGER || a.kind == NUMBER) &&
                     (b.kind == INTEGER || b.kind == NUMBER);
  if (are_numbers) {
    printf("  const bool t%d = %s(%s == %s);\n", t, sign, a.text, b.text);
  } else {
    printf("  const bool t%d = %saot_same(ctx, %s, %s);\n", t, sign, value_of(&a).text,
           value_of(&b).text);
  }
  drop(body, &a);
  drop(body, &b);
  push_number(body, TRUTH, "t%d", t);
}

static void write_not(struct body *body, const struct instruction *i) {
  struct entry e = pop(body);
  const struct expression truth = truth_of(body, i, &e);
  int t = temporary(body);
  printf("  const bool t%d = !%s;\n", t, truth.text);
  drop(body, &e);
  push_number(body, TRUTH, "t%d", t);
}

bool write_logic(struct body *body, const struct instruction *i) {
  switch (i->opcode) {
    case OP_strict_eq:
    case OP_strict_neq: write_same(body, i); return true;
    case OP_inc: write_step(body, i, true); return true;
    case OP_dec: write_step(body, i, false); return true;
    case OP_plus:
      write_unary(body, i, VALUE, ") R = X;", "if (aot_is_number(X)) R = X;");
      return true;
    case OP_not:
      write_unary(body, i, INTEGER, ") R = ~INT(X);", "if (false) R = 0;");
      return true;
    case OP_neg:
      write_unary(body, i, VALUE,
                  " && (INT(X) & INT32_MAX) != 0) R = aot_of_int(-INT(X));",
                  "if (aot_is_number(X)) R = __JS_NewFloat64(ctx, -aot_number(X));");
      return true;
    case OP_lnot: write_not(body, i); return true;
    case OP_is_undefined: push_truth_of(body, "JS_IsUndefined(X)"); return true;
    case OP_is_null: push_truth_of(body, "JS_IsNull(X)"); return true;
    case OP_is_undefined_or_null:
      push_truth_of(body, "(JS_IsUndefined(X) || JS_IsNull(X))");
      return true;
    default: return false;
  }
}
