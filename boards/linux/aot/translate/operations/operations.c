#include "operations/operations.h"

#include <stdio.h>

#include "body/notes.h"
#include "body/ways.h"
#include "program/opcodes.h"

/* `x++` where the old value is wanted: it stays below the new one. */
static bool write_post_step(struct body *body, const struct instruction *i) {
  if (i->opcode != OP_post_inc && i->opcode != OP_post_dec) return false;
  printf("  if (unlikely(!aot_is_int(%s))) goto X%u;\n", value_of(top(body, 0)).text,
         way_to_leave(body, i));
  push_again(body, 0);
  write_step(body, i, i->opcode == OP_post_inc);
  return true;
}

bool write_operation(struct body *body, const struct instruction *i) {
  body->before = body->stack;
  if (i->opcode == OP_goto) return true;
  if (i->opcode == OP_if_false || i->opcode == OP_if_true) {
    write_branch(body, i);
    return true;
  }
  if (write_push(body, i) || write_move(body, i)) return true;
  bool is_known = write_variable(body, i) || write_numeric(body, i) || write_logic(body, i) ||
                  write_post_step(body, i) || write_property(body, i) || write_element(body, i) ||
                  write_call_or_return(body, i);
  if (is_known && !ends(i->opcode) && pushes(i) > 0) narrow(body, i);
  return is_known;
}
