/* Elements of arrays. */
#include <stdio.h>
#include <string.h>

#include "body/notes.h"
#include "body/ways.h"
#include "operations/operations.h"
#include "program/opcodes.h"

/* Arrays of numbers, the most frequent first: class, member, how an element is read, which values
 * are stored, and as what. */
static const struct {
  const char *class, *member, *read, *takes, *stores;
} arrays[] = {
    {"UINT8_", "uint8_ptr", "aot_of_int(%s)", "aot_is_word", "(uint8_t)aot_word"},
    {"INT32_", "int32_ptr", "aot_of_int(%s)", "aot_is_word", "(int32_t)aot_word"},
    {"FLOAT64_", "double_ptr", "__JS_NewFloat64(ctx, %s)", "aot_is_number", "aot_number"},
    {"UINT32_", "uint32_ptr", "aot_of_uint32(%s)", "aot_is_word", "aot_word"},
    {"INT16_", "int16_ptr", "aot_of_int(%s)", "aot_is_word", "(int16_t)aot_word"},
    {"UINT16_", "uint16_ptr", "aot_of_int(%s)", "aot_is_word", "(uint16_t)aot_word"},
};
#define ARRAYS ((int)(sizeof arrays / sizeof *arrays))

/* The only class that was seen: its number, that of arrays of values being ARRAYS; or -1. */
static int class_seen(const struct body *body, const struct instruction *i) {
  unsigned seen = seen_at(body, i->at) % SEEN_SLOT / SEEN_CLASS;
  return seen != 0 && (seen & (seen - 1)) == 0 ? __builtin_ctz(seen) : -1;
}

static void begin_element(struct body *body, const struct instruction *i, const char *object,
                          const char *index) {
  const struct fact *fact = fact_of(&body->facts, object);
  int class = class_seen(body, i);
  uint32_t way = way_to_leave(body, i);
  bool is_known = fact != NULL && class >= 0 && fact->class == class;
  if (!is_known) printf("  if (unlikely(!JS_IsObject(%s))) goto X%u;\n", object, way);
  if (class >= 0 && !is_known) {
    printf("  if (unlikely(JS_VALUE_GET_OBJ(%s)->class_id != JS_CLASS_%sARRAY)) goto X%u;\n",
           object, class < ARRAYS ? arrays[class].class : "", way);
    learn(&body->facts, object, -1, class);
  }
  printf("  if (unlikely(!aot_has_element(%s, %s))) goto X%u;\n  {\n", object, index, way);
  printf("  const JSObject *p = JS_VALUE_GET_OBJ(%s);\n  const int at = INT(%s);\n", object,
         index);
  for (int k = 0; k < ARRAYS; k++) {
    note(body, i->at, "p->class_id == JS_CLASS_%sARRAY ? %d : 0", arrays[k].class, SEEN_CLASS << k);
  }
  note(body, i->at, "p->class_id == JS_CLASS_ARRAY ? %d : 0", SEEN_CLASS << ARRAYS);
}

static void write_element_read(int k, int t) {
  char element[48];
  printf("  t%d = ", t);
  snprintf(element, sizeof element, "p->u.array.u.%s[at]",
           k < ARRAYS ? arrays[k].member : "values");
  printf(k < ARRAYS ? arrays[k].read : "JS_DupValue(ctx, %s)", element);
  printf(";\n");
}

static void write_get_element(struct body *body, const struct instruction *i, bool keeps) {
  struct entry index = pop(body), object = *top(body, 0);
  int t = temporary(body), class = class_seen(body, i);
  printf("  JSValue t%d;\n", t);
  begin_element(body, i, value_of(&object).text, value_of(&index).text);
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
  if (!keeps) consume(body, 1);
  if (class >= 0 && class < ARRAYS) push_plain(body, t);
  else push_owned(body, t);
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

static void write_put_element(struct body *body, const struct instruction *i) {
  keep_held_below(body, 3);
  struct entry value = pop(body), index = pop(body), object = pop(body);
  const struct expression v = value_of(&value), own = own_of(&value);
  int class = class_seen(body, i);
  begin_element(body, i, value_of(&object).text, value_of(&index).text);
  if (class >= 0 && is_double_of(class, &value)) {
    printf("  p->u.array.u.double_ptr[at] = %s;\n", value.text);
  } else if (class >= 0) {
    const char *takes = class < ARRAYS ? arrays[class].takes : NULL;
    if (takes != NULL) printf("  if (unlikely(!%s(%s))) goto X%u;\n  ", takes, v.text, i->at);
    write_element_store(class, v.text, own.text);
  } else {
    for (int k = 0; k <= ARRAYS; k++) {
      printf("  if (p->class_id == JS_CLASS_%sARRAY", k < ARRAYS ? arrays[k].class : "");
      if (k < ARRAYS) printf(" && %s(%s)", arrays[k].takes, v.text);
      printf(") ");
      write_element_store(k, v.text, own.text);
      printf("  else");
    }
    printf(" goto X%u;\n", i->at);
  }
  printf("  }\n");
  drop(body, &object);
}

bool write_element(struct body *body, const struct instruction *i) {
  switch (i->opcode) {
    case OP_get_array_el: write_get_element(body, i, false); return true;
    case OP_get_array_el2: write_get_element(body, i, true); return true;
    case OP_put_array_el: write_put_element(body, i); return true;
    case OP_to_propkey2:
      printf("  if (unlikely(!aot_is_int(%s) || !JS_IsObject(%s))) goto X%u;\n",
             value_of(top(body, 0)).text, value_of(top(body, 1)).text, way_to_leave(body, i));
      return true;
    case OP_to_object:
      printf("  if (unlikely(!JS_IsObject(%s))) goto X%u;\n", value_of(top(body, 0)).text,
             way_to_leave(body, i));
      return true;
    default: return false;
  }
}
