/*
 * One card for one image: a second one would write what the first does not know of (fault H12).
 *
 * Invariant: the locks are the kernel's, on the open file, and go with it: after a kill,
 * and after a power cut, they are nobody's. The bytes that are ours are locked by an OFD lock, so
 * that several parts may lie in one file; the file as a whole is locked shared, by flock, which
 * the emulator takes exclusively, as its part is the whole file (boards/image-lock.ts).
 * Locks of records that belong to a process (F_SETLK) would not do: they go when the process
 * closes any other descriptor of the file. Nothing is looked up in other processes, so no
 * capability is needed.
 *
 * A file beside the image says who has it, for people: process, start of the process, boot. It is
 * believed in one case more: where it names a living process that the kernel's lock does not show,
 * which is an emulator on a machine without a program flock.
 */
#ifndef PERDURE_IMAGE_LOCK_H
#define PERDURE_IMAGE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "service/fault.h"

struct image_lock {
  char path[4096 + 32]; /* of the file that says who; empty: there is none to remove */
  int side;             /* the open file that is locked for a side; 0: none */
};

/* Which bytes of an image are ours, and whether a file is to lie beside it. */
struct image_range {
  uint64_t at, bytes;
  bool is_device; /* nothing lies beside a device */
};

/* Locks the bytes of the image that `descriptor` is open on. The refusal names who has them. */
bool image_lock_take(struct image_lock *lock, const char *path, int descriptor,
                     const struct image_range *range, struct fault *fault);

/* One side of a file that two processes share, by a file of the side's own, PATH.SIDE.lock. */
bool image_lock_take_side(struct image_lock *lock, const char *path, const char *side,
                          struct fault *fault);

void image_lock_release(struct image_lock *lock);

#endif
