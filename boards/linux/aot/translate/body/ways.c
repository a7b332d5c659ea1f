#include "body/ways.h"

#include <stdio.h>
#include <stdlib.h>

#include "body/stack.h"
#include "trouble.h"

/* ---- Out of the function ---- */

static void add_leaving(struct body *body, struct leaving leaving) {
  size_t bytes = sizeof leaving * (size_t)(body->leaving_count + 1);
  body->leavings = grown(body->leavings, bytes);
  body->leavings[body->leaving_count++] = leaving;
}

uint32_t way_to_leave(struct body *body, const struct instruction *i) {
  int last = body->leaving_count - 1;
  bool is_there = last >= 0 && body->leavings[last].at == i->at && !body->leavings[last].is_done;
  if (!is_there) add_leaving(body, (struct leaving){i->at, false, i->at, body->before});
  return i->at;
}

uint32_t way_to_leave_done(struct body *body, const struct instruction *i) {
  add_leaving(body, (struct leaving){i->at, true, i->next, body->stack});
  return i->at;
}

void write_leavings(const struct body *body) {
  int below = body->function->arguments + body->function->locals;
  for (int k = 0; k < body->leaving_count; k++) {
    const struct leaving *leaving = &body->leavings[k];
    printf(" %c%u:\n", leaving->is_done ? 'Y' : 'X', leaving->at);
    for (int i = 0; i < leaving->stack.depth; i++) {
      printf("  frame[%d] = %s;\n", below + i, own_of(&leaving->stack.entries[i]).text);
    }
    printf("  depth = %d;\n  offset = %u;\n  goto leave;\n", leaving->stack.depth,
           leaving->offset);
  }
}

static int way_of(struct body *body, int depth) {
  if (depth == 0) return -1;
  const struct entry *e = &body->stack.entries[depth - 1];
  int rest = way_of(body, depth - 1);
  if (!e->owned) return rest;
  int t = atoi(e->text + 1);
  for (int k = 0; k < body->way_count; k++) {
    if (body->ways[k].temporary == t && body->ways[k].rest == rest) return k;
  }
  body->ways = grown(body->ways, sizeof *body->ways * (size_t)(body->way_count + 1));
  body->ways[body->way_count] = (struct way){t, rest};
  return body->way_count++;
}

void write_ways(const struct body *body) {
  for (int k = body->way_count - 1; k >= 0; k--) {
    const struct way *way = &body->ways[k];
    printf(" W%d:\n  aot_drop(ctx, t%d);\n", k, way->temporary);
    if (way->rest < 0) printf("  goto failed;\n");
    else printf("  goto W%d;\n", way->rest);
  }
}

void write_failure(struct body *body) {
  int way = way_of(body, body->stack.depth);
  if (way < 0) printf("goto failed;\n");
  else printf("goto W%d;\n", way);
}

void fail_if_exception(struct body *body, int t) {
  printf("  if (unlikely(JS_IsException(t%d))) ", t);
  write_failure(body);
}

/* ---- To another operation ---- */

void hand_over(const struct body *body) {
  for (int i = 0; i < body->stack.depth; i++) {
    printf("  s%d = %s;\n", i, own_of(&body->stack.entries[i]).text);
  }
}

void take_over(struct body *body, int depth) {
  body->stack.depth = 0;
  for (int i = 0; i < depth; i++) {
    int t = temporary(body);
    printf("  const JSValue t%d = s%d;\n", t, i);
    push_owned(body, t);
  }
}

/* Every loop has one jump to what stands before it in C. */
static void poll_if_back(struct body *body, const struct instruction *i) {
  if (!body->points[i->operand].is_written) return;
  printf("  if (unlikely(js_poll_interrupts(ctx))) {\n  aot_at(&sf, %u);\n  ", i->next);
  write_failure(body);
  printf("  }\n");
}

void write_jump(struct body *body, const struct instruction *i, const char *condition) {
  poll_if_back(body, i);
  printf("  %s{\n", condition);
  hand_over(body);
  printf("  goto L%d;\n  }\n", i->operand);
  if (!body->points[i->operand].is_written) carry_facts(body, (uint32_t)i->operand);
}

void carry_facts(struct body *body, uint32_t at) {
  struct point *point = &body->points[at];
  if (point->carried++ > 0) {
    meet(point->facts, &body->facts);
    return;
  }
  point->facts = zeros(1, sizeof body->facts);
  *point->facts = body->facts;
}

void meet_facts(struct body *body, uint32_t at) {
  const struct point *point = &body->points[at];
  if (point->carried == point->arrivals) body->facts = *point->facts;
  else body->facts.count = 0;
}
