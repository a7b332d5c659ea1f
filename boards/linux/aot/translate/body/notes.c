#include "body/notes.h"

#include <stdarg.h>
#include <stdio.h>

#include "body/stack.h"
#include "body/ways.h"
#include "program/opcodes.h"

unsigned seen_at(const struct body *body, uint32_t at) {
  return body->seen != NULL ? body->seen[at] : 0;
}

bool is_quick(const struct body *body, const struct instruction *i) {
  unsigned seen = seen_at(body, i->at);
  return (seen & SEEN_VALUES) != 0 && (seen & SEEN_ASIDE) == 0;
}

enum ways ways_of(const struct body *body, const struct instruction *i) {
  if (i->opcode == OP_goto) return ONLY_JUMPS;
  unsigned seen = seen_at(body, i->at) & (SEEN_JUMP | SEEN_NO_JUMP);
  return seen == SEEN_JUMP ? ONLY_JUMPS : seen == SEEN_NO_JUMP ? ONLY_GOES_ON : BOTH;
}

void narrow(struct body *body, const struct instruction *i) {
  struct entry e = *top(body, 0);
  note(body, i->at, "aot_kind_seen(%s)", value_of(&e).text);
  unsigned seen = seen_at(body, i->at) & SEEN_VALUES;
  if (e.kind != VALUE || (seen != SEEN_INT && seen != SEEN_BOOL)) return;
  printf("  if (unlikely(JS_VALUE_GET_TAG(%s) != %s)) goto Y%u;\n", e.text,
         seen == SEEN_INT ? "JS_TAG_INT" : "JS_TAG_BOOL", way_to_leave_done(body, i));
  int t = temporary(body);
  printf("  const int32_t t%d = INT(%s);\n", t, e.text);
  pop(body);
  push_number(body, seen == SEEN_INT ? INTEGER : TRUTH, "t%d", t);
}

void note(const struct body *body, uint32_t at, const char *format, ...) {
  if (!body->program->learns) return;
  va_list arguments;
  va_start(arguments, format);
  printf("  aot_seen[%d] |= ", body->function->first_seen + (int)at);
  vprintf(format, arguments);
  printf(";\n");
  va_end(arguments);
}
