/*
 * Writes the operations of a function in the order in which they come after one another.
 *
 * Invariant: an operation is written once, where the first way to it ends, or at its label.
 * What only one operation comes before needs no label: the stack and the facts go on. Ways that
 * were never seen to be gone are not written: see `ways_of`.
 */
#ifndef AOT_FLOW_H
#define AOT_FLOW_H

#include "operations.h"

/* The operations that come after one: how many. */
static int followers(const struct instruction *i, uint32_t next[2]) {
  int count = 0;
  enum ways ways = jumps(i->opcode) ? ways_of(i) : ONLY_GOES_ON;
  if (ways != ONLY_GOES_ON) next[count++] = (uint32_t)i->operand;
  bool throws = i->opcode == OP_throw || i->opcode == OP_throw_error;
  bool is_last = i->next >= (uint32_t)now.b->byte_code_len;
  if (ways != ONLY_JUMPS && !ends(i->opcode) && !throws && !is_last) next[count++] = i->next;
  return count;
}

/* Finds what is reached, with which stack, and from how many operations. */
static void begin_flow(void) {
  const JSFunctionBytecode *b = now.b;
  uint32_t *waiting = zeros((size_t)b->byte_code_len, sizeof *waiting), next[2];
  int count = 0;
  now.facts.count = 0;
  now.points = zeros((size_t)b->byte_code_len, sizeof *now.points);
  for (int k = 0; k < b->byte_code_len; k++) now.points[k].depth = -1;
  now.points[0] = (struct point){.depth = 0, .arrivals = 1};
  waiting[count++] = 0;
  while (count > 0) {
    struct instruction i = read_at(b, waiting[--count]);
    int depth = now.points[i.at].depth - pops(&i) + short_opcode_info(i.opcode).n_push;
    for (int k = followers(&i, next) - 1; k >= 0; k--) {
      if (now.points[next[k]].arrivals++ > 0) continue;
      now.points[next[k]].depth = depth;
      waiting[count++] = next[k];
    }
  }
  free(waiting);
}

static void end_flow(void) {
  for (int k = 0; k < now.b->byte_code_len; k++) free(now.points[k].facts);
  free(now.points);
}

static void write_label(uint32_t at) {
  printf(" L%u:;\n", at);
  meet_facts(at);
  take_over(now.points[at].depth);
}

/* Where it goes on behind an operation, in place; -1: nowhere. */
static int64_t go_on(const struct instruction *i, bool is_known) {
  if (!is_known) {
    printf("  goto X%u;\n", way_to_leave(i));
    return -1;
  }
  if (!jumps(i->opcode) || ways_of(i) != ONLY_JUMPS) return ends(i->opcode) ? -1 : (int64_t)i->next;
  const struct point *point = &now.points[i->operand];
  if (!point->is_written && point->arrivals == 1) return i->operand;
  write_jump(i, "");
  return -1;
}

/* Writes on from an operation to where it ends, or meets what is written. */
static void write_way(int64_t at) {
  for (bool begins = true; at >= 0; begins = false) {
    struct instruction i = read_at(now.b, (uint32_t)at);
    struct point *point = &now.points[at];
    if (!begins && (point->is_written || point->arrivals > 1)) {
      hand_over();
      if (point->is_written) {
        printf("  goto L%u;\n", i.at);
        return;
      }
      carry_facts(i.at);
      write_label(i.at);
    }
    if (now.stack.depth != point->depth) die("translate: function %d, stack", now.index);
    point->is_written = true;
    at = go_on(&i, write_operation(&i));
  }
}

static void write_flow(void) {
  if (now.points[0].arrivals > 1) printf(" L0:;\n");
  write_way(0);
  for (uint32_t at = 0; at < (uint32_t)now.b->byte_code_len; at = read_at(now.b, at).next) {
    if (now.points[at].arrivals == 0 || now.points[at].is_written) continue;
    write_label(at);
    write_way(at);
  }
}

#endif
