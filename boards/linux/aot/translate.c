/*
 * translate [--learn | --profile FILE] FIRMWARE.JS FILE...: the functions of those files, and what
 * they call, as C, on standard output; before what the bundler took of a file there is a line
 * `  // FILE`. With --learn the program notes what it sees, which is the profile of later ones.
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

#include "flow.h"

/* Functions of more bytes of code are not copied to where they are called. */
#define SMALL_CODE 64

static bool is_call(OPCodeEnum opcode) {
  return opcode == OP_call || opcode == OP_call_method || opcode == OP_tail_call ||
         opcode == OP_tail_call_method;
}

/* Does it call something? If what was seen is given: was it seen to? */
static bool has_call(const JSFunctionBytecode *b, const uint32_t *seen) {
  for (uint32_t at = 0; at < (uint32_t)b->byte_code_len;) {
    struct instruction i = read_at(b, at);
    at = i.next;
    if (is_call(i.opcode) && (seen == NULL || seen[i.at] != 0)) return true;
  }
  return false;
}

/*
 * A function of which something was seen is written twice: `f` for that, `g` for anything. Small
 * ones that call nothing are copied to where they are called.
 */
static const char *linkage_of(int index, char version) {
  const JSFunctionBytecode *b = functions[index].b;
  bool was_seen = seen_of(b) != NULL;
  if (version == 'f' && was_seen && b->byte_code_len <= SMALL_CODE && !has_call(b, NULL)) {
    return "ALWAYS";
  }
  bool is_seldom = !was_seen && profile_count > 0;
  return is_seldom ? "static no_inline __attribute__((cold))" : "static no_inline";
}

static void write_signature(int index, char version) {
  printf("%s JSValue %c%d(JSContext *ctx, JSObject *self", linkage_of(index, version), version,
         index);
  if (functions[index].sees_this) printf(", AOT_PART(this)");
  for (int k = 0; k < functions[index].b->arg_count; k++) printf(", AOT_PART(a%d)", k);
  printf(")");
}

/* The call of a version by another, or by the engine, with the arguments as they came. */
static void write_passing(int index, char version) {
  printf("return %c%d(ctx, self", version, index);
  if (functions[index].sees_this) printf(", AOT_PARTS(this_val)");
  for (int k = 0; k < functions[index].b->arg_count; k++) printf(", AOT_PARTS(a%d)", k);
  printf(");\n");
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
  printf("  %s(ctx, &sf);\n", now.is_linked ? "aot_leave_frame" : "aot_unlink");
  if (now.seen != NULL) printf("  aot_left(&aot_habits[%d]);\n", now.index);
  printf("  return aot_resume(ctx, self, this_val, frame, depth, offset);\n");
  write_ways();
  printf(" failed:\n  aot_failed(ctx);\n  result = JS_EXCEPTION;\n done:\n");
  for (int k = 0; k < b->var_count; k++) printf("  JS_FreeValue(ctx, v%d);\n", k);
  for (int k = 0; k < b->arg_count; k++) {
    if (stored[k]) printf("  JS_FreeValue(ctx, a%d);\n", k);
  }
  printf("  %s(ctx, &sf);\n", now.is_linked ? "aot_leave_frame" : "aot_unlink");
  printf("  return result;\n}\n");
}

/* What the engine calls: arguments that are missing are undefined. */
static void write_entry(int index) {
  printf("static JSValue e%d(JSContext *ctx, JSObject *self, JSValueConst this_val, int count, "
         "JSValueConst *arguments) {\n",
         index);
  const int count = functions[index].b->arg_count;
  for (int k = 0; k < count; k++) {
    printf("  const JSValue a%d = count > %d ? arguments[%d] : JS_UNDEFINED;\n", k, k, k);
  }
  printf("  ");
  write_passing(index, 'f');
  printf("}\n");
}

static void write_variables(void) {
  const JSFunctionBytecode *b = now.b;
  if (functions[now.index].sees_this) printf("  const JSValue this_val = AOT_WHOLE(this);\n");
  else printf("  const JSValue this_val = JS_UNDEFINED;\n");
  for (int k = 0; k < b->arg_count; k++) printf("  JSValue a%d = AOT_WHOLE(a%d);\n", k, k);
  printf("  JSStackFrame sf;\n  int depth;\n  uint32_t offset;\n");
  printf("  JSValue result, frame[%d];\n",
         b->arg_count + b->var_count + b->stack_size + 1);
  for (int k = 0; k < b->var_count; k++) printf("  JSValue v%d = JS_UNDEFINED;\n", k);
  for (int k = 0; k < b->stack_size; k++) printf("  JSValue s%d;\n", k);
}

