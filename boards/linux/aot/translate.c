/*
 * translate FIRMWARE.JS FILE...: the functions of those files, and what they call, as C, on
 * standard output; before what the bundler took of a file there is a line `  // FILE`.
 *
 * A program of the build, not of the board. It compiles the bundle by QuickJS, as the board will,
 * and writes for each function's bytecode what the interpreter would do, operation by operation,
 * where that is plain: whole numbers, properties where they were the last time, elements of arrays,
 * calls. Where it is not, or where an operation is not known here, the function goes on in the
 * interpreter, from that operation (`aot_resume`): there is no second implementation of the
 * language. What this saves is the dispatch, the stack, the counting of references to what a
 * variable holds anyway, the look-up of properties, and most of a call.
 */

#include "quickjs.c"

/* The engine has its own. */
#undef malloc
#undef realloc
#undef free

#include "operations.h"

/* Functions of more bytes of code are not copied to where they are called. */
#define SMALL_CODE 48

/* The depth of the stack at each operation that is reached, -1 at others; where jumps arrive. */
static void find_depths(int *depths, bool *targets) {
  const JSFunctionBytecode *b = now.b;
  uint32_t *waiting = zeros((size_t)b->byte_code_len, sizeof *waiting);
  int count = 0;
  for (int k = 0; k < b->byte_code_len; k++) depths[k] = -1;
  depths[0] = 0;
  waiting[count++] = 0;
  while (count > 0) {
    struct instruction i = read_at(b, waiting[--count]);
    int depth = depths[i.at] - pops(&i) + short_opcode_info(i.opcode).n_push;
    uint32_t next[2];
    int nexts = 0;
    if (jumps(i.opcode)) {
      targets[i.operand] = true;
      next[nexts++] = (uint32_t)i.operand;
    }
    if (!ends(i.opcode)) next[nexts++] = i.next;
    for (int k = 0; k < nexts; k++) {
      if (next[k] >= (uint32_t)b->byte_code_len || depths[next[k]] >= 0) continue;
      depths[next[k]] = depth;
      waiting[count++] = next[k];
    }
  }
  free(waiting);
}

static void write_signature(int index) {
  const bool is_small = functions[index].b->byte_code_len <= SMALL_CODE;
  printf("static %sJSValue f%d(JSContext *ctx, JSObject *self, JSValueConst this_val",
         is_small ? "" : "no_inline ", index);
  for (int k = 0; k < functions[index].b->arg_count; k++) printf(", JSValueConst a%d", k);
  printf(")");
}

static void write_body(const int *depths, const bool *targets) {
  const JSFunctionBytecode *b = now.b;
  bool open = true; /* does the way from above come here? */
  for (uint32_t at = 0; at < (uint32_t)b->byte_code_len;) {
    struct instruction i = read_at(b, at);
    at = i.next;
    if (depths[i.at] < 0 || (!open && !targets[i.at])) continue;
    if (targets[i.at]) {
      if (open) hand_over();
      printf(" L%u:;\n", i.at);
      take_over(depths[i.at]);
    }
    if (now.stack.depth != depths[i.at]) die("translate: function %d, stack", now.index);
    open = write_operation(&i);
    if (!open) printf("  goto X%u;\n", way_to_leave(&i));
    if (ends(i.opcode)) open = false;
  }
}

/* Arguments that are stored to have references of their own. */
static bool *stored_arguments(void) {
  const JSFunctionBytecode *b = now.b;
  bool *stored = zeros((size_t)b->arg_count, sizeof *stored);
  for (uint32_t at = 0; at < (uint32_t)b->byte_code_len;) {
    struct instruction i = read_at(b, at);
    at = i.next;
    if (i.opcode == OP_put_arg || i.opcode == OP_set_arg) stored[i.operand] = true;
  }
  return stored;
}

/* The end of a function: on in the interpreter, or out of it. */
static void write_end(const bool *stored) {
  const JSFunctionBytecode *b = now.b;
  write_leavings();
  printf(" leave:\n");
  for (int k = 0; k < b->arg_count; k++) {
    printf(stored[k] ? "  frame[%d] = a%d;\n" : "  frame[%d] = JS_DupValue(ctx, a%d);\n", k, k);
  }
  for (int k = 0; k < b->var_count; k++) printf("  frame[%d] = v%d;\n", b->arg_count + k, k);
  printf("  aot_unlink(ctx, &sf);\n");
  printf("  return aot_resume(ctx, self, this_val, frame, depth, offset);\n");
  write_ways();
  printf(" failed:\n  aot_failed(ctx);\n  result = JS_EXCEPTION;\n done:\n");
  for (int k = 0; k < b->var_count; k++) printf("  JS_FreeValue(ctx, v%d);\n", k);
  for (int k = 0; k < b->arg_count; k++) {
    if (stored[k]) printf("  JS_FreeValue(ctx, a%d);\n", k);
  }
  printf("  aot_unlink(ctx, &sf);\n  return result;\n}\n");
}

