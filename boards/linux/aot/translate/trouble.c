#include "trouble.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void die(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  exit(1);
}

void *grown(void *memory, size_t bytes) {
  void *more = realloc(memory, bytes);
  if (more == NULL) die("translate: no memory");
  return more;
}

void *zeros(size_t count, size_t bytes) {
  void *memory = calloc(count + 1, bytes);
  if (memory == NULL) die("translate: no memory");
  return memory;
}
