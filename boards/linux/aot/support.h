/*
 * What the translated functions are made of: the plain ways of the engine's operations, in place,
 * and what is called for properties and elements that are not where they were the last time.
 *
 * Invariants:
 * - What is done here is what the interpreter does. Everything else goes on there: `aot_resume`.
 * - Values that are passed are borrowed: whoever calls keeps its references, and a result has one
 *   of its own. A value to be stored is taken, as the engine does.
 * - A place that remembers where a property lies holds a reference to the shape it saw. A shape
 *   that somebody else holds too is never changed in place, so what was remembered stays true; and
 *   none is freed and made again at the same address.
 * - Before anything can throw, the frame says at which operation it is: the text of an error names
 *   the same lines as the interpreter's.
 */
#ifndef AOT_SUPPORT_H
#define AOT_SUPPORT_H

#include <stdbool.h>

#include "seen.h"

/* Of all 64 bits, as it was made: see `aot_of_int`. */
#define INT(value) ((int32_t)(value).u.short_big_int)
#define ALWAYS static inline __attribute__((always_inline))
#define ASIDE static __attribute__((noinline, cold))

/* That the operation at an offset finds its property in that slot. */
struct aot_want {
  uint32_t offset, slot;
};

/* Where the property of a shape lies; a place of the program that reads or writes it has one. Or
 * nothing but the shape, in which all that is wanted is so. */
struct aot_place {
  JSShape *shape;
  uint32_t slot;
  uint32_t changes;
  const struct aot_want *wants;
  uint32_t count;
};

/* If objects of so many shapes come by, what was remembered is worth nothing: from then on only one
 * in so many that are of another shape is. */
#define CHANGES_MAX 64
#define CHANGES_STEP 4096

/*
 * How a function runs that was watched: as it was seen to run, or as it was written for anything.
 *
 * `left` calls remain of its turn. If `leaves` reaches AOT_LEAVES_MAX before, it meets what was not
 * seen of it: it rests, which is to run as it was written for anything, for AOT_REST_CALLS calls,
 * and is then tried for a sixteenth of a turn. So strange frames slow it down only while they come,
 * and what stays strange costs a try now and then. Leaves of earlier turns count half as much with
 * each turn: one that leaves in less than one of sixteen calls never rests.
 */
struct aot_habit {
  int32_t left; /* below 0: it rests, since so many calls */
  uint32_t leaves;
};

#ifndef AOT_LEAVES_MAX
#define AOT_LEAVES_MAX 1024
#endif
#ifndef AOT_REST_CALLS
#define AOT_REST_CALLS 65536
#endif
#define AOT_TURN_CALLS (8 * AOT_LEAVES_MAX)
#define AOT_TRIAL(of) ((of) / 16 + 1)

/* How often a function went on in the interpreter. */
static uint64_t aot_resume_count;
/* How many calls met a function that rests. */
static uint64_t aot_rest_count;

/* A function's turn is over, or it rests already: whether it rests now. */
static no_inline bool aot_rests(struct aot_habit *habit) {
  const bool strays = habit->leaves >= AOT_LEAVES_MAX;
  if (strays && habit->left >= -AOT_REST_CALLS) {
    aot_rest_count++;
    return true;
  }
  habit->leaves = strays ? AOT_LEAVES_MAX - AOT_TRIAL(AOT_LEAVES_MAX) : habit->leaves / 2;
  habit->left = strays ? AOT_TRIAL(AOT_TURN_CALLS) : AOT_TURN_CALLS;
  return false;
}

/* It goes on in the interpreter. Calls of before its rest may, too, while it rests. */
static void aot_left(struct aot_habit *habit) {
  if (++habit->leaves >= AOT_LEAVES_MAX && habit->left > 0) habit->left = 0;
}

/* An argument comes as its two words: a structure would be copied from the stack to the stack. */
#define AOT_PART(name) int64_t name##_word, int64_t name##_tag
#define AOT_PARTS(value) (value).u.short_big_int, (value).tag
#define AOT_WHOLE(name) ((JSValue){(JSValueUnion){.short_big_int = name##_word}, name##_tag})

/* The variable of a closure. */
#define AOT_VAR(index) (*self->u.func.var_refs[index]->pvalue)

ALWAYS const uint8_t *aot_code(const JSObject *self) {
  return self->u.func.function_bytecode->byte_code_buf;
}

/* ---- Frames ---- */

