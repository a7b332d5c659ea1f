/*
 * translate FIRMWARE.JS: the functions of the bundle as C, on standard output.
 *
 * A program of the build, not of the board. It compiles the bundle by QuickJS, as the board will,
 * and writes for each function's bytecode what the interpreter would do, operation by operation,
 * out of what support.h offers. What that saves: the dispatch, the stack, the counting of
 * references to what a variable holds anyway, the look-up of properties, the frames of calls.
 *
 * What always holds:
 * - A function is translated as a whole or not at all. One that has an operation that is not known
 *   here (closures that it makes, generators, exceptions that it catches) stays interpreted.
 * - Everything that stands on the interpreter's stack is in a C variable of its own, which is never
 *   stored to again. It is `owned`, then its reference is given up where it is consumed; or it is
 *   borrowed of something that outlives it: an argument, `this`, a variable of the function (before
 *   that is stored to, what was borrowed of it gets a reference of its own), a variable of a closure
 *   that is stored to once in all the program, a number.
 * - Where ways meet, what stands on the stack is handed over in s0, s1 and so on, each owned.
 * - A function is called directly where the variable that holds it is stored to once, by the
 *   declarations that open the function around it. Nothing can be there before, nor after.
 */

#include "quickjs.c"

#include <stdarg.h>
#include <stdbool.h>

/* The engine has its own. */
#undef malloc
#undef realloc
#undef free

struct function {
  JSFunctionBytecode *b;
  int parent;
  const char *left; /* why it stays interpreted; NULL if it does not */
  bool called;      /* by one of those that are wanted */
};

/* A variable of a function that closures see: how often it is stored to, and what it is if that is
 * a function. */
struct variable {
  int stores;
  int function;
};

struct instruction {
  uint32_t at, next;
  OPCodeEnum opcode; /* the long form */
  int32_t operand;   /* number, index, count, or the offset that is jumped to */
};

enum kind { VALUE, INTEGER, TRUTH, FUNCTION };
enum source { NOWHERE, LOCAL, ARGUMENT, LASTING };

struct entry {
  enum kind kind;
  enum source source; /* what it is borrowed of, if it is not owned */
  int index;          /* of the local or argument; of the function */
  bool owned;
  char text[40]; /* a C expression without effects */
};

static struct function *functions;
static int function_count;
static struct variable **variables; /* by function: its arguments, then its locals */
static JSContext *context;
static int place_count;

/* Of the function that is being translated. */
static struct {
  int index;
  JSFunctionBytecode *b;
  struct entry stack[256];
  int depth;
  int *depths; /* by offset: the depth of the stack, -1 where nothing comes by */
  bool *targets;
  bool *stored; /* by argument: is it stored to? */
  int temporaries;
} now;

static void die(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  exit(1);
}

/* ---- Reading bytecode ---- */

static struct instruction read_at(const JSFunctionBytecode *b, uint32_t at) {
  const uint8_t *pc = b->byte_code_buf + at;
  OPCodeEnum opcode = *pc;
  uint32_t size = short_opcode_info(opcode).size;
  struct instruction i = {at, at + size, opcode, 0};
  uint32_t operand_at = at + 1;
  pc++;
  switch (opcode) {
    case OP_push_minus1 ... OP_push_7: i.operand = (int)opcode - OP_push_0; i.opcode = OP_push_i32; break;
    case OP_push_i8: i.operand = get_i8(pc); i.opcode = OP_push_i32; break;
    case OP_push_i16: i.operand = get_i16(pc); i.opcode = OP_push_i32; break;
    case OP_push_const8: i.operand = *pc; i.opcode = OP_push_const; break;
    case OP_fclosure8: i.operand = *pc; i.opcode = OP_fclosure; break;
#define SHORT_OF(kind)                                                                             \
  case OP_get_##kind##0 ... OP_get_##kind##3: i.operand = (int)opcode - OP_get_##kind##0; i.opcode = OP_get_##kind; break; \
  case OP_put_##kind##0 ... OP_put_##kind##3: i.operand = (int)opcode - OP_put_##kind##0; i.opcode = OP_put_##kind; break; \
  case OP_set_##kind##0 ... OP_set_##kind##3: i.operand = (int)opcode - OP_set_##kind##0; i.opcode = OP_set_##kind; break;
    SHORT_OF(loc)
    SHORT_OF(arg)
    SHORT_OF(var_ref)
#undef SHORT_OF
    case OP_get_loc8: i.operand = *pc; i.opcode = OP_get_loc; break;
    case OP_put_loc8: i.operand = *pc; i.opcode = OP_put_loc; break;
    case OP_set_loc8: i.operand = *pc; i.opcode = OP_set_loc; break;
    case OP_inc_loc: case OP_dec_loc: case OP_add_loc: i.operand = *pc; break;
    case OP_if_false8: i.operand = (int)operand_at + get_i8(pc); i.opcode = OP_if_false; break;
    case OP_if_true8: i.operand = (int)operand_at + get_i8(pc); i.opcode = OP_if_true; break;
    case OP_goto8: i.operand = (int)operand_at + get_i8(pc); i.opcode = OP_goto; break;
    case OP_goto16: i.operand = (int)operand_at + get_i16(pc); i.opcode = OP_goto; break;
    case OP_if_false: case OP_if_true: case OP_goto: i.operand = (int)operand_at + (int)get_u32(pc); break;
    case OP_call0 ... OP_call3: i.operand = (int)opcode - OP_call0; i.opcode = OP_call; break;
    default:
      switch (short_opcode_info(opcode).fmt) {
        case OP_FMT_u8: i.operand = *pc; break;
        case OP_FMT_i8: i.operand = get_i8(pc); break;
        case OP_FMT_npop: case OP_FMT_u16: case OP_FMT_loc: case OP_FMT_arg: case OP_FMT_var_ref:
          i.operand = get_u16(pc);
          break;
        case OP_FMT_u32: case OP_FMT_i32: case OP_FMT_const: case OP_FMT_atom: i.operand = (int)get_u32(pc); break;
        default: break;
      }
  }
  return i;
}

static int pops(const struct instruction *i) {
  int count = short_opcode_info(i->opcode).n_pop;
  switch (i->opcode) {
    case OP_call: case OP_tail_call: case OP_call_constructor: case OP_call_method:
    case OP_tail_call_method: case OP_array_from:
      return count + i->operand;
    default: return count;
  }
}

static bool ends(OPCodeEnum opcode) {
  return opcode == OP_return || opcode == OP_return_undef || opcode == OP_throw ||
         opcode == OP_tail_call || opcode == OP_tail_call_method;
}

static bool jumps(OPCodeEnum opcode) {
  return opcode == OP_if_false || opcode == OP_if_true || opcode == OP_goto;
}

