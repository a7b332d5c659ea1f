/*
 * What the translated firmware is made of: the quick ways of the engine's operations, in place, and
 * the calls of the engine for everything else.
 *
 * What always holds:
 * - An operation here does what the interpreter's does, in its order: what the quick way does not
 *   know (another type, an overflow, another shape) goes to the very function of the engine that
 *   the interpreter calls. Nothing of the language is written a second time.
 * - Values that are passed here are borrowed: whoever calls keeps its references, and a result has
 *   one of its own.
 * - A place that remembers where a property lies holds a reference to the shape it saw. A shape
 *   that somebody else holds too is never changed in place, so what was remembered stays true; and
 *   none is freed and made anew at the same address.
 * - Before anything can throw, the frame says at which operation it is: the text of an error names
 *   the same lines as the interpreter's.
 */
#ifndef AOT_SUPPORT_H
#define AOT_SUPPORT_H

#include <stdbool.h>

/* Where the property of a shape lies; a place of the program that reads or writes it has one. */
struct aot_place {
  JSShape *shape;
  uint32_t slot;
  uint32_t misses;
};

/* Objects of so many shapes come by: what was remembered is then worth nothing. */
#define AOT_MISSES 64

static inline int AOT_TAG(JSValueConst value) { return JS_VALUE_GET_TAG(value); }
static inline int32_t AOT_INT(JSValueConst value) { return JS_VALUE_GET_INT(value); }
static inline bool AOT_IS_INT(JSValueConst value) { return AOT_TAG(value) == JS_TAG_INT; }
static inline bool AOT_BOTH_INT(JSValueConst a, JSValueConst b) {
  return JS_VALUE_IS_BOTH_INT(a, b);
}

/* All 64 bits are defined: what is beside a number of 32 would have to be kept otherwise. */
static inline JSValue AOT_OF_INT(int32_t number) {
  return (JSValue){(JSValueUnion){.short_big_int = (uint32_t)number}, JS_TAG_INT};
}
static inline JSValue AOT_OF_BOOL(bool truth) {
  return (JSValue){(JSValueUnion){.short_big_int = truth}, JS_TAG_BOOL};
}
static inline JSValue aot_of_uint32(uint32_t number) {
  if (unlikely(number > INT32_MAX)) return __JS_NewFloat64(NULL, number);
  return AOT_OF_INT((int32_t)number);
}

#define AOT_ENTER(mode)                                                                            \
  JSRuntime *const rt = ctx->rt;                                                                   \
  if (unlikely(js_poll_interrupts(ctx))) return JS_EXCEPTION;                                      \
  if (js_check_stack_overflow(rt, 0)) return JS_ThrowStackOverflow(ctx);                           \
  const uint8_t *const code = self->u.func.function_bytecode->byte_code_buf;                       \
  JSStackFrame sf;                                                                                 \
  sf.prev_frame = rt->current_stack_frame;                                                         \
  sf.cur_func = JS_MKPTR(JS_TAG_OBJECT, self);                                                     \
  sf.cur_pc = code;                                                                                \
  sf.js_mode = mode;                                                                               \
  rt->current_stack_frame = &sf

#define AOT_LEAVE() rt->current_stack_frame = sf.prev_frame

/* The variable of a closure. */
#define AOT_VAR(index) (*self->u.func.var_refs[index]->pvalue)

#define AOT_DROP(value) JS_FreeValue(ctx, value)

/* The same where it is seldom: by a call. */
static __attribute__((noinline, cold)) void aot_drop(JSContext *ctx, JSValue value) {
  JS_FreeValue(ctx, value);
}

static inline __attribute__((always_inline)) void aot_store(JSContext *ctx, JSValue *to,
                                                             JSValue value) {
  JSValue old = *to;
  *to = value;
  JS_FreeValue(ctx, old);
}

#define AOT_COLD static __attribute__((noinline, cold))

/* The operation at an offset is the one that may throw. Where its operands stand is returned. */
static inline const uint8_t *aot_at(JSStackFrame *sf, uint32_t offset) {
  const JSFunctionBytecode *b = JS_VALUE_GET_OBJ(sf->cur_func)->u.func.function_bytecode;
  sf->cur_pc = b->byte_code_buf + offset + 1;
  return sf->cur_pc;
}

static inline OPCodeEnum aot_opcode(const JSStackFrame *sf) { return sf->cur_pc[-1]; }