ALWAYS void aot_enter_frame(JSRuntime *rt, JSStackFrame *sf, JSObject *self) {
  sf->prev_frame = rt->current_stack_frame;
  sf->cur_func = JS_MKPTR(JS_TAG_OBJECT, self);
  sf->js_mode = JS_MODE_STRICT;
  rt->current_stack_frame = sf;
}

/*
 * Enters the frame of a function that calls something, as the engine does at every call. One that
 * calls nothing needs none: it goes neither deeper nor on forever, but in its loops, which poll.
 * True if something was thrown.
 */
ALWAYS bool aot_enter(JSContext *ctx, JSStackFrame *sf, JSObject *self) {
  if (unlikely(js_poll_interrupts(ctx))) return true;
  /* Asked as the engine does, the CPU would lose a register to the frame's address. */
  if (unlikely((uintptr_t)sf < ctx->rt->stack_limit)) {
    JS_ThrowStackOverflow(ctx);
    return true;
  }
  aot_enter_frame(ctx->rt, sf, self);
  return false;
}

/* The same before its first call, where that is seldom. */
ALWAYS bool aot_link(JSContext *ctx, JSStackFrame *sf, JSObject *self) {
  return ctx->rt->current_stack_frame != sf && aot_enter(ctx, sf, self);
}

ALWAYS void aot_unlink(JSContext *ctx, const JSStackFrame *sf) {
  if (ctx->rt->current_stack_frame == sf) ctx->rt->current_stack_frame = sf->prev_frame;
}

/* The same where the frame was entered for certain. */
ALWAYS void aot_leave_frame(JSContext *ctx, const JSStackFrame *sf) {
  ctx->rt->current_stack_frame = sf->prev_frame;
}

/* What stands before that offset is about to happen: found in the code only if it is looked for. */
ALWAYS void aot_at(JSStackFrame *sf, uint32_t offset) {
  sf->cur_pc = (const uint8_t *)(uintptr_t)offset;
}

/* What the interpreter does with an error on its way out of a function. */
ASIDE void aot_failed(JSContext *ctx) {
  if (is_backtrace_needed(ctx, ctx->rt->current_exception)) {
    build_backtrace(ctx, ctx->rt->current_exception, NULL, 0, 0, 0);
  }
}

/* The operation at an offset may throw: the frame of its function, `own` if that is none yet. */
static const uint8_t *aot_begin(JSContext *ctx, JSStackFrame *own, JSStackFrame *sf,
                                JSObject *self, uint32_t offset) {
  if (ctx->rt->current_stack_frame != sf) {
    aot_enter_frame(ctx->rt, own, self);
    sf = own;
  }
  sf->cur_pc = aot_code(self) + offset + 1;
  return sf->cur_pc;
}

static void aot_end(JSContext *ctx, const JSStackFrame *own, bool has_thrown) {
  if (ctx->rt->current_stack_frame != own) return;
  if (has_thrown) aot_failed(ctx);
  ctx->rt->current_stack_frame = own->prev_frame;
}

/*
 * Goes on with the operation at `offset` in the interpreter, which returns when the function does.
 * `frame` has its arguments, its variables and `depth` values of its stack, and gives them up.
 */
ASIDE JSValue aot_resume(JSContext *ctx, JSObject *self, JSValueConst this_val, JSValue *frame,
                         int depth, uint32_t offset) {
  const JSFunctionBytecode *b = self->u.func.function_bytecode;
  JSAsyncFunctionState state = {.argc = b->arg_count};
  JSStackFrame *sf = &state.frame;
  init_list_head(&sf->var_ref_list);
  sf->js_mode = b->js_mode;
  sf->cur_func = JS_MKPTR(JS_TAG_OBJECT, self);
  sf->arg_buf = frame;
  sf->arg_count = b->arg_count;
  sf->var_buf = frame + b->arg_count;
  sf->cur_sp = sf->var_buf + b->var_count + depth;
  sf->cur_pc = b->byte_code_buf + offset;
  aot_resume_count++;
  JSValue result = JS_EXCEPTION;
  if (unlikely(js_check_stack_overflow(ctx->rt, 0))) {
    JS_ThrowStackOverflow(ctx);
  } else {
    /* As the engine resumes a generator: what is called is no object but the frame. */
    result = JS_CallInternal(ctx, JS_MKPTR(JS_TAG_INT, &state), this_val, JS_UNDEFINED,
                             b->arg_count, frame, JS_CALL_FLAG_GENERATOR);
  }
  /* It never began: the stack is at its end, or the firmware was interrupted. */
  for (; unlikely(sf->cur_sp != NULL && sf->cur_sp > frame);) JS_FreeValue(ctx, *--sf->cur_sp);
  return result;
}

