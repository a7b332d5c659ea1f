/*
 * Writes operations of objects: properties, and elements of arrays.
 */
#ifndef AOT_OBJECTS_H
#define AOT_OBJECTS_H

#include "variables.h"

/* An operation that needs a property to be where it was seen. */
struct want {
  uint32_t offset, slot;
};

/* A place that remembers a shape, and what is wanted of that. */
struct place {
  struct want *wants;
  int count;
};

static struct place *places;
static int place_count;

static int new_place(void) {
  places = grown(places, sizeof *places * (size_t)(place_count + 1));
  places[place_count] = (struct place){NULL, 0};
  return place_count++;
}

static void add_want(int place, const struct instruction *i, uint32_t slot) {
  struct place *p = &places[place];
  p->wants = grown(p->wants, sizeof *p->wants * (size_t)(p->count + 1));
  p->wants[p->count++] = (struct want){i->at, slot};
}

/* Where the property was whenever it was seen, from 0; -1 if it was elsewhere, or not seen. */
static int slot_seen(const struct instruction *i) {
  return is_quick(i) ? (int)(seen_at(i->at) / SEEN_SLOT) - 1 : -1;
}

/*
 * The object has the property in that slot from here on, or the operation leaves. One look at its
 * shape is enough until something may change that, for all that is wanted of the object.
 */
static void expect_slot(const struct instruction *i, const char *object, int slot) {
  const struct fact *fact = fact_of(object);
  int place = fact != NULL ? fact->place : -1;
  if (place < 0) {
    place = new_place();
    uint32_t way = way_to_leave(i);
    printf("  if (unlikely(!JS_IsObject(%s))) goto X%u;\n", object, way);
    printf("  if (unlikely(!aot_has_shape(%s, &aot_places[%d])) &&\n", object, place);
    printf("      !aot_find(ctx, self, %s, &aot_places[%d])) goto X%u;\n", object, place, way);
    learn(object, place, -1);
  }
  add_want(place, i, (uint32_t)slot);
}

static void write_expected_field(const struct instruction *i, bool keeps, int slot) {
  struct entry object = *top(0);
  const char *o = value_of(&object);
  expect_slot(i, o, slot);
  int t = temporary();
  bool outlives = keeps || !object.owned;
  printf("  const JSValue t%d = ", t);
  printf(outlives ? "*aot_slot(%s, %d);\n" : "JS_DupValue(ctx, *aot_slot(%s, %d));\n", o, slot);
  if (!keeps) consume(1);
  if (outlives) push_borrowed(HELD, "t%d", t);
  else push_owned(t);
}

static void write_get_field(const struct instruction *i, bool keeps) {
  int slot = slot_seen(i);
  if (slot >= 0) {
    write_expected_field(i, keeps, slot);
    return;
  }
  keep_held();
  struct entry object = *top(0);
  int t = temporary(), place = new_place();
  const char *o = value_of(&object);
  printf("  JSValue t%d;\n  if (aot_is_at(%s, &aot_places[%d])) {\n", t, o, place);
  printf("  t%d = JS_DupValue(ctx, *aot_property(%s, &aot_places[%d]));\n", t, o, place);
  printf("  } else {\n  t%d = aot_get_field(ctx, &sf, self, %u, %s, &aot_places[%d]);\n", t,
         i->at, o, place);
  fail_if_exception(t);
  printf("  }\n");
  note(i->at, "aot_slot_seen(aot_seen[%d], %s, &aot_places[%d])", now.first_seen + (int)i->at, o,
       place);
  forget_shapes();
  if (!keeps) consume(1);
  push_owned(t);
}