/* What the interpreter does with an error on its way out of a function. */
AOT_COLD void aot_failed(JSContext *ctx, JSStackFrame *sf) {
  if (is_backtrace_needed(ctx, ctx->rt->current_exception)) {
    build_backtrace(ctx, ctx->rt->current_exception, NULL, 0, 0, 0);
  }
}

static void aot_remember(JSContext *ctx, struct aot_place *place, JSObject *object, JSAtom name,
                         int mask, int wanted) {
  JSProperty *property;
  JSShapeProperty *found = find_own_property(&property, object, name);
  if (!found || (found->flags & mask) != wanted || !object->shape->is_hashed) return;
  if (place->misses >= AOT_MISSES) return;
  place->misses++;
  js_free_shape_null(ctx->rt, place->shape);
  place->shape = js_dup_shape(object->shape);
  place->slot = (uint32_t)(property - object->prop);
}

AOT_COLD JSValue aot_get_field(JSContext *ctx, JSStackFrame *sf, uint32_t offset,
                                    JSValueConst object, struct aot_place *place) {
  const uint8_t *operand = aot_at(sf, offset);
  JSAtom name = aot_opcode(sf) == OP_get_length ? JS_ATOM_length : get_u32(operand);
  if (AOT_TAG(object) == JS_TAG_OBJECT) {
    aot_remember(ctx, place, JS_VALUE_GET_OBJ(object), name, JS_PROP_TMASK, JS_PROP_NORMAL);
  }
  return JS_GetProperty(ctx, object, name);
}

/* Is it an object of the shape that the place has seen? */
static inline bool aot_is_at(JSValueConst object, const struct aot_place *place) {
  return likely(AOT_TAG(object) == JS_TAG_OBJECT) &&
         likely(JS_VALUE_GET_OBJ(object)->shape == place->shape);
}

/* The property there. */
static inline JSValue *aot_property(JSValueConst object, const struct aot_place *place) {
  return &JS_VALUE_GET_OBJ(object)->prop[place->slot].u.value;
}

/* Takes the value, as the engine does. */
AOT_COLD int aot_put_field(JSContext *ctx, JSStackFrame *sf, uint32_t offset,
                                JSValueConst object, JSValue value, struct aot_place *place) {
  JSAtom name = get_u32(aot_at(sf, offset));
  if (AOT_TAG(object) == JS_TAG_OBJECT) {
    int mask = JS_PROP_TMASK | JS_PROP_WRITABLE | JS_PROP_LENGTH;
    aot_remember(ctx, place, JS_VALUE_GET_OBJ(object), name, mask, JS_PROP_WRITABLE);
  }
  return JS_SetPropertyInternal(ctx, object, name, value, object, JS_PROP_THROW_STRICT);
}

/* May it be an array of numbers with an element of that index? Only those have a count there. */
static inline bool aot_has_element(JSValueConst object, JSValueConst index) {
  if (unlikely(AOT_TAG(object) != JS_TAG_OBJECT || !AOT_IS_INT(index))) return false;
  const JSObject *p = JS_VALUE_GET_OBJ(object);
  return p->fast_array && likely((uint32_t)AOT_INT(index) < p->u.array.count);
}

static inline bool aot_is_number(JSValueConst value) {
  return AOT_IS_INT(value) || JS_TAG_IS_FLOAT64(AOT_TAG(value));
}

static inline double aot_number_of(JSValueConst value) {
  return AOT_IS_INT(value) ? AOT_INT(value) : JS_VALUE_GET_FLOAT64(value);
}

/* Every other element. */
static no_inline JSValue aot_get_el(JSContext *ctx, JSStackFrame *sf, uint32_t offset,
                                    JSValueConst object, JSValueConst index) {
  aot_at(sf, offset);
  return JS_GetPropertyValue(ctx, object, JS_DupValue(ctx, index));
}

static inline bool aot_uint32_of(JSValueConst value, uint32_t *number) {
  if (AOT_IS_INT(value)) {
    *number = (uint32_t)AOT_INT(value);
    return true;
  }
  if (!JS_TAG_IS_FLOAT64(AOT_TAG(value))) return false;
  double wide = JS_VALUE_GET_FLOAT64(value);
  if (!(wide >= 0 && wide < 4294967296.0)) return false;
  *number = (uint32_t)wide;
  return true;
}

