/*
 * The operations of QuickJS's bytecode and the forms of their operands, OP_… and OP_FMT_…, as its
 * own list numbers them. `quickjs.c` has the same for itself: who includes that does without this.
 */
#ifndef TRANSLATE_OPCODES_H
#define TRANSLATE_OPCODES_H

/* As `quickjs.c` is compiled. */
#define SHORT_OPCODES 1

enum operand_form {
#define FMT(form) OP_FMT_##form,
#include "quickjs-opcode.h"
#undef FMT
  OPERAND_FORMS
};

/* Those of finished bytecode, which are `DEF` in the list; `def` are those of the compiler's. */
enum opcode {
#define DEF(id, size, pops, pushes, form) OP_##id,
#define def(id, size, pops, pushes, form)
#include "quickjs-opcode.h"
#undef def
#undef DEF
  OPCODES
};

#endif
