/* Variables: of the function, and of closures. */
#include <stdio.h>

#include "body/ways.h"
#include "operations/operations.h"
#include "program/opcodes.h"
#include "program/stores.h"

static void store_variable(struct body *body, enum source source, int index,
                           const struct entry *e) {
  keep_borrowed(body, source, index);
  keep_held(body);
  char name[24];
  snprintf(name, sizeof name, "%c%d", source == LOCAL ? 'v' : 'a', index);
  printf("  aot_store(ctx, &%s, %s);\n", name, own_of(e).text);
  learn_same(&body->facts, name, e->text);
}

static void write_store(struct body *body, enum source source, const struct instruction *i,
                        bool stays) {
  struct entry e = pop(body);
  store_variable(body, source, i->operand, &e);
  if (stays && e.plain && e.kind != VALUE) push_entry(body, e);
  else if (stays) push_borrowed(body, source, source == LOCAL ? "v%d" : "a%d", i->operand);
}

static void leave_if_uninitialized(struct body *body, const struct instruction *i,
                                   const char *format) {
  char name[24];
  snprintf(name, sizeof name, format, i->operand);
  printf("  if (unlikely(JS_IsUninitialized(%s))) goto X%u;\n", name, way_to_leave(body, i));
}

/* `x++` and the like of a local variable, where the old value is of no use; `x += y`. */
static void write_change(struct body *body, const struct instruction *i) {
  push_borrowed(body, LOCAL, "v%d", i->operand);
  if (i->opcode == OP_add_loc) {
    struct entry variable = pop(body), added = pop(body);
    push_entry(body, variable);
    push_entry(body, added);
    struct instruction add = *i;
    add.opcode = OP_add;
    write_numeric(body, &add);
  } else {
    write_step(body, i, i->opcode == OP_inc_loc);
  }
  write_store(body, LOCAL, i, false);
}

/* A variable that holds one number whenever a translated function sees it. */
static bool push_literal(struct body *body, const struct variable *v) {
  if (v == NULL || v->stores != 1) return false;
  switch (v->literal.opcode) {
    case OP_push_i32: push_integer(body, v->literal.operand); return true;
    case OP_push_false: push_number(body, TRUTH, "%d", 0); return true;
    case OP_push_true: push_number(body, TRUTH, "%d", 1); return true;
    default: return false;
  }
}

static void write_get_closure(struct body *body, const struct instruction *i) {
  const struct variable *v = variable_of(body->program, body->index, i->operand);
  if (push_literal(body, v)) return;
  int function = function_in(body->program, body->index, i->operand);
  if (function >= 0) {
    struct entry e = entry_of(FUNCTION, "AOT_VAR(%d)", i->operand);
    e.source = LASTING;
    e.index = function;
    push_entry(body, e);
    return;
  }
  int t = temporary(body);
  if (v != NULL && v->stores <= 1) {
    printf("  const JSValue t%d = AOT_VAR(%d);\n", t, i->operand);
    push_borrowed(body, LASTING, "t%d", t);
  } else {
    printf("  const JSValue t%d = JS_DupValue(ctx, AOT_VAR(%d));\n", t, i->operand);
    push_owned(body, t);
  }
}

static void write_put_closure(struct body *body, const struct instruction *i, bool stays) {
  keep_held(body);
  struct entry e = *top(body, 0);
  if (stays) {
    printf("  aot_store(ctx, &AOT_VAR(%d), JS_DupValue(ctx, %s));\n", i->operand,
           value_of(&e).text);
    return;
  }
  pop(body);
  printf("  aot_store(ctx, &AOT_VAR(%d), %s);\n", i->operand, own_of(&e).text);
}

bool write_variable(struct body *body, const struct instruction *i) {
  switch (i->opcode) {
    case OP_get_loc_check: leave_if_uninitialized(body, i, "v%d"); /* fall through */
    case OP_get_loc: push_borrowed(body, LOCAL, "v%d", i->operand); return true;
    case OP_put_loc_check: leave_if_uninitialized(body, i, "v%d"); /* fall through */
    case OP_put_loc: write_store(body, LOCAL, i, false); return true;
    case OP_set_loc: write_store(body, LOCAL, i, true); return true;
    case OP_get_arg: push_borrowed(body, ARGUMENT, "a%d", i->operand); return true;
    case OP_put_arg: write_store(body, ARGUMENT, i, false); return true;
    case OP_set_arg: write_store(body, ARGUMENT, i, true); return true;
    case OP_set_loc_uninitialized:
      keep_borrowed(body, LOCAL, i->operand);
      keep_held(body);
      body->facts.count = 0;
      printf("  aot_store(ctx, &v%d, JS_UNINITIALIZED);\n", i->operand);
      return true;
    case OP_get_var_ref_check: leave_if_uninitialized(body, i, "AOT_VAR(%d)"); /* fall through */
    case OP_get_var_ref: write_get_closure(body, i); return true;
    case OP_put_var_ref_check: leave_if_uninitialized(body, i, "AOT_VAR(%d)"); /* fall through */
    case OP_put_var_ref: write_put_closure(body, i, false); return true;
    case OP_set_var_ref: write_put_closure(body, i, true); return true;
    case OP_inc_loc:
    case OP_dec_loc:
    case OP_add_loc: write_change(body, i); return true;
    default: return false;
  }
}