/* Every other element. Takes the value, as the engine does. */
static no_inline int aot_put_el(JSContext *ctx, JSStackFrame *sf, uint32_t offset,
                                JSValueConst object, JSValueConst index, JSValue value) {
  if (likely(AOT_TAG(object) == JS_TAG_OBJECT && AOT_IS_INT(index))) {
    const JSObject *p = JS_VALUE_GET_OBJ(object);
    uint32_t at = (uint32_t)AOT_INT(index), number;
    if (likely(p->fast_array && at < p->u.array.count)) {
      if (p->class_id == JS_CLASS_ARRAY) {
        aot_store(ctx, &p->u.array.u.values[at], value);
        return 0;
      }
      if (likely(aot_uint32_of(value, &number))) {
        if (p->class_id == JS_CLASS_UINT32_ARRAY || p->class_id == JS_CLASS_INT32_ARRAY) {
          p->u.array.u.uint32_ptr[at] = number;
          return 0;
        }
        if (p->class_id == JS_CLASS_UINT8_ARRAY) {
          p->u.array.u.uint8_ptr[at] = (uint8_t)number;
          return 0;
        }
      }
    }
  }
  aot_at(sf, offset);
  JSValue key = JS_DupValue(ctx, index);
  return JS_SetPropertyValue(ctx, object, key, value, JS_PROP_THROW_STRICT);
}

static inline bool aot_number(JSValueConst value, double *number) {
  if (!aot_is_number(value)) return false;
  *number = aot_number_of(value);
  return true;
}

/* Sums, differences and the like, where two integers do not do. */
AOT_COLD JSValue aot_arithmetic(JSContext *ctx, JSStackFrame *sf, uint32_t offset, JSValueConst a,
                                JSValueConst b) {
  aot_at(sf, offset);
  OPCodeEnum opcode = aot_opcode(sf);
  double x, y;
  if (aot_number(a, &x) && aot_number(b, &y)) {
    if (opcode == OP_add || opcode == OP_add_loc) return JS_NewFloat64(ctx, x + y);
    if (opcode == OP_sub) return JS_NewFloat64(ctx, x - y);
    if (opcode == OP_mul) return JS_NewFloat64(ctx, x * y);
    if (opcode == OP_div) return JS_NewFloat64(ctx, x / y);
  }
  JSValue operands[2] = {JS_DupValue(ctx, a), JS_DupValue(ctx, b)};
  int failed = opcode == OP_add || opcode == OP_add_loc
                   ? js_add_slow(ctx, operands + 2)
                   : js_binary_arith_slow(ctx, operands + 2, opcode);
  return failed ? JS_EXCEPTION : operands[0];
}

/* Operations on bits, where two integers do not do. */
AOT_COLD JSValue aot_logic(JSContext *ctx, JSStackFrame *sf, uint32_t offset, JSValueConst a,
                           JSValueConst b) {
  aot_at(sf, offset);
  OPCodeEnum opcode = aot_opcode(sf);
  uint32_t x, y;
  if (aot_uint32_of(a, &x) && aot_uint32_of(b, &y)) {
    if (opcode == OP_and) return AOT_OF_INT((int32_t)(x & y));
    if (opcode == OP_or) return AOT_OF_INT((int32_t)(x | y));
    if (opcode == OP_xor) return AOT_OF_INT((int32_t)(x ^ y));
    if (opcode == OP_shl) return AOT_OF_INT((int32_t)(x << (y & 31)));
    if (opcode == OP_sar) return AOT_OF_INT((int32_t)x >> (y & 31));
    if (opcode == OP_shr) return aot_of_uint32(x >> (y & 31));
  }
  JSValue operands[2] = {JS_DupValue(ctx, a), JS_DupValue(ctx, b)};
  int failed = opcode == OP_shr ? js_shr_slow(ctx, operands + 2)
                                : js_binary_logic_slow(ctx, operands + 2, opcode);
  return failed ? JS_EXCEPTION : operands[0];
}

/* One operand: `plus`, `neg`, `inc`, `dec`, `not`. */
AOT_COLD JSValue aot_unary(JSContext *ctx, JSStackFrame *sf, uint32_t offset, OPCodeEnum opcode,
                           JSValueConst a) {
  aot_at(sf, offset);
  JSValue operand = JS_DupValue(ctx, a);
  int failed = opcode == OP_not ? js_not_slow(ctx, &operand + 1)
                                : js_unary_arith_slow(ctx, &operand + 1, opcode);
  return failed ? JS_EXCEPTION : operand;
}

