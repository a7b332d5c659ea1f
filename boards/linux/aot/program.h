/*
 * What is known of a whole program: its functions, which of them are wanted, and what its variables
 * can be.
 *
 * Invariant: a variable with one store, outside of loops and by the function whose it is,
 * has no value, or that one. If the store is among the declarations that open the function, nobody
 * ever sees the variable without it. Arguments have a store when they come.
 */
#ifndef AOT_PROGRAM_H
#define AOT_PROGRAM_H

#include <stdarg.h>

#include "bytecode.h"

struct function {
  JSFunctionBytecode *b;
  int parent;
  bool translated, sees_this;
};

/* A variable that closures see: how often it is stored to, and which function that is, if one; or
 * which number, if that is so wherever a translated function sees it (opcode 0: it is none). */
struct variable {
  int stores;
  int function;
  struct instruction literal;
};

static struct function *functions; /* in the order of `each_function` in bind.c */
static int function_count;
static struct variable **variables; /* by function: its arguments, then its locals */
static JSContext *context;

static __attribute__((noreturn, format(printf, 1, 2))) void die(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  exit(1);
}

/* The program ends with the build's step: what it allocates is never freed, unless it is often. */
static void *grown(void *memory, size_t bytes) {
  void *more = realloc(memory, bytes);
  if (more == NULL) die("translate: no memory");
  return more;
}

static void *zeros(size_t count, size_t bytes) {
  void *memory = calloc(count + 1, bytes);
  if (memory == NULL) die("translate: no memory");
  return memory;
}

static void list_functions(JSFunctionBytecode *b, int parent) {
  int own = function_count++;
  functions = grown(functions, sizeof *functions * (size_t)function_count);
  functions[own] = (struct function){b, parent, false, false};
  for (int i = 0; i < b->cpool_count; i++) {
    if (JS_VALUE_GET_TAG(b->cpool[i]) != JS_TAG_FUNCTION_BYTECODE) continue;
    list_functions(JS_VALUE_GET_PTR(b->cpool[i]), own);
  }
}

static int function_of(const JSFunctionBytecode *b) {
  for (int i = 0; i < function_count; i++) {
    if (functions[i].b == b) return i;
  }
  return -1;
}

/* The variable that a closure's is; NULL if it is none of a function (a global one). */
static struct variable *variable_of(int function, int index) {
  for (;;) {
    const JSClosureVar *v = &functions[function].b->closure_var[index];
    function = functions[function].parent;
    if (function < 0) return NULL;
    index = v->var_idx;
    if (!v->is_local) continue;
    if (!v->is_arg) index += functions[function].b->arg_count;
    return &variables[function][index];
  }
}

/* A store that may happen again is as two. */
static void note_store(struct variable *v, bool again, int function) {
  if (v == NULL) return;
  v->stores += again ? 2 : 1;
  v->function = function;
}

/* For each offset: is it in a loop? */
static bool *find_loops(const JSFunctionBytecode *b) {
  bool *loops = zeros((size_t)b->byte_code_len, sizeof *loops);
  for (uint32_t at = 0; at < (uint32_t)b->byte_code_len;) {
    struct instruction i = read_at(b, at);
    at = i.next;
    if (!jumps(i.opcode)) continue;
    for (uint32_t k = (uint32_t)i.operand; k <= i.at; k++) loops[k] = true;
  }
  return loops;
}

/* Is it the function that a program `(() => { … })()` is, and calls once? */
static bool is_program_body(int index) {
  const JSFunctionBytecode *b = functions[0].b;
  bool made = false, called = false;
  const JSFunctionBytecode *body = functions[index].b;
  /* One that stops on its way is not at its end when it comes back; one with a name can be called
   * again by itself. */
  bool is_named = body->func_name != JS_ATOM_NULL && body->func_name != JS_ATOM_empty_string;
  if (functions[index].parent != 0 || body->func_kind != JS_FUNC_NORMAL || is_named) return false;
  for (uint32_t at = 0; at < (uint32_t)b->byte_code_len;) {
    struct instruction i = read_at(b, at);
    at = i.next;
    if (jumps(i.opcode) || i.opcode == OP_catch || i.opcode == OP_gosub) return false;
    called |= made && i.opcode == OP_call && i.operand == 0;
    made = i.opcode == OP_fclosure && JS_VALUE_GET_PTR(b->cpool[i.operand]) == body;
  }
  return called;
}