/* What the engine calls: arguments that are missing are undefined. */
static void write_entry(int index) {
  printf("static JSValue e%d(JSContext *ctx, JSObject *self, JSValueConst this_val, int count, "
         "JSValueConst *arguments) {\n  return f%d(ctx, self, this_val",
         index, index);
  for (int k = 0; k < functions[index].b->arg_count; k++) {
    printf(", count > %d ? arguments[%d] : JS_UNDEFINED", k, k);
  }
  printf(");\n}\n");
}

static void write_function(int index) {
  const JSFunctionBytecode *b = functions[index].b;
  now.index = index;
  now.b = b;
  now.stack.depth = now.temporaries = now.way_count = now.leaving_count = 0;
  int *depths = zeros((size_t)b->byte_code_len, sizeof *depths);
  bool *targets = zeros((size_t)b->byte_code_len, sizeof *targets);
  bool *stored = stored_arguments();
  find_depths(depths, targets);
  const char *name = JS_AtomToCString(context, b->func_name);
  printf("\n/* %s */\n", name);
  JS_FreeCString(context, name);
  write_signature(index);
  printf(" {\n  JSStackFrame sf;\n  int depth;\n  uint32_t offset;\n");
  printf("  JSValue result, frame[%d];\n",
         b->arg_count + b->var_count + b->stack_size + 1);
  for (int k = 0; k < b->var_count; k++) printf("  JSValue v%d = JS_UNDEFINED;\n", k);
  for (int k = 0; k < b->stack_size; k++) printf("  JSValue s%d;\n", k);
  for (int k = 0; k < b->arg_count; k++) {
    if (stored[k]) printf("  JS_DupValue(ctx, a%d);\n", k);
  }
  write_body(depths, targets);
  write_end(stored);
  write_entry(index);
  free(depths);
  free(targets);
  free(stored);
}

/* Fields of all functions, read or not: places enough. */
static int count_places(void) {
  int count = 1;
  for (int k = 0; k < function_count; k++) {
    const JSFunctionBytecode *b = functions[k].b;
    for (uint32_t at = 0; at < (uint32_t)b->byte_code_len;) {
      struct instruction i = read_at(b, at);
      at = i.next;
      count += i.opcode == OP_get_field || i.opcode == OP_get_field2 ||
               i.opcode == OP_get_length || i.opcode == OP_put_field;
    }
  }
  return count;
}

static void write_all(void) {
  printf("static struct aot_place aot_places[%d];\n", count_places());
  for (int k = 0; k < function_count; k++) {
    if (!functions[k].translated) continue;
    write_signature(k);
    printf(";\n");
  }
  for (int k = 0; k < function_count; k++) {
    if (functions[k].translated) write_function(k);
  }
  printf("\nstatic const struct aot_function aot_functions[] = {\n");
  for (int k = 0; k < function_count; k++) {
    if (functions[k].translated) printf("  {e%d, %d},\n", k, functions[k].b->byte_code_len);
    else printf("  {NULL, %d},\n", functions[k].b->byte_code_len);
  }
  printf("};\n");
}

static char *read_file(const char *path, size_t *length) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) die("translate: %s cannot be read", path);
  fseek(file, 0, SEEK_END);
  *length = (size_t)ftell(file);
  rewind(file);
  char *text = zeros(*length, 1);
  if (fread(text, 1, *length, file) != *length) die("translate: %s cannot be read", path);
  fclose(file);
  return text;
}

int main(int count, char **arguments) {
  if (count < 3) die("usage: translate FIRMWARE.JS FILE...");
  size_t length;
  char *source = read_file(arguments[1], &length);
  JSRuntime *runtime = JS_NewRuntime();
  JS_SetMaxStackSize(runtime, 0);
  context = JS_NewContext(runtime);
  int flags = JS_EVAL_TYPE_GLOBAL | JS_EVAL_FLAG_STRICT | JS_EVAL_FLAG_COMPILE_ONLY;
  JSValue program = JS_Eval(context, source, length, "firmware.js", flags);
  if (JS_IsException(program)) die("translate: %s is no program", arguments[1]);
  list_functions(JS_VALUE_GET_PTR(program), -1);
  variables = zeros((size_t)function_count, sizeof *variables);
  for (int k = 0; k < function_count; k++) {
    const JSFunctionBytecode *b = functions[k].b;
    variables[k] = zeros((size_t)b->arg_count + b->var_count, sizeof **variables);
  }
  for (int k = 0; k < function_count; k++) scan_stores(k);
  find_wanted(source, arguments + 2, count - 2);
  choose_functions();
  write_all();
  return 0;
}