/* ---- What is known of the whole program ---- */

static void list_functions(JSFunctionBytecode *b, int parent) {
  int own = function_count++;
  functions = realloc(functions, sizeof *functions * (size_t)function_count);
  functions[own] = (struct function){b, parent, NULL, false};
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
  bool *loops = calloc((size_t)b->byte_code_len + 1, sizeof *loops);
  for (uint32_t at = 0; at < (uint32_t)b->byte_code_len;) {
    struct instruction i = read_at(b, at);
    at = i.next;
    if (!jumps(i.opcode)) continue;
    for (uint32_t k = (uint32_t)i.operand; k <= i.at; k++) loops[k] = true;
  }
  return loops;
}

/* Every store to every variable, once. */
static void scan_stores(int index) {
  JSFunctionBytecode *b = functions[index].b;
  bool opening = true;
  bool *loops = find_loops(b);
  int declared = -1;
  for (int k = 0; k < b->arg_count; k++) variables[index][k].stores = 1;
  for (uint32_t at = 0; at < (uint32_t)b->byte_code_len;) {
    struct instruction i = read_at(b, at);
    at = i.next;
    struct variable *locals = variables[index] + b->arg_count;
    switch (i.opcode) {
      case OP_fclosure:
        declared = opening ? function_of(JS_VALUE_GET_PTR(b->cpool[i.operand])) : -1;
        continue;
      case OP_set_loc_uninitialized: continue;
      case OP_put_loc:
        note_store(&locals[i.operand], loops[i.at], declared);
        if (declared < 0) opening = false;
        declared = -1;
        continue;
      case OP_set_loc: case OP_put_loc_check: case OP_put_loc_check_init: case OP_inc_loc:
      case OP_dec_loc: case OP_add_loc:
        note_store(&locals[i.operand], loops[i.at], -1);
        break;
      case OP_put_arg: case OP_set_arg: note_store(&variables[index][i.operand], true, -1); break;
      case OP_put_var_ref: case OP_set_var_ref: case OP_put_var_ref_check:
      case OP_put_var_ref_check_init:
        note_store(variable_of(index, i.operand), true, -1);
        break;
      case OP_eval: case OP_apply_eval: case OP_make_loc_ref: case OP_make_arg_ref:
      case OP_make_var_ref_ref: case OP_with_get_var ... OP_with_get_ref:
        die("translate: the firmware evaluates text, or uses `with`");
      default: break;
    }
    opening = false;
    declared = -1;
  }
  free(loops);
}

/* ---- Writing ---- */

static struct entry *top(int below) { return &now.stack[now.depth - 1 - below]; }

static struct entry *push(enum kind kind, bool owned, const char *format, ...) {
  struct entry *e = &now.stack[now.depth++];
  *e = (struct entry){kind, NOWHERE, 0, owned, ""};
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(e->text, sizeof e->text, format, arguments);
  va_end(arguments);
  return e;
}

static struct entry *push_borrowed(enum source source, int index, const char *format, ...) {
  struct entry *e = &now.stack[now.depth++];
  *e = (struct entry){VALUE, source, index, false, ""};
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(e->text, sizeof e->text, format, arguments);
  va_end(arguments);
  return e;
}

static struct entry pop(void) { return now.stack[--now.depth]; }

/* The value, borrowed. Texts live until eight more were asked for. */
static const char *value_of(const struct entry *e) {
  static char texts[8][80];
  static int turn;
  char *text = texts[turn++ & 7];
  const char *format = e->kind == INTEGER ? "AOT_OF_INT(%s)" : e->kind == TRUTH ? "AOT_OF_BOOL(%s)" : "%s";
  snprintf(text, sizeof texts[0], format, e->text);
  return text;
}

/* Is it of a kind that has no references? */
static bool is_plain(const struct entry *e) {
  return e->kind == INTEGER || e->kind == TRUTH || strncmp(e->text, "JS_", 3) == 0;
}

/* The value with a reference of its own, which e's becomes if it has one. */
static const char *own_of(const struct entry *e) {
  static char texts[8][100];
  static int turn;
  if (e->owned || is_plain(e)) return value_of(e);
  char *text = texts[turn++ & 7];
  snprintf(text, sizeof texts[0], "JS_DupValue(ctx, %s)", value_of(e));
  return text;
}

static void drop(const struct entry *e) {
  if (e->owned) printf("  AOT_DROP(%s);\n", e->text);
}

/* The same on a way that is seldom gone. */
static void drop_aside(const struct entry *e) {
  if (e->owned) printf("  aot_drop(ctx, %s);\n", e->text);
}

static int temporary(void) { return now.temporaries++; }

/* Gives what was borrowed of a variable a reference of its own, before that is stored to. */
static void keep_borrowed(enum source source, int index) {
  for (int i = 0; i < now.depth; i++) {
    struct entry *e = &now.stack[i];
    if (e->owned || e->source != source || e->index != index) continue;
    int t = temporary();
    printf("  JSValue t%d = %s;\n", t, own_of(e));
    *e = (struct entry){VALUE, NOWHERE, 0, true, ""};
    snprintf(e->text, sizeof e->text, "t%d", t);
  }
}

/* The ways out of a function where something threw: what is owned on the stack is dropped one by
 * one, the last first, each way going on where that of one less does. Numbers of temporaries. */
struct way {
  int temporary, rest; /* `rest` is the index of the way for those below; -1: none */
};
static struct way ways[4096];
static int way_count;

static int way_of(int depth) {
  if (depth == 0) return -1;
  const struct entry *e = &now.stack[depth - 1];
  int rest = way_of(depth - 1);
  if (!e->owned) return rest;
  int t = atoi(e->text + 1);
  for (int k = 0; k < way_count; k++) {
    if (ways[k].temporary == t && ways[k].rest == rest) return k;
  }
  if (way_count == sizeof ways / sizeof *ways) die("translate: a function has too many ways out");
  ways[way_count] = (struct way){t, rest};
  return way_count++;
}

static void write_ways(void) {
  for (int k = way_count - 1; k >= 0; k--) {
    printf(" W%d:\n  aot_drop(ctx, t%d);\n", k, ways[k].temporary);
    if (ways[k].rest < 0) printf("  goto failed;\n");
    else printf("  goto W%d;\n", ways[k].rest);
  }
}

static void fail_if(const char *format, ...) {
  int way = way_of(now.depth);
  va_list arguments;
  printf("  if (unlikely(");
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  if (way < 0) printf(")) goto failed;\n");
  else printf(")) goto W%d;\n", way);
}

/* Hands the stack over to where ways meet. */
static void hand_over(void) {
  for (int i = 0; i < now.depth; i++) printf("  s%d = %s;\n", i, own_of(&now.stack[i]));
}

