/*
 * Properties of objects: in the slot where they were seen, else where the place of the operation
 * remembers them.
 */
#include <stdio.h>

#include "body/notes.h"
#include "body/ways.h"
#include "operations/operations.h"
#include "program/opcodes.h"
#include "program/places.h"

/* Where the property was whenever it was seen, from 0; -1 if it was elsewhere, or not seen. */
static int slot_seen(const struct body *body, const struct instruction *i) {
  return is_quick(body, i) ? (int)(seen_at(body, i->at) / SEEN_SLOT) - 1 : -1;
}

/*
 * The object has the property in that slot from here on, or the operation leaves. One look at its
 * shape is enough until something may change that, for all that is wanted of the object.
 */
static void expect_slot(struct body *body, const struct instruction *i, const char *object,
                        int slot) {
  const struct fact *fact = fact_of(&body->facts, object);
  int place = fact != NULL ? fact->place : -1;
  if (place < 0) {
    place = new_place(body->program);
    uint32_t way = way_to_leave(body, i);
    printf("  if (unlikely(!JS_IsObject(%s))) goto X%u;\n", object, way);
    printf("  if (unlikely(!aot_has_shape(%s, &aot_places[%d])) &&\n", object, place);
    printf("      !aot_find(ctx, self, %s, &aot_places[%d])) goto X%u;\n", object, place, way);
    learn(&body->facts, object, place, -1);
  }
  add_want(body->program, place, i, (uint32_t)slot);
}

static void write_expected_field(struct body *body, const struct instruction *i, bool keeps,
                                 int slot) {
  struct entry object = *top(body, 0);
  const struct expression o = value_of(&object);
  expect_slot(body, i, o.text, slot);
  int t = temporary(body);
  bool outlives = keeps || !object.owned;
  printf("  const JSValue t%d = ", t);
  printf(outlives ? "*aot_slot(%s, %d);\n" : "JS_DupValue(ctx, *aot_slot(%s, %d));\n", o.text,
         slot);
  if (!keeps) consume(body, 1);
  if (outlives) push_borrowed(body, HELD, "t%d", t);
  else push_owned(body, t);
}

/* Notes in which slot the place has found it. */
static void note_slot(const struct body *body, const struct instruction *i, const char *object,
                      int place) {
  note(body, i->at, "aot_slot_seen(aot_seen[%d], %s, &aot_places[%d])",
       body->function->first_seen + (int)i->at, object, place);
}

static void write_get_field(struct body *body, const struct instruction *i, bool keeps) {
  int slot = slot_seen(body, i);
  if (slot >= 0) {
    write_expected_field(body, i, keeps, slot);
    return;
  }
  keep_held(body);
  struct entry object = *top(body, 0);
  int t = temporary(body), place = new_place(body->program);
  const struct expression o = value_of(&object);
  printf("  JSValue t%d;\n  if (aot_is_at(%s, &aot_places[%d])) {\n", t, o.text, place);
  printf("  t%d = JS_DupValue(ctx, *aot_property(%s, &aot_places[%d]));\n", t, o.text, place);
  printf("  } else {\n  t%d = aot_get_field(ctx, &sf, self, %u, %s, &aot_places[%d]);\n", t,
         i->at, o.text, place);
  fail_if_exception(body, t);
  printf("  }\n");
  note_slot(body, i, o.text, place);
  forget_shapes(&body->facts);
  if (!keeps) consume(body, 1);
  push_owned(body, t);
}

static void write_put_field(struct body *body, const struct instruction *i) {
  int slot = slot_seen(body, i);
  if (slot >= 0) expect_slot(body, i, value_of(top(body, 1)).text, slot);
  else keep_held(body);
  struct entry value = pop(body), object = pop(body);
  keep_held(body);
  const struct expression o = value_of(&object), v = own_of(&value);
  note(body, i->at, "SEEN_OTHER");
  if (slot >= 0) {
    printf("  aot_store%s(ctx, aot_slot(%s, %d), %s);\n", value.plain ? "_plain" : "", o.text, slot,
           v.text);
    drop(body, &object);
    return;
  }
  int place = new_place(body->program);
  printf("  if (aot_is_at(%s, &aot_places[%d])) {\n", o.text, place);
  printf("  aot_store(ctx, aot_property(%s, &aot_places[%d]), %s);\n", o.text, place, v.text);
  drop(body, &object);
  printf("  } else {\n");
  printf("  const int r = aot_put_field(ctx, &sf, self, %u, %s, %s, &aot_places[%d]);\n",
         i->at, o.text, v.text, place);
  note_slot(body, i, o.text, place);
  drop_aside(&object);
  printf("  if (unlikely(r < 0)) ");
  write_failure(body);
  printf("  }\n");
  forget_shapes(&body->facts);
}

bool write_property(struct body *body, const struct instruction *i) {
  switch (i->opcode) {
    case OP_get_field:
    case OP_get_length: write_get_field(body, i, false); return true;
    case OP_get_field2: write_get_field(body, i, true); return true;
    case OP_put_field: write_put_field(body, i); return true;
    default: return false;
  }
}
