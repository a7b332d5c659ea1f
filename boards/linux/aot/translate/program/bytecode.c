#include "program/bytecode.h"

#include "cutils.h"
#include "program/opcodes.h"

/* Of `get_loc0` and its like: the index is in the opcode. */
#define SHORT_OF(kind)                                                                             \
  case OP_get_##kind##0 ... OP_get_##kind##3:                                                      \
    return (struct instruction){at, next, OP_get_##kind, opcode - OP_get_##kind##0};               \
  case OP_put_##kind##0 ... OP_put_##kind##3:                                                      \
    return (struct instruction){at, next, OP_put_##kind, opcode - OP_put_##kind##0};               \
  case OP_set_##kind##0 ... OP_set_##kind##3:                                                      \
    return (struct instruction){at, next, OP_set_##kind, opcode - OP_set_##kind##0};

/* How long each is, with its operand; what it does to the stack. */
static const struct {
  uint8_t size, pops, pushes;
  enum operand_form form;
} operations[OPCODES] = {
#define DEF(id, size, pops, pushes, form) [OP_##id] = {size, pops, pushes, OP_FMT_##form},
#define def(id, size, pops, pushes, form)
#include "quickjs-opcode.h"
#undef def
#undef DEF
};

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

struct instruction read_at(const uint8_t *code, uint32_t at) {
  const uint8_t *pc = code + at + 1;
  struct instruction i = read_short(code, at, at + operations[code[at]].size);
  if (i.opcode != code[at]) return i;
  switch (operations[i.opcode].form) {
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

int referred(const uint8_t *code, const struct instruction *i) {
  const size_t name_bytes = 4;
  return (int)get_u16(code + i->at + 1 + name_bytes);
}

int pops(const struct instruction *i) {
  int operands = operations[i->opcode].form == OP_FMT_npop ? i->operand : 0;
  return operations[i->opcode].pops + operands;
}

int pushes(const struct instruction *i) { return operations[i->opcode].pushes; }

bool jumps(int opcode) {
  return opcode == OP_if_false || opcode == OP_if_true || opcode == OP_goto;
}

bool ends(int opcode) {
  return opcode == OP_return || opcode == OP_return_undef || opcode == OP_tail_call ||
         opcode == OP_tail_call_method || opcode == OP_goto;
}