static void take_over(int depth) {
  now.depth = 0;
  for (int i = 0; i < depth; i++) {
    int t = temporary();
    printf("  JSValue t%d = s%d;\n", t, i);
    push(VALUE, true, "t%d", t);
  }
}

static void poll_if_back(const struct instruction *i) {
  if ((uint32_t)i->operand <= i->at) fail_if("js_poll_interrupts(ctx)");
}

static void write_jump(const struct instruction *i) {
  if (i->opcode == OP_goto) {
    poll_if_back(i);
    hand_over();
    printf("  goto L%d;\n", i->operand);
    return;
  }
  struct entry e = pop();
  const char *sign = i->opcode == OP_if_false ? "!" : "";
  int t = temporary();
  if (e.kind == INTEGER || e.kind == TRUTH) printf("  const bool t%d = %s != 0;\n", t, e.text);
  else printf("  const bool t%d = aot_truth(ctx, %s);\n", t, value_of(&e));
  drop(&e);
  poll_if_back(i);
  if (now.depth > 0) {
    hand_over();
    printf("  if (%st%d) goto L%d;\n", sign, t, i->operand);
    take_over(now.depth);
  } else {
    printf("  if (%st%d) goto L%d;\n", sign, t, i->operand);
  }
}

static int new_place(void) { return place_count++; }

/* An operation of two operands whose quick way is an expression of two integers. */
static void write_binary(const struct instruction *i, const char *quick, const char *slow) {
  struct entry b = pop(), a = pop();
  int t = temporary();
  const char *x = value_of(&a), *y = value_of(&b);
  printf("  JSValue t%d;\n  {\n  int32_t r;\n  (void)r;\n", t);
  printf("  if (likely(AOT_BOTH_INT(%s, %s)", x, y);
  const char *condition = "";
  switch (i->opcode) {
    case OP_add: condition = "!__builtin_add_overflow(AOT_INT(X), AOT_INT(Y), &r)"; break;
    case OP_sub: condition = "!__builtin_sub_overflow(AOT_INT(X), AOT_INT(Y), &r)"; break;
    case OP_mul:
      condition = "!__builtin_mul_overflow(AOT_INT(X), AOT_INT(Y), &r) && "
                  "!(r == 0 && (AOT_INT(X) | AOT_INT(Y)) < 0)";
      break;
    case OP_mod: condition = "AOT_INT(X) >= 0 && AOT_INT(Y) > 0"; break;
    default: break;
  }
  const char *parts[2] = {condition, quick};
  for (int k = 0; k < 2; k++) {
    if (k == 0 && *condition) printf(" && ");
    if (k == 1) printf(")) {\n  t%d = ", t);
    for (const char *c = parts[k]; *c; c++) {
      if (*c == 'X') fputs(x, stdout);
      else if (*c == 'Y') fputs(y, stdout);
      else putchar(*c);
    }
  }
  printf(";\n  } else {\n  t%d = %s(ctx, &sf, %u, %s, %s);\n", t, slow, i->at, x, y);
  drop_aside(&a);
  drop_aside(&b);
  fail_if("JS_IsException(t%d)", t);
  printf("  }\n  }\n");
  push(VALUE, true, "t%d", t);
}

static void write_compare(const struct instruction *i, const char *sign) {
  struct entry b = pop(), a = pop();
  int t = temporary();
  const char *x = value_of(&a), *y = value_of(&b);
  printf("  int t%d;\n  if (likely(AOT_BOTH_INT(%s, %s))) {\n", t, x, y);
  printf("  t%d = AOT_INT(%s) %s AOT_INT(%s);\n  } else {\n", t, x, sign, y);
  printf("  t%d = aot_compare(ctx, &sf, %u, %s, %s);\n", t, i->at, x, y);
  drop_aside(&a);
  drop_aside(&b);
  fail_if("t%d < 0", t);
  printf("  }\n");
  push(TRUTH, false, "t%d", t);
}

static void write_same(const struct instruction *i) {
  struct entry b = pop(), a = pop();
  int t = temporary();
  const char *sign = i->opcode == OP_strict_neq ? "!" : "";
  printf("  const bool t%d = %saot_same(ctx, %s, %s);\n", t, sign, value_of(&a), value_of(&b));
  drop(&a);
  drop(&b);
  push(TRUTH, false, "t%d", t);
}

/* An operation of one operand whose quick way is of an integer. */
static void write_unary(const struct instruction *i, OPCodeEnum opcode, const char *condition,
                        const char *quick) {
  struct entry a = pop();
  int t = temporary();
  const char *x = value_of(&a);
  printf("  JSValue t%d;\n  if (likely(AOT_IS_INT(%s) && ", t, x);
  printf(condition, x);
  printf(")) {\n  t%d = AOT_OF_INT(", t);
  printf(quick, x);
  printf(");\n  } else {\n  t%d = aot_unary(ctx, &sf, %u, %d, %s);\n", t, i->at, opcode, x);
  drop_aside(&a);
  fail_if("JS_IsException(t%d)", t);
  printf("  }\n");
  push(VALUE, true, "t%d", t);
}

static void write_step(const struct instruction *i, OPCodeEnum opcode) {
  bool up = opcode == OP_inc;
  write_unary(i, opcode, up ? "AOT_INT(%s) != INT32_MAX" : "AOT_INT(%s) != INT32_MIN",
              up ? "AOT_INT(%s) + 1" : "AOT_INT(%s) - 1");
}

static void store_local(char letter, int index, const struct entry *e) {
  keep_borrowed(letter == 'v' ? LOCAL : ARGUMENT, index);
  printf("  aot_store(ctx, &%c%d, %s);\n", letter, index, own_of(e));
}

/* `x++` of a local variable and the like. */
static void write_step_local(const struct instruction *i, OPCodeEnum opcode) {
  push_borrowed(LOCAL, i->operand, "v%d", i->operand);
  write_step(i, opcode);
  struct entry e = pop();
  store_local('v', i->operand, &e);
}

static void write_add_local(const struct instruction *i) {
  struct entry added = pop();
  push_borrowed(LOCAL, i->operand, "v%d", i->operand);
  now.stack[now.depth++] = added;
  struct instruction add = *i;
  add.opcode = OP_add;
  write_binary(&add, "AOT_OF_INT(r)", "aot_arithmetic");
  struct entry e = pop();
  store_local('v', i->operand, &e);
}

/* Arguments of a call, in an array; the entries stay on the stack. */
static void write_arguments(int count) {
  printf("  JSValue arguments[%d] = {", count == 0 ? 1 : count);
  for (int k = 0; k < count; k++) printf("%s%s", k > 0 ? ", " : "", value_of(top(count - 1 - k)));
  printf("%s};\n", count == 0 ? "JS_UNDEFINED" : "");
}

