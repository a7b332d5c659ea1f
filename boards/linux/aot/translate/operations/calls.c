/* Calls and returns. */
#include <stdio.h>

#include "body/notes.h"
#include "body/ways.h"
#include "operations/operations.h"
#include "program/opcodes.h"

/* An argument of a call of so many; what is missing is undefined. */
static struct expression argument_of(struct body *body, int count, int index) {
  const struct expression missing = {"JS_UNDEFINED"};
  return index < count ? value_of(top(body, count - 1 - index)) : missing;
}

/* Ends the call of a translated function. */
static void write_direct(struct body *body, const struct entry *function, const char *self,
                         int count) {
  const struct function *called = &body->program->functions[function->index];
  printf("f%d(ctx, JS_VALUE_GET_OBJ(%s)", function->index, function->text);
  if (called->sees_this) printf(", AOT_PARTS(%s)", self);
  for (int k = 0; k < called->arguments; k++) {
    printf(", AOT_PARTS(%s)", argument_of(body, count, k).text);
  }
  printf(");\n");
}

/* A call: function, then arguments; of a method also what it is called on, before the function. */
static void write_call(struct body *body, const struct instruction *i, bool is_method) {
  keep_held(body);
  int count = i->operand, t = temporary(body);
  const struct entry *function = top(body, count);
  const struct expression nothing = {"JS_UNDEFINED"};
  const struct expression self = is_method ? value_of(top(body, count + 1)) : nothing;
  printf("  JSValue t%d;\n", t);
  if (!body->is_linked) {
    printf("  if (unlikely(aot_link(ctx, &sf, self))) ");
    write_failure(body);
  }
  printf("  aot_at(&sf, %u);\n", i->next);
  note(body, i->at, "SEEN_OTHER");
  if (function->kind == FUNCTION && body->program->functions[function->index].is_translated) {
    printf("  t%d = ", t);
    write_direct(body, function, self.text, count);
  } else {
    printf("  {\n  JSValue arguments[] = {");
    for (int k = 0; k < count; k++) printf("%s, ", argument_of(body, count, k).text);
    printf("JS_UNDEFINED};\n");
    printf("  t%d = JS_CallInternal(ctx, %s, %s, JS_UNDEFINED, %d, arguments, "
           "JS_CALL_FLAG_COPY_ARGV);\n  }\n",
           t, value_of(function).text, self.text, count);
  }
  forget_shapes(&body->facts);
  consume(body, count + 1 + is_method);
  fail_if_exception(body, t);
  push_owned(body, t);
}

static void write_return(struct body *body, struct entry e) {
  printf("  result = %s;\n", own_of(&e).text);
  consume(body, body->stack.depth);
  printf("  goto done;\n");
}

bool write_call_or_return(struct body *body, const struct instruction *i) {
  switch (i->opcode) {
    case OP_call: write_call(body, i, false); return true;
    case OP_call_method: write_call(body, i, true); return true;
    case OP_tail_call:
      write_call(body, i, false);
      write_return(body, pop(body));
      return true;
    case OP_tail_call_method:
      write_call(body, i, true);
      write_return(body, pop(body));
      return true;
    case OP_return: write_return(body, pop(body)); return true;
    case OP_return_undef:
      push_constant(body, "(JS_UNDEFINED)");
      write_return(body, pop(body));
      return true;
    default: return false;
  }
}