ASIDE void aot_drop(JSContext *ctx, JSValue value) { JS_FreeValue(ctx, value); }

ALWAYS void aot_store(JSContext *ctx, JSValue *to, JSValue value) {
  JSValue old = *to;
  *to = value;
  JS_FreeValue(ctx, old);
}

static no_inline void aot_replace(JSContext *ctx, JSValue *to, JSValue value) {
  aot_store(ctx, to, value);
}

/* The same of a value without references, mostly in the place of another such one. */
ALWAYS void aot_store_plain(JSContext *ctx, JSValue *to, JSValue value) {
  if (unlikely(JS_VALUE_HAS_REF_COUNT(*to))) aot_replace(ctx, to, value);
  else *to = value;
}

/* ---- Numbers ---- */

ALWAYS bool aot_is_int(JSValueConst value) { return JS_VALUE_GET_TAG(value) == JS_TAG_INT; }

ALWAYS bool aot_is_number(JSValueConst value) {
  return aot_is_int(value) || JS_TAG_IS_FLOAT64(JS_VALUE_GET_TAG(value));
}

ALWAYS bool aot_are_numbers(JSValueConst a, JSValueConst b) {
  return aot_is_number(a) && aot_is_number(b);
}

ALWAYS double aot_number(JSValueConst value) {
  return aot_is_int(value) ? JS_VALUE_GET_INT(value) : JS_VALUE_GET_FLOAT64(value);
}

static no_inline JSValue aot_remainder(JSValueConst a, JSValueConst b) {
  return JS_NewFloat64(NULL, fmod(aot_number(a), aot_number(b)));
}

static no_inline JSValue aot_power(JSValueConst a, JSValueConst b) {
  return JS_NewFloat64(NULL, js_pow(aot_number(a), aot_number(b)));
}

/* All 64 bits are defined: what is beside a number of 32 would have to be kept otherwise. */
ALWAYS JSValue aot_of_int(int32_t number) {
  return (JSValue){(JSValueUnion){.short_big_int = (uint32_t)number}, JS_TAG_INT};
}

ALWAYS JSValue aot_of_bool(bool truth) {
  return (JSValue){(JSValueUnion){.short_big_int = truth}, JS_TAG_BOOL};
}

ALWAYS JSValue aot_of_uint32(uint32_t number) {
  if (unlikely(number > INT32_MAX)) return __JS_NewFloat64(NULL, number);
  return aot_of_int((int32_t)number);
}

static no_inline JSValue aot_sum(JSValueConst a, JSValueConst b) {
  return JS_NewFloat64(NULL, aot_number(a) + aot_number(b));
}

static no_inline JSValue aot_difference(JSValueConst a, JSValueConst b) {
  return JS_NewFloat64(NULL, aot_number(a) - aot_number(b));
}

static no_inline JSValue aot_product(JSValueConst a, JSValueConst b) {
  return JS_NewFloat64(NULL, aot_number(a) * aot_number(b));
}

static no_inline JSValue aot_quotient(JSValueConst a, JSValueConst b) {
  return JS_NewFloat64(NULL, aot_number(a) / aot_number(b));
}

/* Is it an integer, or a number from 0 to 2^32 that is not? */
ALWAYS bool aot_is_word(JSValueConst value) {
  if (aot_is_int(value)) return true;
  if (!JS_TAG_IS_FLOAT64(JS_VALUE_GET_TAG(value))) return false;
  double wide = JS_VALUE_GET_FLOAT64(value);
  return wide >= 0 && wide < 4294967296.0;
}

/* Its 32 bits. */
ALWAYS uint32_t aot_word(JSValueConst value) {
  if (aot_is_int(value)) return (uint32_t)JS_VALUE_GET_INT(value);
  return (uint32_t)JS_VALUE_GET_FLOAT64(value);
}

static no_inline bool aot_are_words(JSValueConst a, JSValueConst b, uint32_t *p, uint32_t *q) {
  if (!aot_is_word(a) || !aot_is_word(b)) return false;
  *p = aot_word(a);
  *q = aot_word(b);
  return true;
}

/* -1, 0 or 1: how a is to b; 2 if one of them is NaN, 3 if one is no number. */
static no_inline int aot_order(JSValueConst a, JSValueConst b) {
  if (!aot_are_numbers(a, b)) return 3;
  double x = aot_number(a), y = aot_number(b);
  return x < y ? -1 : x == y ? 0 : x > y ? 1 : 2;
}

/* ---- Truth ---- */

