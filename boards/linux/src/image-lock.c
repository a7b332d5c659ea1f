#include "image-lock.h"

#include <dirent.h>
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

/*
 * Whether the process has the image open: a number may have been given to another one since, at the
 * latest when the machine started anew. True where that cannot be seen.
 */
static bool has_open(long process, const struct stat *image) {
  char folder[64], path[PATH_MAX];
  snprintf(folder, sizeof folder, "/proc/%ld/fd", process);
  DIR *open_files = opendir(folder);
  if (open_files == NULL) return true;
  bool found = false;
  for (struct dirent *entry = readdir(open_files); entry != NULL; entry = readdir(open_files)) {
    struct stat file;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (stat(path, &file) != 0) continue;
    if (file.st_dev == image->st_dev && file.st_ino == image->st_ino) found = true;
  }
  closedir(open_files);
  return found;
}

/* The process that a lock file names; 0 if there is none of that number, or it is damaged. */
static long owner_of(const char *path, const struct stat *image) {
  char text[32];
  FILE *file = fopen(path, "re");
  if (file == NULL) return 0;
  size_t length = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[length] = '\0';
  char *end;
  long owner = strtol(text, &end, 10);
  if (end == text || (*end != '\n' && *end != '\0') || owner <= 0 || owner > INT_MAX) return 0;
  /* Our own number is that of a process that is gone: flock says that we do not hold it twice. */
  if (owner == (long)getpid()) return 0;
  /* A process that we may not signal is there. */
  if (kill((pid_t)owner, 0) != 0 && errno != EPERM) return 0;
  return has_open(owner, image) ? owner : 0;
}

/* Makes a file that names us, so that it has its content when it takes its place by link(). */
static bool write_ours(const char *ours, struct fault *fault) {
  int descriptor = open(ours, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) return fault_set(fault, "cannot make the lock %s: %s", ours, strerror(errno));
  char text[32];
  int length = snprintf(text, sizeof text, "%ld\n", (long)getpid());
  ssize_t written = write(descriptor, text, (size_t)length);
  close(descriptor);
  if (written == length) return true;
  unlink(ours);
  return fault_set(fault, "cannot write the lock %s", ours);
}

bool image_lock_take_file(struct image_lock *lock, const char *path, const char *suffix,
                          struct fault *fault) {
  char real[PATH_MAX], ours[sizeof lock->path + 16];
  struct stat image;
  if (realpath(path, real) == NULL || stat(real, &image) != 0) {
    return fault_set(fault, "cannot find %s: %s", path, strerror(errno));
  }
  snprintf(lock->path, sizeof lock->path, "%s%s", real, suffix);
  snprintf(ours, sizeof ours, "%s.%ld", lock->path, (long)getpid());
  for (int attempt = 0; attempt < 2; attempt++) {
    if (!write_ours(ours, fault)) break;
    int result = link(ours, lock->path);
    int reason = errno;
    unlink(ours);
    if (result == 0) return true;
    if (reason != EEXIST) {
      fault_set(fault, "cannot make the lock %s: %s", lock->path, strerror(reason));
      break;
    }
    long owner = owner_of(lock->path, &image);
    if (owner != 0) {
      fault_set(fault, "%s is in use by process %ld: stop that card first", path, owner);
      break;
    }
    unlink(lock->path);
    fault_set(fault, "the lock %s comes and goes", lock->path);
  }
  lock->path[0] = '\0';
  return false;
}

bool image_lock_take(struct image_lock *lock, const char *path, int descriptor, bool device,
                     struct fault *fault) {
  lock->path[0] = '\0';
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return fault_set(fault, "cannot lock %s: %s", path, strerror(errno));
    return fault_set(fault, "%s is in use by another process: stop that one first", path);
  }
  return device || image_lock_take_file(lock, path, ".lock", fault);
}

void image_lock_release(struct image_lock *lock) {
  if (lock->path[0] != '\0') unlink(lock->path);
  lock->path[0] = '\0';
}