/* 1, 0, or -1 where it threw. */
AOT_COLD int aot_compare(JSContext *ctx, JSStackFrame *sf, uint32_t offset, JSValueConst a,
                         JSValueConst b) {
  aot_at(sf, offset);
  OPCodeEnum opcode = aot_opcode(sf);
  double x, y;
  if (aot_number(a, &x) && aot_number(b, &y)) {
    if (opcode == OP_lt) return x < y;
    if (opcode == OP_lte) return x <= y;
    if (opcode == OP_gt) return x > y;
    if (opcode == OP_gte) return x >= y;
  }
  JSValue operands[2] = {JS_DupValue(ctx, a), JS_DupValue(ctx, b)};
  int failed = opcode == OP_eq || opcode == OP_neq
                   ? js_eq_slow(ctx, operands + 2, opcode == OP_neq)
                   : js_relational_slow(ctx, operands + 2, opcode);
  return failed ? -1 : AOT_INT(operands[0]);
}

AOT_COLD bool aot_same_slow(JSContext *ctx, JSValueConst a, JSValueConst b) {
  return js_strict_eq2(ctx, JS_DupValue(ctx, a), JS_DupValue(ctx, b), JS_EQ_STRICT);
}

/* `a === b`. */
static inline __attribute__((always_inline)) bool aot_same(JSContext *ctx, JSValueConst a,
                                                            JSValueConst b) {
  if (AOT_BOTH_INT(a, b)) return AOT_INT(a) == AOT_INT(b);
  if (AOT_TAG(a) == AOT_TAG(b)) {
    if ((uint32_t)AOT_TAG(a) <= JS_TAG_UNDEFINED) return AOT_INT(a) == AOT_INT(b);
    if (AOT_TAG(a) == JS_TAG_OBJECT) return JS_VALUE_GET_PTR(a) == JS_VALUE_GET_PTR(b);
  }
  return aot_same_slow(ctx, a, b);
}

AOT_COLD bool aot_truth_slow(JSContext *ctx, JSValueConst value) { return JS_ToBool(ctx, value); }

static inline __attribute__((always_inline)) bool aot_truth(JSContext *ctx, JSValueConst value) {
  if (likely((uint32_t)AOT_TAG(value) <= JS_TAG_UNDEFINED)) return AOT_INT(value) != 0;
  return aot_truth_slow(ctx, value);
}

static inline bool aot_is_typeof(JSContext *ctx, JSValueConst value, JSAtom name) {
  return js_operator_typeof(ctx, value) == name;
}

static JSValue aot_typeof(JSContext *ctx, JSValueConst value) {
  return JS_AtomToString(ctx, js_operator_typeof(ctx, value));
}

/* A call of something that may be no translated function. */
static inline JSValue aot_call(JSContext *ctx, JSValueConst function, JSValueConst this_val,
                               int count, JSValue *arguments) {
  return JS_CallInternal(ctx, function, this_val, JS_UNDEFINED, count, arguments,
                         JS_CALL_FLAG_COPY_ARGV);
}

AOT_COLD JSValue aot_new(JSContext *ctx, JSStackFrame *sf, uint32_t offset, JSValueConst function,
                         JSValueConst target, int count, JSValue *arguments) {
  aot_at(sf, offset);
  sf->cur_pc += 2;
  return JS_CallConstructorInternal(ctx, function, target, count, arguments,
                                    JS_CALL_FLAG_COPY_ARGV);
}

/* Takes the value. */
AOT_COLD int aot_define_field(JSContext *ctx, JSStackFrame *sf, uint32_t offset, JSValueConst object,
                              JSValue value) {
  JSAtom name = get_u32(aot_at(sf, offset));
  return JS_DefinePropertyValue(ctx, object, name, value, JS_PROP_C_W_E | JS_PROP_THROW);
}

