#include "calls/files.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "calls/descriptors.h"

/* What is read first of a file that does not say how long it is. */
enum { FIRST_BYTES = 64 << 10 };

/* Closes it and throws what the system said of it. */
static JSValue fail(JSContext *context, int descriptor, const char *path, const char *what) {
  int reason = errno;
  if (descriptor >= 0) close(descriptor);
  return throw_system(context, reason, "%s cannot be %s", path, what);
}

static JSValue refuse_long(JSContext *context, const char *path, size_t most) {
  return throw_error(context, "EFBIG", "%s has more than %zu bytes", path, most);
}

/* Reads to the end, into a buffer that grows up to `most` + 1 bytes: the last is one too many. */
static JSValue read_all(JSContext *context, int file, const char *path, size_t first, size_t most) {
  size_t length = 0, size = first > most ? most + 1 : first + 1;
  uint8_t *bytes = js_malloc(context, size);
  while (bytes != NULL) {
    ssize_t came = read(file, bytes + length, size - length);
    if (came < 0 && errno == EINTR) continue;
    if (came == 0) return give_bytes(context, bytes, length);
    if (came > 0) length += (size_t)came;
    if (came < 0 || length > most) {
      int reason = errno;
      js_free(context, bytes);
      return came < 0 ? throw_system(context, reason, "%s cannot be read", path)
                      : refuse_long(context, path, most);
    }
    if (length < size) continue;
    size = size > most / 2 ? most + 1 : 2 * size;
    uint8_t *grown = js_realloc(context, bytes, size);
    if (grown == NULL) js_free(context, bytes);
    bytes = grown;
  }
  return JS_EXCEPTION;
}

HOST_FUNCTION(host_read_file) {
  char path[PATH_MAX];
  int64_t most;
  struct stat about;
  if (!take_path(context, arguments[0], "path", path)) return JS_EXCEPTION;
  if (!take_whole(context, arguments[1], "most", 0, LENGTH_MAX, &most)) return JS_EXCEPTION;
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0 || fstat(file, &about) != 0) return fail(context, file, path, "read");
  size_t first = about.st_size > 0 ? (size_t)about.st_size : FIRST_BYTES;
  JSValue result = S_ISREG(about.st_mode) && about.st_size > most
                       ? refuse_long(context, path, (size_t)most)
                       : read_all(context, file, path, first, (size_t)most);
  close(file);
  return result;
}

/* Gives a file so many bytes, with room on the disk where the file system can promise it. */
static bool make_longer(int file, off_t bytes) {
  if (fallocate(file, 0, 0, bytes) == 0) return true;
  return (errno == EOPNOTSUPP || errno == ENOSYS) && ftruncate(file, bytes) == 0;
}

/* The name of a new file is durable when its folder is. */
static bool sync_folder(const char *path) {
  char copy[PATH_MAX];
  int folder = open(dirname(strcpy(copy, path)), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  bool synced = folder >= 0 && fsync(folder) == 0;
  int reason = errno;
  if (folder >= 0) close(folder);
  errno = reason;
  return synced;
}

HOST_FUNCTION(host_open_storage) {
  char path[PATH_MAX];
  int64_t bytes;
  struct stat about;
  uint64_t device_bytes;
  if (!take_path(context, arguments[0], "path", path)) return JS_EXCEPTION;
  if (!take_whole(context, arguments[1], "bytes", 0, NUMBER_MAX, &bytes)) return JS_EXCEPTION;
  int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
  if (file < 0 || fstat(file, &about) != 0) return fail(context, file, path, "opened");
  if (S_ISBLK(about.st_mode)) {
    if (ioctl(file, BLKGETSIZE64, &device_bytes) != 0) return fail(context, file, path, "measured");
    if (device_bytes >= (uint64_t)bytes) return give_descriptor(context, file);
    close(file);
    return throw_error(context, "ENOSPC", "%s has %llu bytes, and %lld are needed", path,
                       (unsigned long long)device_bytes, (long long)bytes);
  }
  if (!S_ISREG(about.st_mode)) {
    close(file);
    return throw_error(context, "EINVAL", "%s is neither a file nor a block device", path);
  }
  bool is_long = about.st_size >= bytes || make_longer(file, bytes);
  if (!is_long || fsync(file) != 0 || !sync_folder(path)) {
    return fail(context, file, path, "made long enough, durably");
  }
  return give_descriptor(context, file);
}

HOST_FUNCTION(host_lock) {
  char path[PATH_MAX];
  if (!take_path(context, arguments[0], "path", path)) return JS_EXCEPTION;
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return fail(context, file, path, "opened");
  if (flock(file, LOCK_EX | LOCK_NB) == 0) return give_descriptor(context, file);
  if (errno != EWOULDBLOCK) return fail(context, file, path, "locked");
  close(file);
  return JS_NewInt32(context, -1);
}

HOST_FUNCTION(host_read_at) {
  int file;
  int64_t at, length, done = 0;
  if (!take_descriptor(context, arguments[0], "descriptor", &file)) return JS_EXCEPTION;
  if (!take_whole(context, arguments[1], "at", 0, NUMBER_MAX, &at)) return JS_EXCEPTION;
  if (!take_whole(context, arguments[2], "length", 0, LENGTH_MAX, &length)) return JS_EXCEPTION;
  uint8_t *bytes = js_mallocz(context, (size_t)length + 1);
  if (bytes == NULL) return JS_EXCEPTION;
  while (done < length) {
    ssize_t came = pread(file, bytes + done, (size_t)(length - done), at + done);
    if (came == 0) break;
    if (came > 0) done += came;
    if (came >= 0 || errno == EINTR) continue;
    int reason = errno;
    js_free(context, bytes);
    return throw_system(context, reason, "%lld bytes at %lld of descriptor %d cannot be read",
                        (long long)length, (long long)at, file);
  }
  return give_bytes(context, bytes, (size_t)length);
}

HOST_FUNCTION(host_write_at) {
  int file;
  int64_t at;
  struct bytes bytes;
  if (!take_descriptor(context, arguments[0], "descriptor", &file)) return JS_EXCEPTION;
  if (!take_whole(context, arguments[1], "at", 0, NUMBER_MAX, &at)) return JS_EXCEPTION;
  if (!take_bytes(context, arguments[2], "bytes", &bytes)) return JS_EXCEPTION;
  for (size_t done = 0; done < bytes.length;) {
    ssize_t went = pwrite(file, bytes.at + done, bytes.length - done, at + (off_t)done);
    if (went > 0) done += (size_t)went;
    if (went > 0 || (went < 0 && errno == EINTR)) continue;
    return throw_system(context, went == 0 ? ENOSPC : errno,
                        "%zu bytes at %lld of descriptor %d cannot be written", bytes.length,
                        (long long)at, file);
  }
  return JS_UNDEFINED;
}

HOST_FUNCTION(host_sync) {
  int file;
  if (!take_descriptor(context, arguments[0], "descriptor", &file)) return JS_EXCEPTION;
  if (fdatasync(file) == 0) return JS_UNDEFINED;
  return throw_system(context, errno, "descriptor %d cannot be made durable", file);
}
