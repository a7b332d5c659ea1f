/* Branches, and the truth of values. */
#include <stdio.h>

#include "body/notes.h"
#include "body/ways.h"
#include "operations/operations.h"
#include "program/opcodes.h"

struct expression truth_of(struct body *body, const struct instruction *i, const struct entry *e) {
  struct expression truth;
  if (e->kind == INTEGER || e->kind == TRUTH) {
    snprintf(truth.text, sizeof truth.text, "%s", e->text);
    return truth;
  }
  if (e->kind == NUMBER) {
    snprintf(truth.text, sizeof truth.text, "aot_is_not_0(%s)", e->text);
    return truth;
  }
  int t = temporary(body);
  const struct expression x = value_of(e);
  printf("  bool t%d;\n  if (likely(aot_is_small(%s))) t%d = INT(%s) != 0;\n", t, x.text, t,
         x.text);
  printf("  else if (likely(aot_is_true(%s))) t%d = true;\n", x.text, t);
  printf("  else goto X%u;\n", way_to_leave(body, i));
  snprintf(truth.text, sizeof truth.text, "t%d", t);
  return truth;
}

void write_branch(struct body *body, const struct instruction *i) {
  char condition[128];
  struct entry e = pop(body);
  bool jumps_if = i->opcode == OP_if_true;
  const struct expression truth = truth_of(body, i, &e);
  note(body, i->at, "%s(%s) ? SEEN_JUMP : SEEN_NO_JUMP", jumps_if ? "" : "!", truth.text);
  enum ways ways = ways_of(body, i);
  if (ways != BOTH) {
    const char *sign = jumps_if == (ways == ONLY_JUMPS) ? "!" : "";
    printf("  if (unlikely(%s(%s))) goto X%u;\n", sign, truth.text, way_to_leave(body, i));
    drop(body, &e);
    return;
  }
  snprintf(condition, sizeof condition, "if (%s(%s)) ", jumps_if ? "" : "!", truth.text);
  drop(body, &e);
  write_jump(body, i, condition);
}