/* Is it a way on that is not followed here? */
static bool is_strange(OPCodeEnum opcode) {
  return opcode == OP_catch || opcode == OP_gosub || ends(opcode);
}

/*
 * Which operations of a function are done exactly once if the program came to its end: those of the
 * function that the program is, called once, up to the first return, and under no condition. No
 * translated function runs before: see `aot_bind`.
 */
static bool *find_certain(int index) {
  const JSFunctionBytecode *b = functions[index].b;
  bool *certain = zeros((size_t)b->byte_code_len, sizeof *certain);
  if (!is_program_body(index)) return certain;
  memset(certain, true, (size_t)b->byte_code_len);
  for (uint32_t at = 0; at < (uint32_t)b->byte_code_len;) {
    struct instruction i = read_at(b, at);
    at = i.next;
    if (is_strange(i.opcode) && i.opcode != OP_goto) {
      memset(certain + i.at, false, (size_t)b->byte_code_len - i.at);
      break;
    }
    if (!jumps(i.opcode)) continue;
    uint32_t to = (uint32_t)i.operand, from = i.at < to ? i.at : to, end = i.at < to ? to : i.at;
    memset(certain + from, false, end - from + 1);
  }
  return certain;
}

/* The variable that `x ??= y` and `({ x } = y)` refer to: its index stands behind its name. */
static int referred(const JSFunctionBytecode *b, const struct instruction *i) {
  return (int)get_u16(b->byte_code_buf + i->at + 1 + sizeof(JSAtom));
}

static bool is_literal(OPCodeEnum opcode) {
  return opcode == OP_push_i32 || opcode == OP_push_true || opcode == OP_push_false;
}

/* Every store to every variable, once. */
static void scan_stores(int index) {
  JSFunctionBytecode *b = functions[index].b;
  bool opening = true;
  bool *loops = find_loops(b);
  bool *certain = find_certain(index);
  int declared = -1;
  struct instruction last = {.opcode = OP_nop};
  for (int k = 0; k < b->arg_count; k++) variables[index][k].stores = 1;
  for (uint32_t at = 0; at < (uint32_t)b->byte_code_len;) {
    struct instruction i = read_at(b, at);
    at = i.next;
    struct variable *locals = variables[index] + b->arg_count;
    struct instruction stored = last;
    last = i;
    switch (i.opcode) {
      case OP_fclosure:
        declared = opening ? function_of(JS_VALUE_GET_PTR(b->cpool[i.operand])) : -1;
        continue;
      case OP_set_loc_uninitialized: continue;
      case OP_put_loc:
        note_store(&locals[i.operand], loops[i.at], declared);
        if (certain[i.at] && is_literal(stored.opcode)) locals[i.operand].literal = stored;
        if (declared < 0) opening = false;
        declared = -1;
        continue;
      case OP_set_loc:
      case OP_put_loc_check:
      case OP_put_loc_check_init:
      case OP_inc_loc:
      case OP_dec_loc:
      case OP_add_loc:
        note_store(&locals[i.operand], loops[i.at], -1);
        break;
      case OP_put_arg:
      case OP_set_arg: note_store(&variables[index][i.operand], true, -1); break;
      case OP_put_var_ref:
      case OP_set_var_ref:
      case OP_put_var_ref_check:
      case OP_put_var_ref_check_init:
        note_store(variable_of(index, i.operand), true, -1);
        break;
      case OP_make_loc_ref: note_store(&locals[referred(b, &i)], true, -1); break;
      case OP_make_arg_ref: note_store(&variables[index][referred(b, &i)], true, -1); break;
      case OP_make_var_ref_ref:
        note_store(variable_of(index, referred(b, &i)), true, -1);
        break;
      case OP_eval:
      case OP_apply_eval:
      case OP_with_get_var ... OP_with_get_ref:
        die("translate: the firmware evaluates text, or uses `with`");
      default: break;
    }
    opening = false;
    declared = -1;
  }
  free(loops);
  free(certain);
}