static void write_put_field(const struct instruction *i) {
  int slot = slot_seen(i);
  if (slot >= 0) expect_slot(i, value_of(top(1)), slot);
  else keep_held();
  struct entry value = pop(), object = pop();
  keep_held();
  const char *o = value_of(&object), *v = own_of(&value);
  note(i->at, "SEEN_OTHER");
  if (slot >= 0) {
    printf("  aot_store%s(ctx, aot_slot(%s, %d), %s);\n", value.plain ? "_plain" : "", o, slot, v);
    drop(&object);
    return;
  }
  int place = new_place();
  printf("  if (aot_is_at(%s, &aot_places[%d])) {\n", o, place);
  printf("  aot_store(ctx, aot_property(%s, &aot_places[%d]), %s);\n", o, place, v);
  drop(&object);
  printf("  } else {\n");
  printf("  const int r = aot_put_field(ctx, &sf, self, %u, %s, %s, &aot_places[%d]);\n",
         i->at, o, v, place);
  note(i->at, "aot_slot_seen(aot_seen[%d], %s, &aot_places[%d])", now.first_seen + (int)i->at, o,
       place);
  drop_aside(&object);
  printf("  if (unlikely(r < 0)) ");
  write_failure();
  printf("  }\n");
  forget_shapes();
}

/* Arrays of numbers, the most frequent first: class, member, how an element is read, which values
 * are stored, and as what. */
static const struct {
  const char *class, *member, *read, *takes, *stores;
} arrays[] = {
    {"UINT8_", "uint8_ptr", "aot_of_int(%s)", "aot_is_int", "(uint8_t)INT"},
    {"INT32_", "int32_ptr", "aot_of_int(%s)", "aot_is_word", "(int32_t)aot_word"},
    {"FLOAT64_", "double_ptr", "__JS_NewFloat64(ctx, %s)", "aot_is_number", "aot_number"},
    {"UINT32_", "uint32_ptr", "aot_of_uint32(%s)", "aot_is_word", "aot_word"},
    {"INT16_", "int16_ptr", "aot_of_int(%s)", "aot_is_int", "(int16_t)INT"},
    {"UINT16_", "uint16_ptr", "aot_of_int(%s)", "aot_is_int", "(uint16_t)INT"},
};
#define ARRAYS ((int)(sizeof arrays / sizeof *arrays))

/* The only class that was seen: its number, that of arrays of values being ARRAYS; or -1. */
static int class_seen(const struct instruction *i) {
  unsigned seen = seen_at(i->at) % SEEN_SLOT / SEEN_CLASS;
  return seen != 0 && (seen & (seen - 1)) == 0 ? __builtin_ctz(seen) : -1;
}

static void begin_element(const struct instruction *i, const char *object, const char *index) {
  const struct fact *fact = fact_of(object);
  int class = class_seen(i);
  uint32_t way = way_to_leave(i);
  bool is_known = fact != NULL && class >= 0 && fact->class == class;
  if (!is_known) printf("  if (unlikely(!JS_IsObject(%s))) goto X%u;\n", object, way);
  if (class >= 0 && !is_known) {
    printf("  if (unlikely(JS_VALUE_GET_OBJ(%s)->class_id != JS_CLASS_%sARRAY)) goto X%u;\n",
           object, class < ARRAYS ? arrays[class].class : "", way);
    learn(object, -1, class);
  }
  printf("  if (unlikely(!aot_has_element(%s, %s))) goto X%u;\n  {\n", object, index, way);
  printf("  const JSObject *p = JS_VALUE_GET_OBJ(%s);\n  const int at = INT(%s);\n", object,
         index);
  for (int k = 0; k < ARRAYS; k++) {
    note(i->at, "p->class_id == JS_CLASS_%sARRAY ? %d : 0", arrays[k].class, SEEN_CLASS << k);
  }
  note(i->at, "p->class_id == JS_CLASS_ARRAY ? %d : 0", SEEN_CLASS << ARRAYS);
}

static void write_element_read(int k, int t) {
  char element[48];
  printf("  t%d = ", t);
  snprintf(element, sizeof element, "p->u.array.u.%s[at]",
           k < ARRAYS ? arrays[k].member : "values");
  printf(k < ARRAYS ? arrays[k].read : "JS_DupValue(ctx, %s)", element);
  printf(";\n");
}

