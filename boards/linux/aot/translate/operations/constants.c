/* Constants, and names that stand for values. */
#include <stdio.h>

#include "body/ways.h"
#include "operations/operations.h"
#include "program/compiled.h"
#include "program/opcodes.h"

/* A value that a call of support.h gives; an exception if there is no memory. */
static void push_checked(struct body *body, const char *call, unsigned number) {
  keep_held(body);
  forget_shapes(&body->facts);
  int t = temporary(body);
  printf("  const JSValue t%d = %s(ctx, &sf, self, %u);\n", t, call, number);
  fail_if_exception(body, t);
  push_owned(body, t);
}

static void write_constant(struct body *body, const struct instruction *i) {
  const struct constant *constant = &body->function->constants[i->operand];
  if (!constant->is_finite) {
    push_checked(body, "aot_constant", (unsigned)i->operand);
    return;
  }
  int t = temporary(body);
  printf("  const double t%d = %a;\n", t, constant->number);
  push_number(body, NUMBER, "t%d", t);
}

/* A string that is a name lives as long as the function. */
static void write_name(struct body *body, const struct instruction *i) {
  if (!is_string(body->program, (uint32_t)i->operand)) {
    push_checked(body, "aot_name", i->at);
    return;
  }
  int t = temporary(body);
  printf("  const JSValue t%d = aot_string(ctx, self, %u);\n", t, i->at);
  push_borrowed(body, LASTING, "t%d", t);
}

/* `Infinity` and `NaN` stay what they are, whatever a program declares: ECMA-262, 19.1. */
static void write_global(struct body *body, const struct instruction *i) {
  bool is_infinity = is_spelt(body->program, (uint32_t)i->operand, "Infinity");
  if (!is_infinity && !is_spelt(body->program, (uint32_t)i->operand, "NaN")) {
    push_checked(body, "aot_global", i->at);
    return;
  }
  int t = temporary(body);
  printf("  const double t%d = %s;\n", t, is_infinity ? "INFINITY" : "NAN");
  push_number(body, NUMBER, "t%d", t);
}

bool write_push(struct body *body, const struct instruction *i) {
  switch (i->opcode) {
    case OP_nop: return true;
    case OP_push_i32: push_integer(body, i->operand); return true;
    case OP_undefined: push_constant(body, "(JS_UNDEFINED)"); return true;
    case OP_null: push_constant(body, "(JS_NULL)"); return true;
    case OP_push_false: push_number(body, TRUTH, "%d", 0); return true;
    case OP_push_true: push_number(body, TRUTH, "%d", 1); return true;
    case OP_push_this: push_borrowed(body, LASTING, "this_val", 0); return true;
    case OP_push_const: write_constant(body, i); return true;
    case OP_push_atom_value: write_name(body, i); return true;
    case OP_get_var: write_global(body, i); return true;
    default: return false;
  }
}