/* Is a number true? NaN is not. */
ALWAYS bool aot_is_not_0(double number) { return number < 0 || number > 0; }

/* Is it an integer, a boolean, null or undefined? Those are false where their number is 0. */
ALWAYS bool aot_is_small(JSValueConst value) {
  return (uint32_t)JS_VALUE_GET_TAG(value) <= JS_TAG_UNDEFINED;
}

/* Is it an object like most? */
ALWAYS bool aot_is_true(JSValueConst value) {
  return JS_IsObject(value) && !JS_VALUE_GET_OBJ(value)->is_HTMLDDA;
}

static no_inline bool aot_same_other(JSContext *ctx, JSValueConst a, JSValueConst b) {
  return js_strict_eq2(ctx, JS_DupValue(ctx, a), JS_DupValue(ctx, b), JS_EQ_STRICT);
}

/* Names are one string each. */
ALWAYS bool aot_same_string(JSContext *ctx, JSValueConst a, JSValueConst b) {
  const JSString *x = JS_VALUE_GET_STRING(a), *y = JS_VALUE_GET_STRING(b);
  if (x == y) return true;
  if (x->atom_type == JS_ATOM_TYPE_STRING && y->atom_type == JS_ATOM_TYPE_STRING) return false;
  return aot_same_other(ctx, a, b);
}

/* `a === b`. */
ALWAYS bool aot_same(JSContext *ctx, JSValueConst a, JSValueConst b) {
  int x = JS_VALUE_GET_TAG(a), y = JS_VALUE_GET_TAG(b);
  if (x == JS_TAG_STRING && y == JS_TAG_STRING) return aot_same_string(ctx, a, b);
  if (x == y && (uint32_t)x <= JS_TAG_UNDEFINED) return JS_VALUE_GET_INT(a) == JS_VALUE_GET_INT(b);
  if (x == JS_TAG_OBJECT && y == JS_TAG_OBJECT) return JS_VALUE_GET_PTR(a) == JS_VALUE_GET_PTR(b);
  return aot_same_other(ctx, a, b);
}

/* ---- Objects ---- */

static void aot_remember(JSContext *ctx, struct aot_place *place, JSValueConst object, JSAtom name,
                         int mask, int wanted) {
  if (!JS_IsObject(object)) return;
  if (place->changes >= CHANGES_MAX && ++place->changes % CHANGES_STEP != 0) return;
  JSObject *p = JS_VALUE_GET_OBJ(object);
  JSProperty *property;
  JSShapeProperty *found = find_own_property(&property, p, name);
  if (!found || (found->flags & mask) != wanted || !p->shape->is_hashed) return;
  place->changes++;
  js_free_shape_null(ctx->rt, place->shape);
  place->shape = js_dup_shape(p->shape);
  place->slot = (uint32_t)(property - p->prop);
}

/* Is it an object of the shape that the place has seen? */
ALWAYS bool aot_is_at(JSValueConst object, const struct aot_place *place) {
  return likely(JS_IsObject(object)) && likely(JS_VALUE_GET_OBJ(object)->shape == place->shape);
}

/* The property there. */
ALWAYS JSValue *aot_property(JSValueConst object, const struct aot_place *place) {
  return &JS_VALUE_GET_OBJ(object)->prop[place->slot].u.value;
}

/* Has it the shape that the place has seen? */
ALWAYS bool aot_has_shape(JSValueConst object, const struct aot_place *place) {
  return likely(JS_VALUE_GET_OBJ(object)->shape == place->shape);
}

ALWAYS JSValue *aot_slot(JSValueConst object, uint32_t slot) {
  return &JS_VALUE_GET_OBJ(object)->prop[slot].u.value;
}

/* Remembers the object's shape if all that is wanted is so of that. False if not. */
ASIDE bool aot_find(JSContext *ctx, const JSObject *self, JSValueConst object,
                    struct aot_place *place) {
  JSObject *p = JS_VALUE_GET_OBJ(object);
  if (!p->shape->is_hashed) return false;
  for (uint32_t k = 0; k < place->count; k++) {
    const uint8_t *code = aot_code(self) + place->wants[k].offset;
    JSAtom name = *code == OP_get_length ? JS_ATOM_length : get_u32(code + 1);
    int mask = JS_PROP_TMASK, wanted = JS_PROP_NORMAL;
    if (*code == OP_put_field) {
      mask |= JS_PROP_WRITABLE | JS_PROP_LENGTH;
      wanted = JS_PROP_WRITABLE;
    }
    JSProperty *property;
    JSShapeProperty *found = find_own_property(&property, p, name);
    if (!found || (found->flags & mask) != wanted) return false;
    if ((uint32_t)(property - p->prop) != place->wants[k].slot) return false;
  }
  js_free_shape_null(ctx->rt, place->shape);
  place->shape = js_dup_shape(p->shape);
  return true;
}

