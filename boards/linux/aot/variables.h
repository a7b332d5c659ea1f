/*
 * Writes operations of variables: of the function, and of closures.
 */
#ifndef AOT_VARIABLES_H
#define AOT_VARIABLES_H

#include "numbers.h"

static void store_variable(enum source source, int index, const struct entry *e) {
  keep_borrowed(source, index);
  keep_held();
  char name[24];
  snprintf(name, sizeof name, "%c%d", source == LOCAL ? 'v' : 'a', index);
  printf("  aot_store(ctx, &%s, %s);\n", name, own_of(e));
  learn_same(name, e->text);
}

static void write_store(enum source source, const struct instruction *i, bool stays) {
  struct entry e = pop();
  store_variable(source, i->operand, &e);
  if (stays && e.plain && e.kind != VALUE) push_entry(e);
  else if (stays) push_borrowed(source, source == LOCAL ? "v%d" : "a%d", i->operand);
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

/* A variable that holds one number whenever a translated function sees it. */
static bool push_literal(const struct variable *v) {
  if (v == NULL || v->stores != 1) return false;
  switch (v->literal.opcode) {
    case OP_push_i32: push_integer(v->literal.operand); return true;
    case OP_push_false:
    case OP_push_true: push_number(TRUTH, "%d", v->literal.opcode == OP_push_true); return true;
    default: return false;
  }
}

static void write_get_closure(const struct instruction *i) {
  const struct variable *v = variable_of(now.index, i->operand);
  if (push_literal(v)) return;
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
  keep_held();
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
      keep_held();
      now.facts.count = 0;
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

#endif
