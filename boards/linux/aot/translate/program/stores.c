#include "program/stores.h"

#include <stdlib.h>
#include <string.h>

#include "program/opcodes.h"
#include "trouble.h"

struct variable *variable_of(const struct program *program, int function, int index) {
  for (;;) {
    const struct closure *closure = &program->functions[function].closures[index];
    function = program->functions[function].parent;
    if (function < 0) return NULL;
    index = closure->index;
    if (!closure->is_own) continue;
    if (!closure->is_argument) index += program->functions[function].arguments;
    return &program->functions[function].variables[index];
  }
}

int function_in(const struct program *program, int function, int index) {
  const struct variable *v = variable_of(program, function, index);
  return v != NULL && v->stores == 1 ? v->function : -1;
}

/* A store that may happen again is as two. */
static void note_store(struct variable *v, bool again, int function) {
  if (v == NULL) return;
  v->stores += again ? 2 : 1;
  v->function = function;
}

bool *find_loops(const struct function *function) {
  bool *loops = zeros(function->code_bytes, sizeof *loops);
  for (uint32_t at = 0; at < function->code_bytes;) {
    struct instruction i = read_at(function->code, at);
    at = i.next;
    if (!jumps(i.opcode)) continue;
    for (uint32_t k = (uint32_t)i.operand; k <= i.at; k++) loops[k] = true;
  }
  return loops;
}

/* Is it the function that a program `(() => { … })()` is, and calls once? */
static bool is_program_body(const struct program *program, int index) {
  const struct function *whole = &program->functions[0], *body = &program->functions[index];
  bool made = false, called = false;
  /* One that stops on its way is not at its end when it comes back; one with a name can be called
   * again by itself. */
  if (body->parent != 0 || body->is_special || body->name != NULL) return false;
  for (uint32_t at = 0; at < whole->code_bytes;) {
    struct instruction i = read_at(whole->code, at);
    at = i.next;
    if (jumps(i.opcode) || i.opcode == OP_catch || i.opcode == OP_gosub) return false;
    called |= made && i.opcode == OP_call && i.operand == 0;
    made = i.opcode == OP_fclosure && whole->constants[i.operand].function == index;
  }
  return called;
}

/* Is it a way on that is not followed here? */
static bool is_strange(int opcode) {
  return opcode == OP_catch || opcode == OP_gosub || ends(opcode);
}

/*
 * Which operations of a function are done exactly once if the program came to its end: those of the
 * function that the program is, called once, up to the first return, and under no condition. No
 * translated function runs before: see `aot_bind`.
 */
static bool *find_certain(const struct program *program, int index) {
  const struct function *function = &program->functions[index];
  bool *certain = zeros(function->code_bytes, sizeof *certain);
  if (!is_program_body(program, index)) return certain;
  memset(certain, true, function->code_bytes);
  for (uint32_t at = 0; at < function->code_bytes;) {
    struct instruction i = read_at(function->code, at);
    at = i.next;
    if (is_strange(i.opcode) && i.opcode != OP_goto) {
      memset(certain + i.at, false, function->code_bytes - i.at);
      break;
    }
    if (!jumps(i.opcode)) continue;
    uint32_t to = (uint32_t)i.operand, from = i.at < to ? i.at : to, end = i.at < to ? to : i.at;
    memset(certain + from, false, end - from + 1);
  }
  return certain;
}

static bool is_literal(int opcode) {
  return opcode == OP_push_i32 || opcode == OP_push_true || opcode == OP_push_false;
}

/* The variable that an operation stores to, of which it is not known what, nor how often; NULL if
 * it stores to none. */
static struct variable *stored_to(const struct program *program, int index,
                                  const struct instruction *i) {
  const struct function *function = &program->functions[index];
  struct variable *arguments = function->variables, *locals = arguments + function->arguments;
  switch (i->opcode) {
    case OP_put_arg:
    case OP_set_arg: return &arguments[i->operand];
    case OP_put_var_ref:
    case OP_set_var_ref:
    case OP_put_var_ref_check:
    case OP_put_var_ref_check_init: return variable_of(program, index, i->operand);
    case OP_make_loc_ref: return &locals[referred(function->code, i)];
    case OP_make_arg_ref: return &arguments[referred(function->code, i)];
    case OP_make_var_ref_ref: return variable_of(program, index, referred(function->code, i));
    case OP_eval:
    case OP_apply_eval:
    case OP_with_get_var ... OP_with_get_ref:
      die("translate: the firmware evaluates text, or uses `with`");
    default: return NULL;
  }
}

static void scan_stores(struct program *program, int index) {
  struct function *function = &program->functions[index];
  struct variable *locals = function->variables + function->arguments;
  bool opening = true;
  bool *loops = find_loops(function);
  bool *certain = find_certain(program, index);
  int declared = -1;
  struct instruction last = {.opcode = OP_nop};
  for (int k = 0; k < function->arguments; k++) function->variables[k].stores = 1;
  for (uint32_t at = 0; at < function->code_bytes;) {
    struct instruction i = read_at(function->code, at), stored = last;
    at = i.next;
    last = i;
    switch (i.opcode) {
      case OP_fclosure:
        declared = opening ? function->constants[i.operand].function : -1;
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
      case OP_add_loc: note_store(&locals[i.operand], loops[i.at], -1); break;
      default: note_store(stored_to(program, index, &i), true, -1);
    }
    opening = false;
    declared = -1;
  }
  free(loops);
  free(certain);
}

void find_stores(struct program *program) {
  for (int k = 0; k < program->function_count; k++) scan_stores(program, k);
}
