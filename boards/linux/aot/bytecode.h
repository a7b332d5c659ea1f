/*
 * The bytecode of QuickJS, one operation at a time: short forms are read as the long ones.
 */
#ifndef AOT_BYTECODE_H
#define AOT_BYTECODE_H

#include <stdbool.h>

struct instruction {
  uint32_t at, next; /* offsets of it and of what stands behind it */
  OPCodeEnum opcode; /* the long form */
  int32_t operand;   /* number, index, count, or the offset that is jumped to */
};

/* Of `get_loc0` and its like: the index is in the opcode. */
#define SHORT_OF(kind)                                                                             \
  case OP_get_##kind##0 ... OP_get_##kind##3:                                                      \
    return (struct instruction){at, next, OP_get_##kind, opcode - OP_get_##kind##0};               \
  case OP_put_##kind##0 ... OP_put_##kind##3:                                                      \
    return (struct instruction){at, next, OP_put_##kind, opcode - OP_put_##kind##0};               \
  case OP_set_##kind##0 ... OP_set_##kind##3:                                                      \
    return (struct instruction){at, next, OP_set_##kind, opcode - OP_set_##kind##0};

static struct instruction read_short(const uint8_t *code, uint32_t at, uint32_t next) {
  const uint8_t *pc = code + at + 1;
  int opcode = code[at], from = (int)at + 1;
  switch (opcode) {
    SHORT_OF(loc)
    SHORT_OF(arg)
    SHORT_OF(var_ref)
    case OP_push_minus1 ... OP_push_7:
      return (struct instruction){at, next, OP_push_i32, opcode - OP_push_0};
    case OP_push_i8: return (struct instruction){at, next, OP_push_i32, get_i8(pc)};
    case OP_push_i16: return (struct instruction){at, next, OP_push_i32, get_i16(pc)};
    case OP_push_const8: return (struct instruction){at, next, OP_push_const, *pc};
    case OP_fclosure8: return (struct instruction){at, next, OP_fclosure, *pc};
    case OP_get_loc8: return (struct instruction){at, next, OP_get_loc, *pc};
    case OP_put_loc8: return (struct instruction){at, next, OP_put_loc, *pc};
    case OP_set_loc8: return (struct instruction){at, next, OP_set_loc, *pc};
    case OP_if_false8: return (struct instruction){at, next, OP_if_false, from + get_i8(pc)};
    case OP_if_true8: return (struct instruction){at, next, OP_if_true, from + get_i8(pc)};
    case OP_goto8: return (struct instruction){at, next, OP_goto, from + get_i8(pc)};
    case OP_goto16: return (struct instruction){at, next, OP_goto, from + get_i16(pc)};
    case OP_call0 ... OP_call3:
      return (struct instruction){at, next, OP_call, opcode - OP_call0};
    default: return (struct instruction){at, next, opcode, 0};
  }
}
#undef SHORT_OF

static struct instruction read_at(const JSFunctionBytecode *b, uint32_t at) {
  const uint8_t *pc = b->byte_code_buf + at + 1;
  uint32_t next = at + short_opcode_info(pc[-1]).size;
  struct instruction i = read_short(b->byte_code_buf, at, next);
  if (i.opcode != (OPCodeEnum)pc[-1]) return i;
  switch (short_opcode_info(i.opcode).fmt) {
    case OP_FMT_u8:
    case OP_FMT_loc8: i.operand = *pc; break;
    case OP_FMT_i8: i.operand = get_i8(pc); break;
    case OP_FMT_npop:
    case OP_FMT_u16:
    case OP_FMT_loc:
    case OP_FMT_arg:
    case OP_FMT_var_ref: i.operand = (int32_t)get_u16(pc); break;
    case OP_FMT_u32:
    case OP_FMT_i32:
    case OP_FMT_const:
    case OP_FMT_atom: i.operand = (int32_t)get_u32(pc); break;
    case OP_FMT_label: i.operand = (int32_t)(at + 1 + get_u32(pc)); break;
    default: break;
  }
  return i;
}

/* How many values it takes from the stack. */
static int pops(const struct instruction *i) {
  const JSOpCode *info = &short_opcode_info(i->opcode);
  return info->n_pop + (info->fmt == OP_FMT_npop ? i->operand : 0);
}

/* Does it jump, perhaps? */
static bool jumps(OPCodeEnum opcode) {
  return opcode == OP_if_false || opcode == OP_if_true || opcode == OP_goto;
}

/* Does nothing come behind it? */
static bool ends(OPCodeEnum opcode) {
  return opcode == OP_return || opcode == OP_return_undef || opcode == OP_tail_call ||
         opcode == OP_tail_call_method || opcode == OP_goto;
}

#endif
