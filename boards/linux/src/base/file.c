#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *file_read(const char *path, size_t max, size_t *length, struct fault *fault) {
  FILE *file = fopen(path, "rbe");
  if (file == NULL) {
    fault_set(fault, "%s cannot be read: %s", path, strerror(errno));
    return NULL;
  }
  char *bytes = malloc(max + 1);
  size_t count = bytes == NULL ? 0 : fread(bytes, 1, max + 1, file);
  if (bytes == NULL || ferror(file) != 0 || count > max) {
    fault_set(fault, count > max ? "%s is larger than %zu bytes" : "%s cannot be read whole", path,
              max);
    fclose(file);
    free(bytes);
    return NULL;
  }
  fclose(file);
  bytes[count] = '\0';
  *length = count;
  return bytes;
}
