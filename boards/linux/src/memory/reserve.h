/*
 * Address space for what the command lists may touch, with a page that nobody may touch on each
 * side: an address that is wrong in spite of every check ends the process, and changes nothing.
 *
 * A page is the kernel's: 4, 16 or 64 KiB. What is ours in a file begins at a multiple of 4 KiB,
 * wherever its card is put, so a mapping may begin before it.
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

/* Bytes by which a mapping has to begin before byte `at` of its file: it begins with a page. */
size_t reserve_lead(uint64_t at);

/*
 * Maps a file over the whole place, its byte `at` being `reserve_lead` bytes behind the beginning.
 * Returns where that byte is; MAP_FAILED with errno set, and the place is still reserved.
 */
uint8_t *reserve_map(const struct reserve *reserve, int flags, int descriptor, uint64_t at);

/* Zeroed memory in such a place; NULL if there is no room. */
uint8_t *reserve_memory(struct reserve *reserve, size_t bytes);

/* Unmaps all of it. */
void reserve_release(struct reserve *reserve);

#endif