static void write_version(int index, char version) {
  const JSFunctionBytecode *b = functions[index].b;
  now.index = index;
  now.b = b;
  now.stack.depth = now.temporaries = now.way_count = now.leaving_count = 0;
  bool *stored = stored_arguments();
  begin_flow();
  now.is_linked = now.seen != NULL && has_call(b, now.seen);
  write_signature(index, version);
  printf(" {\n");
  write_variables();
  if (now.seen != NULL) {
    printf("  if (unlikely(--aot_habits[%d].left < 0) && aot_rests(&aot_habits[%d])) ", index,
           index);
    write_passing(index, 'g');
  }
  if (now.is_linked) printf("  if (unlikely(aot_enter(ctx, &sf, self))) return JS_EXCEPTION;\n");
  for (int k = 0; k < b->arg_count; k++) {
    if (stored[k]) printf("  JS_DupValue(ctx, a%d);\n", k);
  }
  write_flow();
  write_end(stored);
  end_flow();
  free(stored);
}

static void write_function(int index) {
  char name[NAME_MAX_BYTES];
  const JSFunctionBytecode *b = functions[index].b;
  name_of(b, name);
  printf("\n/* %s %x %x */\n", name, hash_of(b), (unsigned)b->byte_code_len);
  now.seen = learns ? NULL : seen_of(b);
  if (now.seen != NULL) {
    write_version(index, 'f');
    now.seen = NULL;
    write_version(index, 'g');
  } else {
    write_version(index, 'f');
  }
  write_entry(index);
}

/* The table of all functions, bound by its order. */
static void write_table(void) {
  printf("\nstatic const struct aot_function aot_functions[] = {\n");
  for (int k = 0; k < function_count; k++) {
    const JSFunctionBytecode *b = functions[k].b;
    if (functions[k].translated) printf("  {e%d, %d},\n", k, b->byte_code_len);
    else printf("  {NULL, %d},\n", b->byte_code_len);
  }
  printf("};\n");
}

/* Where what is seen is noted, and of which functions. */
static void write_notes(void) {
  size_t bytes = 0;
  for (int k = 0; k < function_count; k++) bytes += (size_t)functions[k].b->byte_code_len;
  printf("#define AOT_LEARNS\n");
  printf("static uint32_t aot_seen[%zu];\n", bytes);
  printf("static const char *const aot_names[] = {\n");
  for (int k = 0; k < function_count; k++) {
    char name[NAME_MAX_BYTES];
    name_of(functions[k].b, name);
    printf("  \"%s %x\",\n", name, hash_of(functions[k].b));
  }
  printf("};\n");
}

static void write_all(void) {
  if (learns) write_notes();
  printf("static struct aot_place aot_places[];\n");
  printf("static struct aot_habit aot_habits[%d];\n", function_count);
  for (int k = 0; k < function_count; k++) {
    if (!functions[k].translated) continue;
    write_signature(k, 'f');
    printf(";\n");
    if (seen_of(functions[k].b) == NULL) continue;
    write_signature(k, 'g');
    printf(";\n");
  }
  for (int k = 0; k < function_count; k++) {
    if (functions[k].translated) write_function(k);
    now.first_seen += functions[k].b->byte_code_len;
  }
  write_places();
  write_table();
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

/* Compiles the program, as the board will, and looks at all of its functions. */
static void read_program(const char *path, const char *source, size_t length) {
  JSRuntime *runtime = JS_NewRuntime();
  JS_SetMaxStackSize(runtime, 0);
  context = JS_NewContext(runtime);
  int flags = JS_EVAL_TYPE_GLOBAL | JS_EVAL_FLAG_STRICT | JS_EVAL_FLAG_COMPILE_ONLY;
  JSValue program = JS_Eval(context, source, length, "firmware.js", flags);
  if (JS_IsException(program)) die("translate: %s is no program", path);
  list_functions(JS_VALUE_GET_PTR(program), -1);
  variables = zeros((size_t)function_count, sizeof *variables);
  for (int k = 0; k < function_count; k++) {
    const JSFunctionBytecode *b = functions[k].b;
    variables[k] = zeros((size_t)b->arg_count + b->var_count, sizeof **variables);
  }
  for (int k = 0; k < function_count; k++) scan_stores(k);
}

int main(int count, char **arguments) {
  int first = 1;
  size_t length;
  if (first < count && strcmp(arguments[first], "--learn") == 0) {
    learns = true;
    first++;
  }
  if (first + 1 < count && strcmp(arguments[first], "--profile") == 0) {
    read_profile(read_file(arguments[first + 1], &length));
    first += 2;
  }
  if (count - first < 2) {
    die("usage: translate [--learn | --profile FILE] FIRMWARE.JS FILE...");
  }
  char *source = read_file(arguments[first], &length);
  read_program(arguments[first], source, length);
  find_wanted(source, arguments + first + 1, count - first - 1);
  choose_functions();
  write_all();
  return 0;
}
