#include "body/flow.h"

#include <stdio.h>
#include <stdlib.h>

#include "body/notes.h"
#include "body/ways.h"
#include "operations/operations.h"
#include "program/opcodes.h"
#include "trouble.h"

/* The operations that come after one: how many. */
static int followers(const struct body *body, const struct instruction *i, uint32_t next[2]) {
  int count = 0;
  enum ways ways = jumps(i->opcode) ? ways_of(body, i) : ONLY_GOES_ON;
  if (ways != ONLY_GOES_ON) next[count++] = (uint32_t)i->operand;
  bool throws = i->opcode == OP_throw || i->opcode == OP_throw_error;
  bool is_last = i->next >= body->function->code_bytes;
  if (ways != ONLY_JUMPS && !ends(i->opcode) && !throws && !is_last) next[count++] = i->next;
  return count;
}

/* Finds what is reached, with which stack, and from how many operations. */
static void find_points(struct body *body) {
  const struct function *function = body->function;
  uint32_t *waiting = zeros(function->code_bytes, sizeof *waiting), next[2];
  int count = 0;
  body->points = zeros(function->code_bytes, sizeof *body->points);
  for (uint32_t k = 0; k < function->code_bytes; k++) body->points[k].depth = -1;
  body->points[0] = (struct point){.depth = 0, .arrivals = 1};
  waiting[count++] = 0;
  while (count > 0) {
    struct instruction i = read_at(function->code, waiting[--count]);
    int depth = body->points[i.at].depth - pops(&i) + pushes(&i);
    for (int k = followers(body, &i, next) - 1; k >= 0; k--) {
      if (body->points[next[k]].arrivals++ > 0) continue;
      body->points[next[k]].depth = depth;
      waiting[count++] = next[k];
    }
  }
  free(waiting);
}

static void write_label(struct body *body, uint32_t at) {
  printf(" L%u:;\n", at);
  meet_facts(body, at);
  take_over(body, body->points[at].depth);
}

/* Where it goes on behind an operation, in place; -1: nowhere. */
static int64_t go_on(struct body *body, const struct instruction *i, bool is_known) {
  if (!is_known) {
    printf("  goto X%u;\n", way_to_leave(body, i));
    return -1;
  }
  bool only_jumps = jumps(i->opcode) && ways_of(body, i) == ONLY_JUMPS;
  if (!only_jumps) return ends(i->opcode) ? -1 : (int64_t)i->next;
  const struct point *point = &body->points[i->operand];
  if (!point->is_written && point->arrivals == 1) return i->operand;
  write_jump(body, i, "");
  return -1;
}

/* Writes on from an operation to where it ends, or meets what is written. */
static void write_way(struct body *body, int64_t at) {
  for (bool begins = true; at >= 0; begins = false) {
    struct instruction i = read_at(body->function->code, (uint32_t)at);
    struct point *point = &body->points[at];
    if (!begins && (point->is_written || point->arrivals > 1)) {
      hand_over(body);
      if (point->is_written) {
        printf("  goto L%u;\n", i.at);
        return;
      }
      carry_facts(body, i.at);
      write_label(body, i.at);
    }
    if (body->stack.depth != point->depth) die("translate: function %d, stack", body->index);
    point->is_written = true;
    at = go_on(body, &i, write_operation(body, &i));
  }
}

void write_flow(struct body *body) {
  const struct function *function = body->function;
  find_points(body);
  if (body->points[0].arrivals > 1) printf(" L0:;\n");
  write_way(body, 0);
  for (uint32_t at = 0; at < function->code_bytes; at = read_at(function->code, at).next) {
    if (body->points[at].arrivals == 0 || body->points[at].is_written) continue;
    write_label(body, at);
    write_way(body, at);
  }
  for (uint32_t k = 0; k < function->code_bytes; k++) free(body->points[k].facts);
  free(body->points);
  body->points = NULL;
}