static void consume(int count) {
  for (int k = 0; k < count; k++) {
    struct entry e = pop();
    drop(&e);
  }
}

/* A call: function, then arguments; of a method also what it is called on, before the function. */
static void write_call(const struct instruction *i, bool is_method) {
  int count = i->operand, t = temporary();
  const struct entry *function = top(count);
  const char *self = is_method ? value_of(top(count + 1)) : "JS_UNDEFINED";
  uint32_t behind = i->next;
  printf("  JSValue t%d;\n  sf.cur_pc = code + %u;\n", t, behind);
  if (function->kind == FUNCTION && functions[function->index].left == NULL) {
    printf("  t%d = f%d(ctx, JS_VALUE_GET_OBJ(%s), %s", t, function->index, function->text, self);
    for (int k = 0; k < functions[function->index].b->arg_count; k++) {
      printf(", %s", k < count ? value_of(top(count - 1 - k)) : "JS_UNDEFINED");
    }
    printf(");\n");
  } else {
    printf("  {\n");
    write_arguments(count);
    printf("  t%d = aot_call(ctx, %s, %s, %d, arguments);\n  }\n", t, value_of(function), self, count);
  }
  consume(count + 1 + is_method);
  fail_if("JS_IsException(t%d)", t);
  push(VALUE, true, "t%d", t);
}

static void write_new(const struct instruction *i) {
  int count = i->operand, t = temporary();
  printf("  JSValue t%d;\n  {\n", t);
  write_arguments(count);
  printf("  t%d = aot_new(ctx, &sf, %u, %s, %s, %d, arguments);\n  }\n", t, i->at,
         value_of(top(count + 1)), value_of(top(count)), count);
  consume(count + 2);
  fail_if("JS_IsException(t%d)", t);
  push(VALUE, true, "t%d", t);
}

static void write_array(const struct instruction *i) {
  int count = i->operand, t = temporary();
  printf("  JSValue t%d;\n  {\n  JSValue values[%d] = {", t, count == 0 ? 1 : count);
  for (int k = 0; k < count; k++) printf("%s%s", k > 0 ? ", " : "", own_of(top(count - 1 - k)));
  printf("%s};\n", count == 0 ? "JS_UNDEFINED" : "");
  printf("  t%d = aot_array(ctx, &sf, %u, %d, values);\n  }\n", t, i->at, count);
  now.depth -= count;
  fail_if("JS_IsException(t%d)", t);
  push(VALUE, true, "t%d", t);
}

/* A value that a call of support.h gives, and that may be an exception. */
static void push_checked(const char *format, ...) {
  int t = temporary();
  va_list arguments;
  printf("  JSValue t%d = ", t);
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  printf(";\n");
  fail_if("JS_IsException(t%d)", t);
  push(VALUE, true, "t%d", t);
}

static void write_get_field(const struct instruction *i, bool keeps) {
  struct entry object = *top(0);
  int t = temporary(), place = new_place();
  const char *o = value_of(&object);
  printf("  JSValue t%d;\n  if (aot_is_at(%s, &aot_places[%d])) {\n", t, o, place);
  printf("  t%d = JS_DupValue(ctx, *aot_property(%s, &aot_places[%d]));\n  } else {\n", t, o, place);
  printf("  t%d = aot_get_field(ctx, &sf, %u, %s, &aot_places[%d]);\n", t, i->at, o, place);
  fail_if("JS_IsException(t%d)", t);
  printf("  }\n");
  if (!keeps) {
    pop();
    drop(&object);
  }
  push(VALUE, true, "t%d", t);
}

static void write_put_field(const struct instruction *i) {
  struct entry value = pop(), object = pop();
  int place = new_place();
  const char *o = value_of(&object), *v = own_of(&value);
  printf("  if (aot_is_at(%s, &aot_places[%d])) {\n", o, place);
  printf("  aot_store(ctx, aot_property(%s, &aot_places[%d]), %s);\n", o, place, v);
  drop(&object);
  printf("  } else {\n  const int r = aot_put_field(ctx, &sf, %u, %s, %s, &aot_places[%d]);\n",
         i->at, o, v, place);
  drop_aside(&object);
  fail_if("r < 0");
  printf("  }\n");
}

/* Arrays of numbers, the most frequent first: class, member, how a number is read, and how a value
 * that is `is` is stored. */
static const struct {
  const char *class, *member, *of, *is, *number;
} arrays[] = {
    {"UINT8", "uint8_ptr", "AOT_OF_INT(%s)", "AOT_IS_INT", "(uint8_t)AOT_INT"},
    {"INT32", "int32_ptr", "AOT_OF_INT(%s)", "AOT_IS_INT", "AOT_INT"},
    {"UINT32", "uint32_ptr", "aot_of_uint32(%s)", "AOT_IS_INT", "(uint32_t)AOT_INT"},
    {"FLOAT64", "double_ptr", "__JS_NewFloat64(ctx, %s)", "aot_is_number", "aot_number_of"},
};
#define ARRAYS (sizeof arrays / sizeof *arrays)

static void write_get_el(const struct instruction *i, bool keeps) {
  struct entry index = pop(), object = *top(0);
  int t = temporary();
  const char *o = value_of(&object), *x = value_of(&index);
  char element[100];
  printf("  JSValue t%d;\n  if (aot_has_element(%s, %s)) {\n", t, o, x);
  printf("  const JSObject *p = JS_VALUE_GET_OBJ(%s);\n", o);
  for (size_t k = 0; k < ARRAYS; k++) {
    printf("  %sif (p->class_id == JS_CLASS_%s_ARRAY) t%d = ", k > 0 ? "else " : "", arrays[k].class, t);
    snprintf(element, sizeof element, "p->u.array.u.%s[AOT_INT(%s)]", arrays[k].member, x);
    printf(arrays[k].of, element);
    printf(";\n");
  }
  printf("  else goto E%d;\n  } else {\n E%d:\n", t, t);
  printf("  t%d = aot_get_el(ctx, &sf, %u, %s, %s);\n", t, i->at, o, x);
  drop_aside(&index);
  fail_if("JS_IsException(t%d)", t);
  printf("  }\n");
  if (!keeps) {
    pop();
    drop(&object);
  }
  push(VALUE, true, "t%d", t);
}

