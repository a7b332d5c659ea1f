/* Moves on the interpreter's stack: no value changes. */
#include <stdio.h>
#include <string.h>

#include "operations/operations.h"
#include "program/opcodes.h"

/* Moves entries: the order of the stack's last ones, as indexes from below. */
static void reorder(struct body *body, int count, const char *order) {
  struct entry old[8];
  memcpy(old, top(body, count - 1), sizeof *old * (size_t)count);
  for (int k = 0; k < count; k++) *top(body, count - 1 - k) = old[order[k] - '0'];
}

void push_again(struct body *body, int below) {
  struct entry e = *top(body, below);
  if (e.owned) {
    int t = temporary(body);
    printf("  const JSValue t%d = JS_DupValue(ctx, %s);\n", t, e.text);
    snprintf(e.text, sizeof e.text, "t%d", t);
  }
  push_entry(body, e);
}

static void push_several_again(struct body *body, int count) {
  for (int k = 0; k < count; k++) push_again(body, count - 1);
}

bool write_move(struct body *body, const struct instruction *i) {
  switch (i->opcode) {
    case OP_drop: consume(body, 1); return true;
    case OP_nip: reorder(body, 2, "10"); consume(body, 1); return true;
    case OP_nip1: reorder(body, 3, "120"); consume(body, 1); return true;
    case OP_dup: push_again(body, 0); return true;
    case OP_dup1: push_again(body, 1); reorder(body, 3, "021"); return true;
    case OP_dup2: push_several_again(body, 2); return true;
    case OP_dup3: push_several_again(body, 3); return true;
    case OP_insert2: push_again(body, 0); reorder(body, 3, "201"); return true;
    case OP_insert3: push_again(body, 0); reorder(body, 4, "3012"); return true;
    case OP_insert4: push_again(body, 0); reorder(body, 5, "40123"); return true;
    case OP_perm3: reorder(body, 3, "102"); return true;
    case OP_perm4: reorder(body, 4, "2013"); return true;
    case OP_perm5: reorder(body, 5, "30124"); return true;
    case OP_swap: reorder(body, 2, "10"); return true;
    case OP_swap2: reorder(body, 4, "2301"); return true;
    case OP_rot3l: reorder(body, 3, "120"); return true;
    case OP_rot3r: reorder(body, 3, "201"); return true;
    case OP_rot4l: reorder(body, 4, "1230"); return true;
    case OP_rot5l: reorder(body, 5, "12340"); return true;
    default: return false;
  }
}
