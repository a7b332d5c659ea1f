#include "access/key-file.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/utf8.h"

/* What group and others need to read. */
#define OTHERS_READ 044

/* A longer one is something else. */
#define FILE_BYTES_MAX 4096

bool key_from_text(const char *text, size_t length, uint8_t *key) {
  size_t bytes = 0;
  return length == 2 * IDENTITY_KEY_BYTES &&
         sodium_hex2bin(key, IDENTITY_KEY_BYTES, text, length, NULL, &bytes, NULL) == 0 &&
         bytes == IDENTITY_KEY_BYTES;
}

/* Cuts white space off both ends. */
static const char *trimmed(const char *line, size_t *length) {
  size_t from = 0, until = 0, taken;
  bool has_begun = false;
  for (size_t at = 0; at < *length; at += taken) {
    bool is_space = utf8_is_space(utf8_point(line + at, *length - at, &taken));
    if (is_space) continue;
    if (!has_begun) from = at;
    has_begun = true;
    until = at + taken;
  }
  *length = until - from;
  return line + from;
}

/* The only line that says something is the key. */
static bool key_in(const char *text, size_t length, uint8_t *key) {
  int told = 0;
  bool is_key = false;
  for (const char *rest = text, *end = text + length; rest < end;) {
    const char *feed = memchr(rest, '\n', (size_t)(end - rest));
    size_t line_length = (size_t)((feed == NULL ? end : feed) - rest);
    const char *line = trimmed(rest, &line_length);
    rest = feed == NULL ? end : feed + 1;
    if (line_length == 0 || line[0] == '#') continue;
    told++;
    is_key = key_from_text(line, line_length, key);
  }
  return told == 1 && is_key;
}

/* Reads to the end, or one byte more than `size` has; negative if it cannot be read. */
static ssize_t read_all(int file, char *text, size_t size) {
  size_t length = 0;
  while (length < size) {
    ssize_t count = read(file, text + length, size - length);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return -1;
    if (count == 0) break;
    length += (size_t)count;
  }
  return (ssize_t)length;
}

static enum identity_result take(int file, const char *path, uint8_t *secret,
                                 struct fault *fault) {
  struct stat found;
  char text[FILE_BYTES_MAX + 1];
  if (fstat(file, &found) != 0) {
    fault_set(fault, "%.200s cannot be read: %s", path, strerror(errno));
    return IDENTITY_NO_FILE;
  }
  bool is_other = S_ISDIR(found.st_mode) || found.st_size > FILE_BYTES_MAX;
  if (!is_other && (found.st_mode & OTHERS_READ) != 0) {
    fault_set(fault, "%.200s: others may read this private key. Forbid it: chmod 600 %.200s", path,
              path);
    return IDENTITY_REFUSED;
  }
  ssize_t length = is_other ? 0 : read_all(file, text, sizeof text);
  bool is_key = length > 0 && length <= FILE_BYTES_MAX && key_in(text, (size_t)length, secret);
  sodium_memzero(text, sizeof text);
  if (is_key) return IDENTITY_TAKEN;
  sodium_memzero(secret, IDENTITY_KEY_BYTES);
  if (length < 0) {
    fault_set(fault, "%.200s cannot be read whole", path);
    return IDENTITY_NO_FILE;
  }
  fault_set(fault, "%.200s: it holds no private key. Name one that 'perdure key new' has made.",
            path);
  return IDENTITY_REFUSED;
}

enum identity_result key_file_read(const char *path, uint8_t *secret, struct fault *fault) {
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (file < 0) {
    fault_set(fault, "%.200s cannot be read: %s", path, strerror(errno));
    return IDENTITY_NO_FILE;
  }
  enum identity_result result = take(file, path, secret, fault);
  close(file);
  return result;
}
