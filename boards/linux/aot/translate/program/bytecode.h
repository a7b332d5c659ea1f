/*
 * The bytecode of QuickJS, one operation at a time: short forms are read as the long ones.
 */
#ifndef TRANSLATE_BYTECODE_H
#define TRANSLATE_BYTECODE_H

#include <stdbool.h>
#include <stdint.h>

struct instruction {
  uint32_t at, next; /* offsets of it and of what stands behind it */
  int opcode;        /* of opcodes.h, the long form */
  int32_t operand;   /* number, index, count, or the offset that is jumped to */
};

struct instruction read_at(const uint8_t *code, uint32_t at);

/* The variable that `x ??= y` and `({ x } = y)` refer to: its index stands behind its name. */
int referred(const uint8_t *code, const struct instruction *i);

/* How many values it takes from the stack, and puts there. */
int pops(const struct instruction *i);
int pushes(const struct instruction *i);

/* Does it jump, perhaps? */
bool jumps(int opcode);

/* Does nothing come behind it? */
bool ends(int opcode);

#endif
