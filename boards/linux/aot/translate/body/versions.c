#include "body/versions.h"

#include <stdio.h>
#include <stdlib.h>

#include "body/flow.h"
#include "body/ways.h"
#include "program/opcodes.h"
#include "program/profile.h"
#include "trouble.h"

/* Functions of more bytes of code are not copied to where they are called. */
#define SMALL_CODE 64

static bool is_call(int opcode) {
  return opcode == OP_call || opcode == OP_call_method || opcode == OP_tail_call ||
         opcode == OP_tail_call_method;
}

/* Does it call something? If what was seen is given: was it seen to? */
static bool has_call(const struct function *function, const uint32_t *seen) {
  for (uint32_t at = 0; at < function->code_bytes;) {
    struct instruction i = read_at(function->code, at);
    at = i.next;
    if (is_call(i.opcode) && (seen == NULL || seen[i.at] != 0)) return true;
  }
  return false;
}

/*
 * A function of which something was seen is written twice: `f` for that, `g` for anything. Small
 * ones that call nothing are copied to where they are called.
 */
static const char *linkage_of(const struct program *program, int index, char version) {
  const struct function *function = &program->functions[index];
  bool was_seen = seen_of(program, function) != NULL;
  bool is_small = function->code_bytes <= SMALL_CODE && !has_call(function, NULL);
  if (version == 'f' && was_seen && is_small) return "ALWAYS";
  bool is_seldom = !was_seen && program->profile_count > 0;
  return is_seldom ? "static no_inline __attribute__((cold))" : "static no_inline";
}

static void write_signature(const struct program *program, int index, char version) {
  const struct function *function = &program->functions[index];
  printf("%s JSValue %c%d(JSContext *ctx, JSObject *self", linkage_of(program, index, version),
         version, index);
  if (function->sees_this) printf(", AOT_PART(this)");
  for (int k = 0; k < function->arguments; k++) printf(", AOT_PART(a%d)", k);
  printf(")");
}

void declare_function(struct program *program, int index) {
  write_signature(program, index, 'f');
  printf(";\n");
  if (seen_of(program, &program->functions[index]) == NULL) return;
  write_signature(program, index, 'g');
  printf(";\n");
}

/* The call of a version by another, or by the engine, with the arguments as they came. */
static void write_passing(const struct program *program, int index, char version) {
  const struct function *function = &program->functions[index];
  printf("return %c%d(ctx, self", version, index);
  if (function->sees_this) printf(", AOT_PARTS(this_val)");
  for (int k = 0; k < function->arguments; k++) printf(", AOT_PARTS(a%d)", k);
  printf(");\n");
}

/* Arguments that are stored to have references of their own. */
static bool *stored_arguments(const struct function *function) {
  bool *stored = zeros((size_t)function->arguments, sizeof *stored);
  for (uint32_t at = 0; at < function->code_bytes;) {
    struct instruction i = read_at(function->code, at);
    at = i.next;
    if (i.opcode == OP_put_arg || i.opcode == OP_set_arg) stored[i.operand] = true;
  }
  return stored;
}

static void write_variables(const struct function *function) {
  const int arguments = function->arguments, locals = function->locals;
  printf("  const JSValue this_val = %s;\n",
         function->sees_this ? "AOT_WHOLE(this)" : "JS_UNDEFINED");
  for (int k = 0; k < arguments; k++) printf("  JSValue a%d = AOT_WHOLE(a%d);\n", k, k);
  printf("  JSStackFrame sf;\n  int depth;\n  uint32_t offset;\n");
  printf("  JSValue result, frame[%d];\n", arguments + locals + function->stack_size + 1);
  for (int k = 0; k < locals; k++) printf("  JSValue v%d = JS_UNDEFINED;\n", k);
  for (int k = 0; k < function->stack_size; k++) printf("  JSValue s%d;\n", k);
}

static void write_beginning(const struct body *body, const bool *stored) {
  write_variables(body->function);
  if (body->seen != NULL) {
    printf("  if (unlikely(--aot_habits[%d].left < 0) && aot_rests(&aot_habits[%d])) ",
           body->index, body->index);
    write_passing(body->program, body->index, 'g');
  }
  if (body->is_linked) printf("  if (unlikely(aot_enter(ctx, &sf, self))) return JS_EXCEPTION;\n");
  for (int k = 0; k < body->function->arguments; k++) {
    if (stored[k]) printf("  JS_DupValue(ctx, a%d);\n", k);
  }
}

/* The end of a function: on in the interpreter, or out of it. */
static void write_end(const struct body *body, const bool *stored) {
  const int arguments = body->function->arguments, locals = body->function->locals;
  write_leavings(body);
  printf(" leave:\n");
  for (int k = 0; k < arguments; k++) {
    printf(stored[k] ? "  frame[%d] = a%d;\n" : "  frame[%d] = JS_DupValue(ctx, a%d);\n", k, k);
  }
  for (int k = 0; k < locals; k++) printf("  frame[%d] = v%d;\n", arguments + k, k);
  printf("  %s(ctx, &sf);\n", body->is_linked ? "aot_leave_frame" : "aot_unlink");
  if (body->seen != NULL) printf("  aot_left(&aot_habits[%d]);\n", body->index);
  printf("  return aot_resume(ctx, self, this_val, frame, depth, offset);\n");
  write_ways(body);
  printf(" failed:\n  aot_failed(ctx);\n  result = JS_EXCEPTION;\n done:\n");
  for (int k = 0; k < locals; k++) printf("  JS_FreeValue(ctx, v%d);\n", k);
  for (int k = 0; k < arguments; k++) {
    if (stored[k]) printf("  JS_FreeValue(ctx, a%d);\n", k);
  }
  printf("  %s(ctx, &sf);\n", body->is_linked ? "aot_leave_frame" : "aot_unlink");
  printf("  return result;\n}\n");
}

/* For what was seen, or for anything: NULL. */
static void write_version(struct program *program, int index, char version, const uint32_t *seen) {
  struct body body = {
      .program = program, .index = index, .function = &program->functions[index], .seen = seen};
  body.is_linked = seen != NULL && has_call(body.function, seen);
  bool *stored = stored_arguments(body.function);
  write_signature(program, index, version);
  printf(" {\n");
  write_beginning(&body, stored);
  write_flow(&body);
  write_end(&body, stored);
  free(stored);
  free(body.leavings);
  free(body.ways);
}

/* What the engine calls: arguments that are missing are undefined. */
static void write_entry(const struct program *program, int index) {
  printf("static JSValue e%d(JSContext *ctx, JSObject *self, JSValueConst this_val, int count, "
         "JSValueConst *arguments) {\n",
         index);
  for (int k = 0; k < program->functions[index].arguments; k++) {
    printf("  const JSValue a%d = count > %d ? arguments[%d] : JS_UNDEFINED;\n", k, k, k);
  }
  printf("  ");
  write_passing(program, index, 'f');
  printf("}\n");
}

void write_function(struct program *program, int index) {
  char name[NAME_MAX_BYTES];
  const struct function *function = &program->functions[index];
  profile_name(function, name);
  printf("\n/* %s %x %x */\n", name, profile_hash(function), function->code_bytes);
  const uint32_t *seen = program->learns ? NULL : seen_of(program, function);
  write_version(program, index, 'f', seen);
  if (seen != NULL) write_version(program, index, 'g', NULL);
  write_entry(program, index);
}