static void write_get_element(const struct instruction *i, bool keeps) {
  struct entry index = pop(), object = *top(0);
  int t = temporary(), class = class_seen(i);
  printf("  JSValue t%d;\n", t);
  begin_element(i, value_of(&object), value_of(&index));
  if (class >= 0) {
    write_element_read(class, t);
  } else {
    for (int k = 0; k <= ARRAYS; k++) {
      printf("  if (p->class_id == JS_CLASS_%sARRAY)", k < ARRAYS ? arrays[k].class : "");
      write_element_read(k, t);
      printf("  else");
    }
    printf(" goto X%u;\n", i->at);
  }
  printf("  }\n");
  if (!keeps) consume(1);
  if (class >= 0 && class < ARRAYS) push_plain(t);
  else push_owned(t);
}

/* Whether an element of that class can be stored at once, as a number in C. */
static bool is_double_of(int class, const struct entry *e) {
  return class < ARRAYS && strcmp(arrays[class].member, "double_ptr") == 0 &&
         (e->kind == NUMBER || e->kind == INTEGER);
}

static void write_element_store(int k, const char *value, const char *own) {
  if (k < ARRAYS) {
    printf("p->u.array.u.%s[at] = %s(%s);\n", arrays[k].member, arrays[k].stores, value);
  } else {
    printf("aot_store(ctx, &p->u.array.u.values[at], %s);\n", own);
  }
}

static void write_put_element(const struct instruction *i) {
  keep_held_below(3);
  struct entry value = pop(), index = pop(), object = pop();
  const char *v = value_of(&value), *own = own_of(&value);
  int class = class_seen(i);
  begin_element(i, value_of(&object), value_of(&index));
  if (class >= 0 && is_double_of(class, &value)) {
    printf("  p->u.array.u.double_ptr[at] = %s;\n", value.text);
  } else if (class >= 0) {
    if (class < ARRAYS) printf("  if (unlikely(!%s(%s))) goto X%u;\n  ", arrays[class].takes, v,
                               i->at);
    write_element_store(class, v, own);
  } else {
    for (int k = 0; k <= ARRAYS; k++) {
      printf("  if (p->class_id == JS_CLASS_%sARRAY", k < ARRAYS ? arrays[k].class : "");
      if (k < ARRAYS) printf(" && %s(%s)", arrays[k].takes, v);
      printf(") ");
      write_element_store(k, v, own);
      printf("  else");
    }
    printf(" goto X%u;\n", i->at);
  }
  printf("  }\n");
  drop(&object);
}

static bool write_object_operation(const struct instruction *i) {
  switch (i->opcode) {
    case OP_get_field:
    case OP_get_length: write_get_field(i, false); return true;
    case OP_get_field2: write_get_field(i, true); return true;
    case OP_put_field: write_put_field(i); return true;
    case OP_get_array_el: write_get_element(i, false); return true;
    case OP_get_array_el2: write_get_element(i, true); return true;
    case OP_put_array_el: write_put_element(i); return true;
    case OP_to_propkey2:
      printf("  if (unlikely(!aot_is_int(%s) || !JS_IsObject(%s))) goto X%u;\n", value_of(top(0)),
             value_of(top(1)), way_to_leave(i));
      return true;
    case OP_to_object:
      printf("  if (unlikely(!JS_IsObject(%s))) goto X%u;\n", value_of(top(0)), way_to_leave(i));
      return true;
    default: return false;
  }
}

/* What every place wants, where all have been written. */
static void write_places(void) {
  printf("\nstatic const struct aot_want aot_wants[] = {\n");
  for (int k = 0; k < place_count; k++) {
    for (int w = 0; w < places[k].count; w++) {
      printf("  {%u, %u},\n", places[k].wants[w].offset, places[k].wants[w].slot);
    }
  }
  printf("  {0, 0},\n};\nstatic struct aot_place aot_places[] = {\n");
  for (int k = 0, first = 0; k < place_count; first += places[k++].count) {
    printf("  {NULL, 0, 0, &aot_wants[%d], %d},\n", first, places[k].count);
  }
  printf("  {NULL, 0, 0, NULL, 0},\n};\n");
}

#endif
