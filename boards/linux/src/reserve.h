/*
 * Address space for what the command lists may touch, with a page that nobody may touch on each
 * side: an address that is wrong in spite of every check ends the process, and changes nothing.
 */
#ifndef PERDURE_RESERVE_H
#define PERDURE_RESERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reserve {
  uint8_t *at;  /* where the mapping belongs, NULL if there is none; a multiple of `align` */
  size_t bytes;
  uint8_t *all; /* with what stands around it */
  size_t all_bytes;
};

/* Reserves; nothing of it may be touched before something is mapped over `at`. False: no room. */
bool reserve_space(struct reserve *reserve, size_t bytes, size_t align);

/* Zeroed memory in such a place; NULL if there is no room. */
uint8_t *reserve_memory(struct reserve *reserve, size_t bytes);

/* Unmaps all of it. */
void reserve_release(struct reserve *reserve);

#endif
