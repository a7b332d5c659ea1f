#include "body/stack.h"

#include <stdio.h>

#include "trouble.h"

struct entry *top(struct body *body, int below) {
  return &body->stack.entries[body->stack.depth - 1 - below];
}

void push_entry(struct body *body, struct entry e) {
  if (body->stack.depth == STACK_MAX) die("translate: a stack of more than %d", STACK_MAX);
  body->stack.entries[body->stack.depth++] = e;
}

struct entry pop(struct body *body) { return body->stack.entries[--body->stack.depth]; }

int temporary(struct body *body) { return body->temporaries++; }

struct entry entry_of(enum kind kind, const char *format, int number) {
  struct entry e = {.kind = kind, .plain = kind != VALUE && kind != FUNCTION};
  snprintf(e.text, sizeof e.text, format, number);
  return e;
}

void push_number(struct body *body, enum kind kind, const char *format, int number) {
  push_entry(body, entry_of(kind, format, number));
}

void push_integer(struct body *body, int32_t number) {
  if (number == INT32_MIN) push_number(body, INTEGER, "(-%d - 1)", INT32_MAX);
  else push_number(body, INTEGER, number < 0 ? "(%d)" : "%d", number);
}

void push_owned(struct body *body, int t) {
  struct entry e = entry_of(VALUE, "t%d", t);
  e.owned = true;
  push_entry(body, e);
}

void push_plain(struct body *body, int t) {
  struct entry e = entry_of(VALUE, "t%d", t);
  e.plain = true;
  push_entry(body, e);
}

void push_constant(struct body *body, const char *text) {
  struct entry e = entry_of(VALUE, "", 0);
  e.plain = true;
  snprintf(e.text, sizeof e.text, "%s", text);
  push_entry(body, e);
}

void push_borrowed(struct body *body, enum source source, const char *format, int index) {
  struct entry e = entry_of(VALUE, format, index);
  e.source = source;
  e.index = index;
  push_entry(body, e);
}

struct expression value_of(const struct entry *e) {
  struct expression value;
  const char *format = e->kind == INTEGER  ? "aot_of_int(%s)"
                       : e->kind == NUMBER ? "JS_NewFloat64(ctx, %s)"
                       : e->kind == TRUTH  ? "aot_of_bool(%s)"
                                           : "%s";
  snprintf(value.text, sizeof value.text, format, e->text);
  return value;
}

struct expression own_of(const struct entry *e) {
  struct expression own;
  if (e->owned || e->plain) return value_of(e);
  snprintf(own.text, sizeof own.text, "JS_DupValue(ctx, %s)", e->text);
  return own;
}

static void keep(struct body *body, struct entry *e) {
  int t = temporary(body);
  printf("  const JSValue t%d = %s;\n", t, own_of(e).text);
  struct entry kept = entry_of(VALUE, "t%d", t);
  kept.owned = true;
  learn_same(&body->facts, kept.text, e->text);
  *e = kept;
}

void keep_borrowed(struct body *body, enum source source, int index) {
  for (int i = 0; i < body->stack.depth; i++) {
    struct entry *e = &body->stack.entries[i];
    if (!e->owned && e->source == source && e->index == index) keep(body, e);
  }
}

void keep_held(struct body *body) {
  for (int i = 0; i < body->stack.depth; i++) {
    struct entry *e = &body->stack.entries[i];
    if (!e->owned && e->source == HELD) keep(body, e);
  }
}

void keep_held_below(struct body *body, int operands) {
  body->stack.depth -= operands;
  keep_held(body);
  body->stack.depth += operands;
  body->before = body->stack;
}

void drop(struct body *body, const struct entry *e) {
  if (!e->owned) return;
  keep_held(body);
  printf("  JS_FreeValue(ctx, %s);\n", e->text);
}

void drop_aside(const struct entry *e) {
  if (e->owned) printf("  aot_drop(ctx, %s);\n", e->text);
}

void consume(struct body *body, int count) {
  for (int k = 0; k < count; k++) {
    struct entry e = pop(body);
    drop(body, &e);
  }
}
