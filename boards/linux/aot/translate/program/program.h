/*
 * What is known of a whole program: its functions, which of them are translated, what its variables
 * can be, and what was seen of it.
 */
#ifndef TRANSLATE_PROGRAM_H
#define TRANSLATE_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "program/bytecode.h"

/* A variable that closures see: how often it is stored to, and which function that is, if one; or
 * which number, if that is so wherever a translated function sees it (opcode 0: it is none). */
struct variable {
  int stores;
  int function;
  struct instruction literal;
};

/* What a function has of those around it: an argument or a variable of the one that it stands in,
 * or, if it is not of that, one of what that has of those around it. */
struct closure {
  int index;
  bool is_own, is_argument;
};

/* Of what stands in the program, beside small integers: a function, a number, or something else. */
struct constant {
  int function; /* -1: it is none */
  bool is_finite;
  double number;
};

struct function {
  int parent;        /* that it stands in; -1: it is the program */
  const char *name;  /* NULL: it has none */
  int line;          /* where it stands, from 1; 0: it is not told */
  bool is_strict, is_special; /* is it a generator, or does it wait? */
  const uint8_t *code;
  uint32_t code_bytes;
  int arguments, locals; /* how many */
  int stack_size;
  const struct closure *closures;
  const struct constant *constants;
  struct variable *variables; /* its arguments, then its locals */
  int first_seen;             /* where it begins in what is noted of all functions */
  bool is_translated, sees_this;
};

struct program {
  struct JSContext *context;  /* that has compiled it */
  struct function *functions; /* in the order of `each_function` in bind.c */
  int function_count;
  struct profile *profiles;
  int profile_count;
  bool learns; /* is it to note what it sees? */
  struct place *places;
  int place_count;
};

#endif
