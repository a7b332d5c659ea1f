/*
 * One process for one image: a second one would write what the first does not know of.
 *
 * What always holds: the lock is that of `boards/emulator/image-lock.ts`, a file beside the image
 * that names its process, so that emulator and native runtime exclude each other. Over it stands
 * the kernel's own lock of the open file (flock), which no process that has died can keep, and
 * which is the only one of a device: nothing is left beside a device. A lock file is believed of a
 * process only that has the image open.
 */
#ifndef PERDURE_IMAGE_LOCK_H
#define PERDURE_IMAGE_LOCK_H

#include <stdbool.h>

#include "fault.h"

struct image_lock {
  char path[4096 + 32]; /* empty: there is no file to remove */
};

/* Takes both for the file that `descriptor` is open on. The refusal names the other process. */
bool image_lock_take(struct image_lock *lock, const char *path, int descriptor, bool device,
                     struct fault *fault);

/* The file alone, whose name ends with that suffix: two sides of one file have one each. */
bool image_lock_take_file(struct image_lock *lock, const char *path, const char *suffix,
                          struct fault *fault);

void image_lock_release(struct image_lock *lock);

#endif