static void write_put_el(const struct instruction *i) {
  struct entry value = pop(), index = pop(), object = pop();
  int t = temporary();
  const char *o = value_of(&object), *x = value_of(&index), *v = value_of(&value);
  printf("  if (aot_has_element(%s, %s)) {\n  const JSObject *p = JS_VALUE_GET_OBJ(%s);\n", o, x, o);
  for (size_t k = 0; k < ARRAYS; k++) {
    printf("  %sif (p->class_id == JS_CLASS_%s_ARRAY && %s(%s)) ", k > 0 ? "else " : "",
           arrays[k].class, arrays[k].is, v);
    printf("p->u.array.u.%s[AOT_INT(%s)] = %s(%s);\n", arrays[k].member, x, arrays[k].number, v);
  }
  printf("  else goto E%d;\n", t);
  drop(&object);
  printf("  } else {\n E%d:;\n  const int r = aot_put_el(ctx, &sf, %u, %s, %s, %s);\n", t, i->at, o,
         x, own_of(&value));
  drop_aside(&object);
  drop_aside(&index);
  fail_if("r < 0");
  printf("  }\n");
}

static void write_push_const(const struct instruction *i) {
  JSValue constant = now.b->cpool[i->operand];
  if (JS_TAG_IS_FLOAT64(JS_VALUE_GET_TAG(constant))) {
    double number = JS_VALUE_GET_FLOAT64(constant);
    int t = temporary();
    if (isfinite(number)) {
      printf("  JSValue t%d = __JS_NewFloat64(ctx, %a);\n", t, number);
      push(VALUE, false, "t%d", t);
      return;
    }
  }
  int t = temporary();
  printf("  JSValue t%d = aot_constant(ctx, &sf, %d);\n", t, i->operand);
  push(VALUE, true, "t%d", t);
}

static void write_get_var_ref(const struct instruction *i) {
  const struct variable *v = variable_of(now.index, i->operand);
  if (v != NULL && v->stores == 1 && v->function >= 0) {
    struct entry *e = push_borrowed(LASTING, v->function, "AOT_VAR(%d)", i->operand);
    e->kind = FUNCTION;
    return;
  }
  int t = temporary();
  if (v != NULL && v->stores <= 1) {
    printf("  const JSValue t%d = AOT_VAR(%d);\n", t, i->operand);
    push_borrowed(LASTING, 0, "t%d", t);
  } else {
    printf("  JSValue t%d = JS_DupValue(ctx, AOT_VAR(%d));\n", t, i->operand);
    push(VALUE, true, "t%d", t);
  }
}

static void check_initialized(const struct instruction *i, const char *variable, bool is_closure,
                              bool wanted) {
  printf("  if (unlikely(%sJS_IsUninitialized(%s))) aot_uninitialized(ctx, &sf, %u, %d, %d);\n",
         wanted ? "" : "!", variable, i->at, i->operand, is_closure);
  fail_if("%sJS_IsUninitialized(%s)", wanted ? "" : "!", variable);
}

/* Moves entries: the order of the stack's last ones, as indexes from below. */
static void reorder(int count, const char *order) {
  struct entry old[8];
  memcpy(old, top(count - 1), sizeof *old * (size_t)count);
  for (int k = 0; k < count; k++) *top(count - 1 - k) = old[order[k] - '0'];
}

/* Another one of an entry: borrowed where that one is, else with a reference of its own. */
static void push_again(const struct entry *of) {
  struct entry e = *of;
  if (e.owned) {
    int t = temporary();
    printf("  JSValue t%d = JS_DupValue(ctx, %s);\n", t, e.text);
    snprintf(e.text, sizeof e.text, "t%d", t);
  }
  now.stack[now.depth++] = e;
}

static void push_truth(const char *format, ...) {
  struct entry a = pop();
  int t = temporary();
  va_list arguments;
  printf("  const bool t%d = ", t);
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  printf("%s);\n", value_of(&a));
  drop(&a);
  push(TRUTH, false, "t%d", t);
}

