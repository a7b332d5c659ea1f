#include "memory/image-lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#ifndef F_OFD_SETLK
#define F_OFD_SETLK 37
#endif

/* How often a file that comes and goes is tried; the longest text that says who. */
enum { ATTEMPTS = 8, WHO_BYTES = 128, STAT_START_FIELD = 22, STAT_BEHIND_NAME = 3 };

static size_t read_text(const char *path, char *text, size_t bytes) {
  size_t length = 0;
  FILE *file = fopen(path, "re");
  if (file != NULL) {
    length = fread(text, 1, bytes - 1, file);
    fclose(file);
  }
  text[length] = '\0';
  return length;
}

/*
 * When a process began, in ticks since the machine did (proc(5)); false if there is none to see, or
 * it has ended, and its parent has not asked about it yet.
 */
static bool start_of(long process, char *start, size_t bytes) {
  char path[64], text[2048], *rest = NULL;
  snprintf(path, sizeof path, "/proc/%ld/stat", process);
  if (read_text(path, text, sizeof text) == 0) return false;
  /* The name in front may hold anything, but ends with the last bracket. */
  char *behind = strrchr(text, ')');
  char *field = behind == NULL ? NULL : strtok_r(behind + 1, " ", &rest);
  if (field == NULL || *field == 'Z' || *field == 'X') return false;
  for (int i = STAT_BEHIND_NAME; field != NULL && i < STAT_START_FIELD; i++) {
    field = strtok_r(NULL, " ", &rest);
  }
  if (field == NULL) return false;
  snprintf(start, bytes, "%s", field);
  return true;
}

/* "4711 81125 8d3c…": number, start and boot. */
static bool who_is(long process, char *who) {
  char start[32], boot[48];
  if (!start_of(process, start, sizeof start)) return false;
  read_text("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
  boot[strcspn(boot, "\n")] = '\0';
  snprintf(who, WHO_BYTES, "%ld %s %s\n", process, start, boot[0] == '\0' ? "-" : boot);
  return true;
}

/* The process that a file names; 0 if it lives no more, or is us, or none is named. */
static long living_holder(const char *name) {
  char text[WHO_BYTES], who[WHO_BYTES];
  if (read_text(name, text, sizeof text) == 0) return 0;
  char *end;
  long process = strtol(text, &end, 10);
  if (*end != ' ' || process <= 0 || process > INT_MAX || process == (long)getpid()) return 0;
  return who_is(process, who) && strcmp(text, who) == 0 ? process : 0;
}

static bool refuse(const char *path, const char *name, struct fault *fault) {
  long holder = living_holder(name);
  if (holder == 0) {
    return fault_set(fault, "%s is in use by another process: stop that card first", path);
  }
  return fault_set(fault, "%s is in use by process %ld: stop that card first", path, holder);
}

/* Writes who we are. That it cannot be written takes nothing away from the lock. */
static void say(const char *name) {
  char who[WHO_BYTES];
  int descriptor = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (descriptor < 0) return;
  if (who_is((long)getpid(), who)) {
    ssize_t written = write(descriptor, who, strlen(who));
    (void)written;
  }
  close(descriptor);
}

/* Behind the kernel's lock: who else is named has it all the same; else we are. */
static bool take_file(struct image_lock *lock, const char *path, struct fault *fault) {
  if (living_holder(lock->path) != 0) {
    refuse(path, lock->path, fault);
    lock->path[0] = '\0';
    return false;
  }
  say(lock->path);
  return true;
}

/* Of a part that does not begin the file, the place is in the name. */
static void name_beside(struct image_lock *lock, const char *path,
                        const struct image_range *range) {
  char real[PATH_MAX];
  lock->path[0] = '\0';
  if (range->is_device || realpath(path, real) == NULL) return;
  if (range->at == 0) {
    snprintf(lock->path, sizeof lock->path, "%s.lock", real);
  } else {
    snprintf(lock->path, sizeof lock->path, "%s.%llu.lock", real, (unsigned long long)range->at);
  }
}

bool image_lock_take(struct image_lock *lock, const char *path, int descriptor,
                     const struct image_range *range, struct fault *fault) {
  struct flock bytes = {
      .l_type = F_WRLCK,
      .l_whence = SEEK_SET,
      .l_start = (off_t)range->at,
      .l_len = (off_t)range->bytes,
  };
  name_beside(lock, path, range);
  bool locked = flock(descriptor, LOCK_SH | LOCK_NB) == 0 &&
                fcntl(descriptor, F_OFD_SETLK, &bytes) == 0;
  if (locked) return lock->path[0] == '\0' || take_file(lock, path, fault);
  int reason = errno;
  if (reason == EWOULDBLOCK || reason == EACCES) {
    refuse(path, lock->path, fault);
  } else {
    fault_set(fault, "cannot lock %s: %s", path, strerror(reason));
  }
  lock->path[0] = '\0';
  return false;
}

static bool is_at(const char *name, int descriptor) {
  struct stat ours, there;
  return fstat(descriptor, &ours) == 0 && stat(name, &there) == 0 && ours.st_ino == there.st_ino &&
         ours.st_dev == there.st_dev;
}

bool image_lock_take_side(struct image_lock *lock, const char *path, const char *side,
                          struct fault *fault) {
  char real[PATH_MAX];
  if (realpath(path, real) == NULL) {
    return fault_set(fault, "cannot find %s: %s", path, strerror(errno));
  }
  snprintf(lock->path, sizeof lock->path, "%s.%s.lock", real, side);
  fault_set(fault, "the lock %s comes and goes", lock->path);
  for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
    int descriptor = open(lock->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (descriptor < 0) {
      fault_set(fault, "cannot make the lock %s: %s", lock->path, strerror(errno));
      break;
    }
    bool locked = flock(descriptor, LOCK_EX | LOCK_NB) == 0;
    /* Who had it before takes its file away: a lock on that one is none. */
    if (locked && is_at(lock->path, descriptor) && take_file(lock, path, fault)) {
      lock->side = descriptor;
      return true;
    }
    close(descriptor);
    if (!locked) refuse(path, lock->path, fault);
    if (!locked || lock->path[0] == '\0') break;
  }
  lock->path[0] = '\0';
  return false;
}

void image_lock_release(struct image_lock *lock) {
  if (lock->path[0] != '\0') unlink(lock->path);
  lock->path[0] = '\0';
  if (lock->side > 0) close(lock->side);
  lock->side = 0;
}