ASIDE JSValue aot_get_field(JSContext *ctx, JSStackFrame *sf, JSObject *self, uint32_t offset,
                            JSValueConst object, struct aot_place *place) {
  JSStackFrame own;
  const uint8_t *operand = aot_begin(ctx, &own, sf, self, offset);
  JSAtom name = operand[-1] == OP_get_length ? JS_ATOM_length : get_u32(operand);
  aot_remember(ctx, place, object, name, JS_PROP_TMASK, JS_PROP_NORMAL);
  JSValue value = JS_GetProperty(ctx, object, name);
  aot_end(ctx, &own, JS_IsException(value));
  return value;
}

ASIDE int aot_put_field(JSContext *ctx, JSStackFrame *sf, JSObject *self, uint32_t offset,
                        JSValueConst object, JSValue value, struct aot_place *place) {
  JSStackFrame own;
  JSAtom name = get_u32(aot_begin(ctx, &own, sf, self, offset));
  aot_remember(ctx, place, object, name, JS_PROP_TMASK | JS_PROP_WRITABLE | JS_PROP_LENGTH,
               JS_PROP_WRITABLE);
  int done = JS_SetPropertyInternal(ctx, object, name, value, object, JS_PROP_THROW_STRICT);
  aot_end(ctx, &own, done < 0);
  return done;
}

/*
 * Has it an element of that index, if it is an array? Of other objects what is read as the count is
 * something else; an array whose elements are not in one place, or one without its buffer, has 0.
 */
ALWAYS bool aot_has_element(JSValueConst object, JSValueConst index) {
  if (unlikely(!JS_IsObject(object) || !aot_is_int(index))) return false;
  return likely((uint32_t)JS_VALUE_GET_INT(index) < JS_VALUE_GET_OBJ(object)->u.array.count);
}

/* ---- Constants ---- */

static JSValue aot_constant(JSContext *ctx, JSStackFrame *sf, const JSObject *self,
                            uint32_t index) {
  (void)sf;
  return JS_DupValue(ctx, self->u.func.function_bytecode->cpool[index]);
}

/* The string that the name of the operation at `offset` is, borrowed of the function. */
ALWAYS JSValue aot_string(JSContext *ctx, const JSObject *self, uint32_t offset) {
  JSAtom name = get_u32(aot_code(self) + offset + 1);
  return JS_MKPTR(JS_TAG_STRING, ctx->rt->atom_array[name]);
}

static JSValue aot_name(JSContext *ctx, JSStackFrame *sf, const JSObject *self, uint32_t offset) {
  (void)sf;
  return JS_AtomToValue(ctx, get_u32(aot_code(self) + offset + 1));
}

ASIDE JSValue aot_global(JSContext *ctx, JSStackFrame *sf, JSObject *self, uint32_t offset) {
  JSStackFrame own;
  JSAtom name = get_u32(aot_begin(ctx, &own, sf, self, offset));
  JSValue value = JS_GetGlobalVar(ctx, name, true);
  aot_end(ctx, &own, JS_IsException(value));
  return value;
}

/* ---- What is seen ---- */

/* The kind of a value. */
static inline unsigned aot_kind_seen(JSValueConst value) {
  int tag = JS_VALUE_GET_TAG(value);
  if (tag == JS_TAG_INT) return SEEN_INT;
  if (tag == JS_TAG_BOOL) return SEEN_BOOL;
  if (tag == JS_TAG_OBJECT) return SEEN_OBJECT;
  return JS_TAG_IS_FLOAT64(tag) ? SEEN_FLOAT : SEEN_OTHER;
}

/* If objects of more shapes come by, properties are looked up aside, not left for. */
#define SHAPES_MAX 8

/* Where it was found, if that is where it was before. */
static inline uint32_t aot_slot_seen(uint32_t seen, JSValueConst object,
                                     const struct aot_place *place) {
  if (!aot_is_at(object, place) || place->changes > SHAPES_MAX) return SEEN_ASIDE;
  uint32_t slot = (place->slot + 1) * SEEN_SLOT;
  return seen >= SEEN_SLOT && seen / SEEN_SLOT * SEEN_SLOT != slot ? SEEN_ASIDE : slot;
}

#endif