static bool write_stack_operation(const struct instruction *i) {
  switch (i->opcode) {
    case OP_drop: consume(1); return true;
    case OP_nip: reorder(2, "10"); consume(1); return true;
    case OP_nip1: reorder(3, "120"); consume(1); return true;
    case OP_dup: push_again(top(0)); return true;
    case OP_dup1: push_again(top(1)); reorder(3, "021"); return true;
    case OP_dup2: push_again(top(1)); push_again(top(1)); return true;
    case OP_dup3: push_again(top(2)); push_again(top(2)); push_again(top(2)); return true;
    case OP_insert2: push_again(top(0)); reorder(3, "201"); return true;
    case OP_insert3: push_again(top(0)); reorder(4, "3012"); return true;
    case OP_insert4: push_again(top(0)); reorder(5, "40123"); return true;
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

static bool write_variable_operation(const struct instruction *i) {
  struct entry e;
  char name[24];
  switch (i->opcode) {
    case OP_get_loc: push_borrowed(LOCAL, i->operand, "v%d", i->operand); return true;
    case OP_put_loc: e = pop(); store_local('v', i->operand, &e); return true;
    case OP_set_loc:
      e = pop();
      store_local('v', i->operand, &e);
      push_borrowed(LOCAL, i->operand, "v%d", i->operand);
      return true;
    case OP_get_arg: push_borrowed(ARGUMENT, i->operand, "a%d", i->operand); return true;
    case OP_put_arg: e = pop(); store_local('a', i->operand, &e); return true;
    case OP_set_arg:
      e = pop();
      store_local('a', i->operand, &e);
      push_borrowed(ARGUMENT, i->operand, "a%d", i->operand);
      return true;
    case OP_get_loc_check:
      snprintf(name, sizeof name, "v%d", i->operand);
      check_initialized(i, name, false, true);
      push_borrowed(LOCAL, i->operand, "v%d", i->operand);
      return true;
    case OP_put_loc_check:
      snprintf(name, sizeof name, "v%d", i->operand);
      check_initialized(i, name, false, true);
      e = pop();
      store_local('v', i->operand, &e);
      return true;
    case OP_set_loc_uninitialized:
      keep_borrowed(LOCAL, i->operand);
      printf("  aot_store(ctx, &v%d, JS_UNINITIALIZED);\n", i->operand);
      return true;
    case OP_get_var_ref: write_get_var_ref(i); return true;
    case OP_get_var_ref_check:
      snprintf(name, sizeof name, "AOT_VAR(%d)", i->operand);
      check_initialized(i, name, true, true);
      write_get_var_ref(i);
      return true;
    case OP_put_var_ref:
    case OP_put_var_ref_check:
      snprintf(name, sizeof name, "AOT_VAR(%d)", i->operand);
      if (i->opcode == OP_put_var_ref_check) check_initialized(i, name, true, true);
      e = pop();
      printf("  aot_store(ctx, &%s, %s);\n", name, own_of(&e));
      return true;
    case OP_set_var_ref:
      push_again(top(0));
      e = pop();
      printf("  aot_store(ctx, &AOT_VAR(%d), %s);\n", i->operand, own_of(&e));
      return true;
    case OP_inc_loc: write_step_local(i, OP_inc); return true;
    case OP_dec_loc: write_step_local(i, OP_dec); return true;
    case OP_add_loc: write_add_local(i); return true;
    default: return false;
  }
}

static bool write_arithmetic(const struct instruction *i) {
  switch (i->opcode) {
    case OP_add: write_binary(i, "AOT_OF_INT(r)", "aot_arithmetic"); return true;
    case OP_sub: write_binary(i, "AOT_OF_INT(r)", "aot_arithmetic"); return true;
    case OP_mul: write_binary(i, "AOT_OF_INT(r)", "aot_arithmetic"); return true;
    case OP_div:
      write_binary(i, "JS_NewFloat64(ctx, (double)AOT_INT(X) / (double)AOT_INT(Y))", "aot_arithmetic");
      return true;
    case OP_mod: write_binary(i, "AOT_OF_INT(AOT_INT(X) % AOT_INT(Y))", "aot_arithmetic"); return true;
    case OP_and: write_binary(i, "AOT_OF_INT(AOT_INT(X) & AOT_INT(Y))", "aot_logic"); return true;
    case OP_or: write_binary(i, "AOT_OF_INT(AOT_INT(X) | AOT_INT(Y))", "aot_logic"); return true;
    case OP_xor: write_binary(i, "AOT_OF_INT(AOT_INT(X) ^ AOT_INT(Y))", "aot_logic"); return true;
    case OP_shl:
      write_binary(i, "AOT_OF_INT((int32_t)((uint32_t)AOT_INT(X) << (AOT_INT(Y) & 31)))", "aot_logic");
      return true;
    case OP_sar: write_binary(i, "AOT_OF_INT(AOT_INT(X) >> (AOT_INT(Y) & 31))", "aot_logic"); return true;
    case OP_shr:
      write_binary(i, "aot_of_uint32((uint32_t)AOT_INT(X) >> (AOT_INT(Y) & 31))", "aot_logic");
      return true;
    case OP_lt: write_compare(i, "<"); return true;
    case OP_lte: write_compare(i, "<="); return true;
    case OP_gt: write_compare(i, ">"); return true;
    case OP_gte: write_compare(i, ">="); return true;
    case OP_eq: write_compare(i, "=="); return true;
    case OP_neq: write_compare(i, "!="); return true;
    case OP_strict_eq:
    case OP_strict_neq: write_same(i); return true;
    case OP_inc:
    case OP_dec: write_step(i, i->opcode); return true;
    case OP_plus: write_unary(i, OP_plus, "1", "AOT_INT(%s)"); return true;
    case OP_not: write_unary(i, OP_not, "1", "~AOT_INT(%s)"); return true;
    case OP_neg:
      write_unary(i, OP_neg, "(AOT_INT(%s) & INT32_MAX) != 0", "-AOT_INT(%s)");
      return true;
    case OP_is_undefined_or_null: push_truth("aot_is_nothing("); return true;
    case OP_lnot: push_truth("!aot_truth(ctx, "); return true;
    case OP_is_undefined: push_truth("JS_IsUndefined("); return true;
    case OP_is_null: push_truth("JS_IsNull("); return true;
    case OP_typeof_is_undefined: push_truth("JS_ATOM_undefined == js_operator_typeof(ctx, "); return true;
    case OP_typeof_is_function: push_truth("JS_ATOM_function == js_operator_typeof(ctx, "); return true;
    default: return false;
  }
}

static void write_two(const char *call, const struct instruction *i) {
  struct entry b = pop(), a = pop();
  int t = temporary();
  printf("  JSValue t%d = %s(ctx, &sf, %u, %s, %s);\n", t, call, i->at, value_of(&a), value_of(&b));
  drop(&a);
  drop(&b);
  fail_if("JS_IsException(t%d)", t);
  push(VALUE, true, "t%d", t);
}

static void write_return(struct entry e) {
  printf("  result = %s;\n", own_of(&e));
  consume(now.depth);
  printf("  goto done;\n");
}

/* Writes one operation; false where it is not known. */
static bool write_operation(const struct instruction *i) {
  struct entry e;
  if (write_stack_operation(i) || write_variable_operation(i) || write_arithmetic(i)) return true;
  switch (i->opcode) {
    case OP_nop: return true;
    case OP_push_i32:
      if (i->operand == INT32_MIN) push(INTEGER, false, "INT32_MIN");
      else push(INTEGER, false, "%d", i->operand);
      return true;
    case OP_undefined: push(VALUE, false, "JS_UNDEFINED"); return true;
    case OP_null: push(VALUE, false, "JS_NULL"); return true;
    case OP_push_false: push(VALUE, false, "JS_FALSE"); return true;
    case OP_push_true: push(VALUE, false, "JS_TRUE"); return true;
    case OP_push_this: push_borrowed(LASTING, 0, "this_val"); return true;
    case OP_push_const: write_push_const(i); return true;
    case OP_push_atom_value: push_checked("aot_name(ctx, &sf, %u)", i->at); return true;
    case OP_push_empty_string: push_checked("JS_AtomToString(ctx, JS_ATOM_empty_string)"); return true;
    case OP_object: push_checked("JS_NewObject(ctx)"); return true;
    case OP_get_var:
    case OP_get_var_undef: push_checked("aot_get_global(ctx, &sf, %u)", i->at); return true;
    case OP_if_false:
    case OP_if_true:
    case OP_goto: write_jump(i); return true;
    case OP_get_field:
    case OP_get_length: write_get_field(i, false); return true;
    case OP_get_field2: write_get_field(i, true); return true;
    case OP_put_field: write_put_field(i); return true;
    case OP_get_array_el: write_get_el(i, false); return true;
    case OP_get_array_el2: write_get_el(i, true); return true;
    case OP_put_array_el: write_put_el(i); return true;
    case OP_define_field:
      e = pop();
      fail_if("aot_define_field(ctx, &sf, %u, %s, %s) < 0", i->at, value_of(top(0)), own_of(&e));
      return true;
    case OP_array_from: write_array(i); return true;
    case OP_call: write_call(i, false); return true;
    case OP_call_method: write_call(i, true); return true;
    case OP_call_constructor: write_new(i); return true;
    case OP_tail_call: write_call(i, false); write_return(pop()); return true;
    case OP_tail_call_method: write_call(i, true); write_return(pop()); return true;
    case OP_return: write_return(pop()); return true;
    case OP_return_undef: write_return((struct entry){VALUE, NOWHERE, 0, false, "JS_UNDEFINED"}); return true;
    case OP_throw:
      e = pop();
      printf("  aot_throw(ctx, &sf, %u, %s);\n", i->at, own_of(&e));
      fail_if("true");
      return true;
    case OP_post_inc:
    case OP_post_dec:
      /* The old value as a number stays below the new one. */
      e = pop();
      push_checked("aot_numeric(ctx, &sf, %u, %s)", i->at, own_of(&e));
      push_again(top(0));
      write_step(i, i->opcode == OP_post_inc ? OP_inc : OP_dec);
      return true;
    case OP_typeof:
      e = pop();
      printf("  JSValue t%d = aot_typeof(ctx, %s);\n", now.temporaries, value_of(&e));
      drop(&e);
      push(VALUE, true, "t%d", temporary());
      return true;
    case OP_in:
    case OP_instanceof:
    case OP_delete: write_two("aot_operator", i); return true;
    case OP_pow: write_two("aot_arithmetic", i); return true;
    case OP_to_object:
      e = pop();
      push_checked("aot_to_object(ctx, &sf, %u, %s)", i->at, own_of(&e));
      return true;
    case OP_to_propkey2: {
      e = pop();
      int t = temporary();
      printf("  JSValue t%d = aot_key(ctx, &sf, %u, %s, %s);\n", t, i->at, value_of(top(0)), value_of(&e));
      drop(&e);
      fail_if("JS_IsException(t%d)", t);
      push(VALUE, true, "t%d", t);
      return true;
    }
    default: return false;
  }
}

/* ---- Which functions ---- */

/* By line of the program, from 1: is it of a file that is to be translated? */
static bool *wanted;
static int line_count;

/* The bundler writes a line `// FILE` before what it takes of each. */
static void find_wanted(const char *source, char **files, int count) {
  static const char mark[] = "  // ";
  for (const char *c = source; *c; c++) line_count += *c == '\n';
  wanted = calloc((size_t)line_count + 2, sizeof *wanted);
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

static bool is_wanted(int line) { return line > 0 && line <= line_count && wanted[line]; }

/* ---- Functions ---- */

static const char *name_of(OPCodeEnum opcode) {
  static const char *const names[] = {
#define FMT(f)
#define DEF(id, size, n_pop, n_push, f) [OP_##id] = #id,
#define def(id, size, n_pop, n_push, f)
#include "quickjs-opcode.h"
#undef def
#undef DEF
#undef FMT
  };
  return names[opcode];
}

/* The depth of the stack at each operation that is reached, and where jumps arrive. */
static void find_depths(void) {
  const JSFunctionBytecode *b = now.b;
  uint32_t *waiting = malloc(sizeof *waiting * (size_t)b->byte_code_len);
  int count = 0;
  for (int k = 0; k < b->byte_code_len; k++) now.depths[k] = -1;
  now.depths[0] = 0;
  waiting[count++] = 0;
  while (count > 0) {
    struct instruction i = read_at(b, waiting[--count]);
    int depth = now.depths[i.at] - pops(&i) + short_opcode_info(i.opcode).n_push;
    uint32_t next[2];
    int nexts = 0;
    if (jumps(i.opcode)) {
      now.targets[i.operand] = true;
      next[nexts++] = (uint32_t)i.operand;
    }
    if (!ends(i.opcode) && i.opcode != OP_goto) next[nexts++] = i.next;
    for (int k = 0; k < nexts; k++) {
      if (now.depths[next[k]] >= 0) continue;
      now.depths[next[k]] = depth;
      waiting[count++] = next[k];
    }
  }
  free(waiting);
}

/* The operations alone that this knows, tried without a trace. */
static bool is_known(const struct instruction *i) {
  switch (i->opcode) {
    case OP_fclosure: case OP_special_object: case OP_rest: case OP_catch: case OP_gosub: case OP_ret:
    case OP_for_of_start: case OP_for_in_start: case OP_for_of_next: case OP_for_in_next:
      return false;
    default: break;
  }
  static const OPCodeEnum known[] = {
      OP_drop, OP_nip, OP_nip1, OP_dup, OP_dup1, OP_dup2, OP_dup3, OP_insert2, OP_insert3, OP_insert4,
      OP_perm3, OP_perm4, OP_perm5, OP_swap, OP_swap2, OP_rot3l, OP_rot3r, OP_rot4l, OP_rot5l,
      OP_get_loc, OP_put_loc, OP_set_loc, OP_get_arg, OP_put_arg, OP_set_arg, OP_get_loc_check,
      OP_put_loc_check, OP_set_loc_uninitialized, OP_get_var_ref, OP_get_var_ref_check, OP_put_var_ref,
      OP_put_var_ref_check, OP_set_var_ref, OP_inc_loc, OP_dec_loc, OP_add_loc, OP_add, OP_sub, OP_mul,
      OP_div, OP_mod, OP_and, OP_or, OP_xor, OP_shl, OP_sar, OP_shr, OP_lt, OP_lte, OP_gt, OP_gte,
      OP_eq, OP_neq, OP_strict_eq, OP_strict_neq, OP_inc, OP_dec, OP_plus, OP_not, OP_neg, OP_lnot,
      OP_is_undefined, OP_is_null, OP_typeof_is_undefined, OP_typeof_is_function, OP_nop, OP_push_i32,
      OP_undefined, OP_null, OP_push_false, OP_push_true, OP_push_this, OP_push_const,
      OP_push_atom_value, OP_push_empty_string, OP_object, OP_get_var, OP_get_var_undef, OP_if_false,
      OP_if_true, OP_goto, OP_get_field, OP_get_length, OP_get_field2, OP_put_field, OP_get_array_el,
      OP_get_array_el2, OP_put_array_el, OP_define_field, OP_array_from, OP_call, OP_call_method,
      OP_call_constructor, OP_tail_call, OP_tail_call_method, OP_return, OP_return_undef, OP_throw,
      OP_post_inc, OP_post_dec, OP_typeof, OP_in, OP_instanceof, OP_delete, OP_to_propkey2,
      OP_pow, OP_to_object, OP_is_undefined_or_null,
  };
  for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
    if (known[k] == i->opcode) return true;
  }
  return false;
}

/* The line of the program at which a function begins, from 1. */
static int line_of(const JSFunctionBytecode *b) {
  int column;
  return find_line_num(context, (JSFunctionBytecode *)b, 0, &column);
}

/* Why the function cannot but stay interpreted; NULL if it need not. */
static const char *reason_unknown(int index) {
  const JSFunctionBytecode *b = functions[index].b;
  if (b->func_kind != JS_FUNC_NORMAL) return "generator";
  if (!(b->js_mode & JS_MODE_STRICT)) return "sloppy";
  if (b->is_derived_class_constructor) return "constructor";
  for (uint32_t at = 0; at < (uint32_t)b->byte_code_len;) {
    struct instruction i = read_at(b, at);
    if (!is_known(&i)) return name_of(i.opcode);
    at = i.next;
  }
  return NULL;
}

/* Functions of more bytes of code are not copied to where they are called. */
#define SMALL_CODE 48

static const char UNWANTED[] = "of no use";

static const char *reason_left(int index) {
  return is_wanted(line_of(functions[index].b)) ? reason_unknown(index) : UNWANTED;
}

/* What is called directly by a function that is wanted is wanted too. */
static void want_called(int index) {
  const JSFunctionBytecode *b = functions[index].b;
  for (uint32_t at = 0; at < (uint32_t)b->byte_code_len;) {
    struct instruction i = read_at(b, at);
    at = i.next;
    if (i.opcode != OP_get_var_ref && i.opcode != OP_get_var_ref_check) continue;
    const struct variable *v = variable_of(index, i.operand);
    if (v != NULL && v->stores == 1 && v->function >= 0) functions[v->function].called = true;
  }
}

static void write_signature(int index) {
  const bool is_small = functions[index].b->byte_code_len <= SMALL_CODE;
  printf("static %sJSValue f%d(JSContext *ctx, JSObject *self, JSValueConst this_val",
         is_small ? "" : "no_inline ", index);
  for (int k = 0; k < functions[index].b->arg_count; k++) printf(", JSValueConst a%d", k);
  printf(")");
}

static void write_body(void) {
  const JSFunctionBytecode *b = now.b;
  bool open = true; /* does the way from above come here? */
  for (uint32_t at = 0; at < (uint32_t)b->byte_code_len;) {
    struct instruction i = read_at(b, at);
    at = i.next;
    if (now.depths[i.at] < 0) continue;
    if (now.targets[i.at]) {
      if (open) hand_over();
      printf(" L%u:;\n", i.at);
      take_over(now.depths[i.at]);
    }
    if (now.depth != now.depths[i.at]) die("translate: a stack of %d, not %d", now.depth, now.depths[i.at]);
    if (!write_operation(&i)) die("translate: %s is not known", name_of(i.opcode));
    open = !ends(i.opcode) && i.opcode != OP_goto;
  }
}

static void write_function(int index) {
  JSFunctionBytecode *b = functions[index].b;
  now.index = index;
  now.b = b;
  now.depth = now.temporaries = way_count = 0;
  now.depths = calloc((size_t)b->byte_code_len + 1, sizeof *now.depths);
  now.targets = calloc((size_t)b->byte_code_len + 1, sizeof *now.targets);
  now.stored = calloc((size_t)b->arg_count + 1, sizeof *now.stored);
  find_depths();
  for (uint32_t at = 0; at < (uint32_t)b->byte_code_len;) {
    struct instruction i = read_at(b, at);
    at = i.next;
    if (i.opcode == OP_put_arg || i.opcode == OP_set_arg) now.stored[i.operand] = true;
  }
  const char *name = JS_AtomToCString(context, b->func_name);
  printf("\n/* %s */\n", name);
  JS_FreeCString(context, name);
  write_signature(index);
  printf(" {\n  AOT_ENTER(%d);\n  JSValue result;\n", b->js_mode);
  for (int k = 0; k < b->var_count; k++) printf("  JSValue v%d = JS_UNDEFINED;\n", k);
  for (int k = 0; k < b->stack_size; k++) printf("  JSValue s%d;\n", k);
  for (int k = 0; k < b->arg_count; k++) {
    if (now.stored[k]) printf("  JS_DupValue(ctx, a%d);\n", k);
  }
  write_body();
  write_ways();
  printf(" failed:\n  aot_failed(ctx, &sf);\n  result = JS_EXCEPTION;\n done:\n");
  for (int k = 0; k < b->var_count; k++) printf("  AOT_DROP(v%d);\n", k);
  for (int k = 0; k < b->arg_count; k++) {
    if (now.stored[k]) printf("  AOT_DROP(a%d);\n", k);
  }
  printf("  AOT_LEAVE();\n  return result;\n}\n");
  printf("static JSValue e%d(JSContext *ctx, JSObject *self, JSValueConst this_val, int count, "
         "JSValueConst *arguments) {\n  return f%d(ctx, self, this_val", index, index);
  for (int k = 0; k < b->arg_count; k++) printf(", count > %d ? arguments[%d] : JS_UNDEFINED", k, k);
  printf(");\n}\n");
  free(now.depths);
  free(now.targets);
  free(now.stored);
}

static bool has_place(OPCodeEnum opcode) {
  return opcode == OP_get_field || opcode == OP_get_field2 || opcode == OP_get_length ||
         opcode == OP_put_field;
}

static int count_places(void) {
  int count = 1;
  for (int k = 0; k < function_count; k++) {
    const JSFunctionBytecode *b = functions[k].b;
    for (uint32_t at = 0; functions[k].left == NULL && at < (uint32_t)b->byte_code_len;) {
      struct instruction i = read_at(b, at);
      at = i.next;
      if (has_place(i.opcode)) count++;
    }
  }
  return count;
}

static void write_all(void) {
  printf("static struct aot_place aot_places[%d];\n", count_places());
  for (int k = 0; k < function_count; k++) {
    if (functions[k].left != NULL) continue;
    write_signature(k);
    printf(";\n");
  }
  int count = 0;
  for (int k = 0; k < function_count; k++) {
    if (functions[k].left == NULL) {
      write_function(k);
      count++;
    }
  }
  printf("\nstatic const struct aot_function aot_functions[] = {\n");
  for (int k = 0; k < function_count; k++) {
    if (functions[k].left == NULL) printf("  {e%d, %d},\n", k, functions[k].b->byte_code_len);
    else printf("  {NULL, %d},\n", functions[k].b->byte_code_len);
  }
  printf("};\n");
  fprintf(stderr, "translated %d of %d functions\n", count, function_count);
}

static char *read_file(const char *path, size_t *length) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) die("translate: %s cannot be read", path);
  fseek(file, 0, SEEK_END);
  *length = (size_t)ftell(file);
  rewind(file);
  char *text = malloc(*length + 1);
  if (fread(text, 1, *length, file) != *length) die("translate: %s cannot be read", path);
  text[*length] = '\0';
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
  variables = calloc((size_t)function_count, sizeof *variables);
  for (int k = 0; k < function_count; k++) {
    const JSFunctionBytecode *b = functions[k].b;
    variables[k] = calloc((size_t)(b->arg_count + b->var_count + 1), sizeof **variables);
  }
  find_wanted(source, arguments + 2, count - 2);
  for (int k = 0; k < function_count; k++) scan_stores(k);
  for (int k = 0; k < function_count; k++) functions[k].left = reason_left(k);
  for (int k = 0; k < function_count; k++) {
    if (is_wanted(line_of(functions[k].b))) want_called(k);
  }
  for (int k = 0; k < function_count; k++) {
    if (functions[k].left == UNWANTED && functions[k].called) functions[k].left = reason_unknown(k);
  }
  write_all();
  return 0;
}
