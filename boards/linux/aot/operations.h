/*
 * Writes one operation as C: calls, constants and moves here, the rest by what it is about.
 */
#ifndef AOT_OPERATIONS_H
#define AOT_OPERATIONS_H

#include "objects.h"

/* ---- Calls ---- */

/* A call: function, then arguments; of a method also what it is called on, before the function. */
static void write_call(const struct instruction *i, bool is_method) {
  keep_held();
  int count = i->operand, t = temporary();
  const struct entry *function = top(count);
  char self[64];
  snprintf(self, sizeof self, "%s", is_method ? value_of(top(count + 1)) : "JS_UNDEFINED");
  printf("  JSValue t%d;\n", t);
  if (!now.is_linked) {
    printf("  if (unlikely(aot_link(ctx, &sf, self))) ");
    write_failure();
  }
  printf("  aot_at(&sf, %u);\n", i->next);
  note(i->at, "SEEN_OTHER");
  if (function->kind == FUNCTION && functions[function->index].translated) {
    const struct function *called = &functions[function->index];
    printf("  t%d = f%d(ctx, JS_VALUE_GET_OBJ(%s)", t, function->index, function->text);
    if (called->sees_this) printf(", AOT_PARTS(%s)", self);
    for (int k = 0; k < called->b->arg_count; k++) {
      printf(", AOT_PARTS(%s)", k < count ? value_of(top(count - 1 - k)) : "JS_UNDEFINED");
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
  forget_shapes();
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
  keep_held();
  forget_shapes();
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
  printf("  const double t%d = %a;\n", t, JS_VALUE_GET_FLOAT64(constant));
  push_number(NUMBER, "t%d", t);
}

/* A string that is a name lives as long as the function. */
static void write_name(const struct instruction *i) {
  JSAtom atom = (JSAtom)i->operand;
  bool is_string = !__JS_AtomIsTaggedInt(atom) &&
                   context->rt->atom_array[atom]->atom_type == JS_ATOM_TYPE_STRING;
  if (!is_string) {
    push_checked("aot_name", i->at);
    return;
  }
  int t = temporary();
  printf("  const JSValue t%d = aot_string(ctx, self, %u);\n", t, i->at);
  push_borrowed(LASTING, "t%d", t);
}

/* `Infinity` and `NaN` stay what they are, whatever a program declares: ECMA-262, 19.1. */
static void write_global(const struct instruction *i) {
  const char *name = JS_AtomToCString(context, (JSAtom)i->operand);
  bool is_infinity = name != NULL && strcmp(name, "Infinity") == 0;
  bool is_nan = name != NULL && strcmp(name, "NaN") == 0;
  JS_FreeCString(context, name);
  if (!is_infinity && !is_nan) {
    push_checked("aot_global", i->at);
    return;
  }
  int t = temporary();
  printf("  const double t%d = %s;\n", t, is_infinity ? "INFINITY" : "NAN");
  push_number(NUMBER, "t%d", t);
}

static bool write_push(const struct instruction *i) {
  switch (i->opcode) {
    case OP_nop: return true;
    case OP_push_i32: push_integer(i->operand); return true;
    case OP_undefined: push_constant("(JS_UNDEFINED)"); return true;
    case OP_null: push_constant("(JS_NULL)"); return true;
    case OP_push_false: push_number(TRUTH, "%d", 0); return true;
    case OP_push_true: push_number(TRUTH, "%d", 1); return true;
    case OP_push_this: push_borrowed(LASTING, "this_val", 0); return true;
    case OP_push_const: write_constant(i); return true;
    case OP_push_atom_value: write_name(i); return true;
    case OP_get_var: write_global(i); return true;
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

/* Writes one operation, but for a jump that is always done; false, and nothing is written, where it
 * is not known. */
static bool write_operation(const struct instruction *i) {
  now.before = now.stack;
  if (i->opcode == OP_goto) return true;
  if (i->opcode == OP_if_false || i->opcode == OP_if_true) {
    write_branch(i);
    return true;
  }
  if (write_push(i) || write_move(i)) return true;
  bool is_known = write_variable(i) || write_numeric(i) || write_logic(i) || write_post_step(i) ||
                  write_object_operation(i) || write_call_or_return(i);
  if (is_known && !ends(i->opcode) && short_opcode_info(i->opcode).n_push > 0) narrow(i);
  return is_known;
}

#endif
