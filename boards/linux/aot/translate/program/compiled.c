/* The engine itself, in one with what reads its inner parts: they have no header. */
#include "quickjs.c"

#include "program/compiled.h"
#include "trouble.h"

/* A copy; NULL for a function without one. They have no characters to read, either. */
static const char *name_of(JSContext *context, const JSFunctionBytecode *b) {
  if (b->func_name == JS_ATOM_NULL || b->func_name == JS_ATOM_empty_string) return NULL;
  const char *text = JS_AtomToCString(context, b->func_name);
  if (text == NULL) die("translate: no memory");
  return text;
}

static const struct closure *closures_of(const JSFunctionBytecode *b) {
  struct closure *closures = zeros((size_t)b->closure_var_count, sizeof *closures);
  for (int k = 0; k < b->closure_var_count; k++) {
    const JSClosureVar *v = &b->closure_var[k];
    closures[k] = (struct closure){v->var_idx, v->is_local, v->is_arg};
  }
  return closures;
}

static struct constant constant_of(JSValueConst value) {
  struct constant constant = {.function = -1};
  bool is_float = JS_TAG_IS_FLOAT64(JS_VALUE_GET_TAG(value));
  if (is_float) constant.number = JS_VALUE_GET_FLOAT64(value);
  constant.is_finite = is_float && isfinite(constant.number);
  return constant;
}

/* A function, then those that stand in it: the first one's index. */
static int list_functions(struct program *program, JSFunctionBytecode *b, int parent) {
  int own = program->function_count++, column;
  size_t bytes = sizeof *program->functions * (size_t)program->function_count;
  program->functions = grown(program->functions, bytes);
  struct constant *constants = zeros((size_t)b->cpool_count, sizeof *constants);
  program->functions[own] = (struct function){
      .parent = parent,
      .name = name_of(program->context, b),
      .line = find_line_num(program->context, b, 0, &column),
      .is_strict = (b->js_mode & JS_MODE_STRICT) != 0,
      .is_special = b->func_kind != JS_FUNC_NORMAL,
      .code = b->byte_code_buf,
      .code_bytes = (uint32_t)b->byte_code_len,
      .arguments = b->arg_count,
      .locals = b->var_count,
      .stack_size = b->stack_size,
      .closures = closures_of(b),
      .constants = constants,
      .variables = zeros((size_t)b->arg_count + b->var_count, sizeof(struct variable)),
  };
  for (int k = 0; k < b->cpool_count; k++) {
    constants[k] = constant_of(b->cpool[k]);
    if (JS_VALUE_GET_TAG(b->cpool[k]) != JS_TAG_FUNCTION_BYTECODE) continue;
    constants[k].function = list_functions(program, JS_VALUE_GET_PTR(b->cpool[k]), own);
  }
  return own;
}

void read_program(struct program *program, const char *path, const char *source, size_t length) {
  JSRuntime *runtime = JS_NewRuntime();
  JS_SetMaxStackSize(runtime, 0);
  program->context = JS_NewContext(runtime);
  int flags = JS_EVAL_TYPE_GLOBAL | JS_EVAL_FLAG_STRICT | JS_EVAL_FLAG_COMPILE_ONLY;
  JSValue compiled = JS_Eval(program->context, source, length, "firmware.js", flags);
  if (JS_IsException(compiled)) die("translate: %s is no program", path);
  list_functions(program, JS_VALUE_GET_PTR(compiled), -1);
  for (int k = 0, first = 0; k < program->function_count; k++) {
    program->functions[k].first_seen = first;
    first += (int)program->functions[k].code_bytes;
  }
}

bool is_string(const struct program *program, uint32_t name) {
  if (__JS_AtomIsTaggedInt(name)) return false;
  return program->context->rt->atom_array[name]->atom_type == JS_ATOM_TYPE_STRING;
}

bool is_spelt(const struct program *program, uint32_t name, const char *text) {
  const char *spelling = JS_AtomToCString(program->context, name);
  bool is_same = spelling != NULL && strcmp(spelling, text) == 0;
  JS_FreeCString(program->context, spelling);
  return is_same;
}

double power_of(double base, double exponent) { return js_pow(base, exponent); }
