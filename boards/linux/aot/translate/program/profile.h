/*
 * The profile: what was seen of a program, operation by operation, when it ran on a translation
 * made with `--learn`.
 *
 * Invariant: it is a hint. Where an operation is written for what was seen and something
 * else comes, it leaves for the interpreter; a profile that is old, or wrong, costs time and
 * nothing else. A function is found by its name and its operations: one that changed has no hints.
 */
#ifndef TRANSLATE_PROFILE_H
#define TRANSLATE_PROFILE_H

#include "program/program.h"

#define NAME_MAX_BYTES 64

/* Its name in the profile: one word. */
void profile_name(const struct function *function, char name[NAME_MAX_BYTES]);

/* FNV-1a of its operations without their operands, which are numbered again in every program. */
uint32_t profile_hash(const struct function *function);

/* What was seen of a function, by offset of the operation; NULL if nothing. */
const uint32_t *seen_of(const struct program *program, const struct function *function);

/* Lines of a profile, which are changed in reading; those that begin with # say nothing. */
void read_profile(struct program *program, char *text);

#endif