/* Takes the values. */
AOT_COLD JSValue aot_array(JSContext *ctx, JSStackFrame *sf, uint32_t offset, int count,
                           JSValue *values) {
  aot_at(sf, offset);
  JSValue list = JS_NewArray(ctx);
  for (int i = 0; i < count; i++) {
    if (JS_IsException(list)) {
      JS_FreeValue(ctx, values[i]);
    } else if (JS_DefinePropertyValue(ctx, list, __JS_AtomFromUInt32(i), values[i],
                                      JS_PROP_C_W_E | JS_PROP_THROW) < 0) {
      JS_FreeValue(ctx, list);
      list = JS_EXCEPTION;
    }
  }
  return list;
}

AOT_COLD JSValue aot_get_global(JSContext *ctx, JSStackFrame *sf, uint32_t offset) {
  JSAtom name = get_u32(aot_at(sf, offset));
  return JS_GetGlobalVar(ctx, name, aot_opcode(sf) == OP_get_var);
}

AOT_COLD JSValue aot_constant(JSContext *ctx, const JSStackFrame *sf, uint32_t index) {
  const JSFunctionBytecode *b = JS_VALUE_GET_OBJ(sf->cur_func)->u.func.function_bytecode;
  return JS_DupValue(ctx, b->cpool[index]);
}

AOT_COLD JSValue aot_name(JSContext *ctx, JSStackFrame *sf, uint32_t offset) {
  return JS_AtomToValue(ctx, get_u32(aot_at(sf, offset)));
}

/* Takes the value that is thrown. */
AOT_COLD void aot_throw(JSContext *ctx, JSStackFrame *sf, uint32_t offset, JSValue value) {
  aot_at(sf, offset);
  JS_Throw(ctx, value);
}

/* A variable that is read or written before it has been initialized, or twice. */
AOT_COLD void aot_uninitialized(JSContext *ctx, JSStackFrame *sf, uint32_t offset, uint32_t index,
                                bool is_closure) {
  aot_at(sf, offset);
  JSFunctionBytecode *b = JS_VALUE_GET_OBJ(sf->cur_func)->u.func.function_bytecode;
  JS_ThrowReferenceErrorUninitialized2(ctx, b, (int)index, is_closure);
}

/* `a in b`, `a instanceof b`, `delete a[b]`. */
AOT_COLD JSValue aot_operator(JSContext *ctx, JSStackFrame *sf, uint32_t offset, JSValueConst a,
                              JSValueConst b) {
  aot_at(sf, offset);
  OPCodeEnum opcode = aot_opcode(sf);
  JSValue operands[2] = {JS_DupValue(ctx, a), JS_DupValue(ctx, b)};
  int failed = opcode == OP_in           ? js_operator_in(ctx, operands + 2)
               : opcode == OP_instanceof ? js_operator_instanceof(ctx, operands + 2)
                                         : js_operator_delete(ctx, operands + 2);
  if (!failed) return operands[0];
  JS_FreeValue(ctx, operands[0]);
  JS_FreeValue(ctx, operands[1]);
  return JS_EXCEPTION;
}

/* The key of a compound assignment to an element, `a[b] += c`. */
static inline JSValue aot_key(JSContext *ctx, JSStackFrame *sf, uint32_t offset, JSValueConst object,
                              JSValueConst key) {
  aot_at(sf, offset);
  if (JS_IsUndefined(object) || JS_IsNull(object)) {
    return JS_ThrowTypeError(ctx, "value has no property");
  }
  int tag = AOT_TAG(key);
  bool is_key = tag == JS_TAG_INT || tag == JS_TAG_STRING || tag == JS_TAG_SYMBOL;
  return is_key ? JS_DupValue(ctx, key) : JS_ToPropertyKey(ctx, key);
}

static inline bool aot_is_nothing(JSValueConst value) {
  return JS_IsUndefined(value) || JS_IsNull(value);
}

/* What is taken apart by `{ a, b } = value`. Takes the value. */
static inline JSValue aot_to_object(JSContext *ctx, JSStackFrame *sf, uint32_t offset,
                                    JSValue value) {
  if (likely(AOT_TAG(value) == JS_TAG_OBJECT)) return value;
  aot_at(sf, offset);
  JSValue object = JS_ToObject(ctx, value);
  JS_FreeValue(ctx, value);
  return object;
}

/* The number of which `x++` gives the old value. Takes the value. */
static inline JSValue aot_numeric(JSContext *ctx, JSStackFrame *sf, uint32_t offset, JSValue value) {
  if (likely(AOT_IS_INT(value))) return value;
  aot_at(sf, offset);
  return JS_ToNumericFree(ctx, value);
}

#endif