/* By line of the program, from 1: is it of a file that is to be translated? */
static bool *wanted;
static int line_count;

/* The bundler writes a line `// FILE` before what it takes of each. */
static void find_wanted(const char *source, char **files, int count) {
  static const char mark[] = "  // ";
  for (const char *c = source; *c; c++) line_count += *c == '\n';
  wanted = zeros((size_t)line_count + 1, sizeof *wanted);
  int line = 1, found = 0;
  for (const char *from = source; *from; line++) {
    size_t length = strcspn(from, "\n");
    wanted[line] = line > 1 && wanted[line - 1];
    if (strncmp(from, mark, sizeof mark - 1) == 0 && length > 3 &&
        strncmp(from + length - 3, ".ts", 3) == 0) {
      wanted[line] = false;
      for (int k = 0; k < count; k++) {
        size_t size = strlen(files[k]);
        if (size != length - 5 || strncmp(from + 5, files[k], size) != 0) continue;
        wanted[line] = true;
        found++;
      }
    }
    from += length + (from[length] == '\n');
  }
  if (found < count) die("translate: %d files of %d are in the bundle", found, count);
}

/* Does the function stand in a wanted file? */
static bool is_wanted(int index) {
  int column, line = find_line_num(context, functions[index].b, 0, &column);
  return line > 0 && line <= line_count && wanted[line];
}

/* The function that a closure's variable is wherever it is seen; -1 if it is none. */
static int function_in(int index, int variable) {
  const struct variable *v = variable_of(index, variable);
  return v != NULL && v->stores == 1 ? v->function : -1;
}

/* Does it use what it is called on? What it does not see the interpreter does not, either. */
static bool sees_this(int index) {
  const JSFunctionBytecode *b = functions[index].b;
  for (uint32_t at = 0; at < (uint32_t)b->byte_code_len;) {
    struct instruction i = read_at(b, at);
    at = i.next;
    if (i.opcode == OP_push_this) return true;
  }
  return false;
}

/* Can it be translated? Its arguments have to be all that it asks of its call. */
static bool is_plain_function(int index) {
  const JSFunctionBytecode *b = functions[index].b;
  if (b->func_kind != JS_FUNC_NORMAL || !(b->js_mode & JS_MODE_STRICT)) return false;
  for (uint32_t at = 0; at < (uint32_t)b->byte_code_len;) {
    struct instruction i = read_at(b, at);
    at = i.next;
    if (i.opcode == OP_special_object || i.opcode == OP_rest || i.opcode == OP_check_ctor ||
        i.opcode == OP_init_ctor) {
      return false;
    }
  }
  return true;
}

static void translate_function(int index) {
  functions[index].translated = is_plain_function(index);
  functions[index].sees_this = sees_this(index);
}

/* Translated are the wanted functions, what these call, and what calls these in a loop. */
static void choose_functions(void) {
  for (int k = 0; k < function_count; k++) {
    const JSFunctionBytecode *b = functions[k].b;
    bool wants = is_wanted(k), *loops = find_loops(b);
    if (wants) translate_function(k);
    for (uint32_t at = 0; at < (uint32_t)b->byte_code_len;) {
      struct instruction i = read_at(b, at);
      at = i.next;
      if (i.opcode != OP_get_var_ref && i.opcode != OP_get_var_ref_check) continue;
      int called = function_in(k, i.operand);
      if (called < 0) continue;
      if (wants) translate_function(called);
      else if (loops[i.at] && is_wanted(called)) translate_function(k);
    }
    free(loops);
  }
}

#endif
