#include "memory/shadow.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "hal.h"
#include "memory/guard.h"

/* So much at a time; of what does not answer, line by line. */
enum { PIECE_BYTES = 4096 };

static void *zeroed(uint64_t bytes) {
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? NULL : at;
}

static void release(void *at, uint64_t bytes) {
  if (at != NULL) munmap(at, bytes);
}

bool shadow_open(struct shadow *shadow, uint8_t *mapping, uint64_t bytes,
                 void (*bad)(void *context, uint64_t line), void *context, struct fault *fault) {
  uint64_t lines = bytes / HAL_LINE_BYTES;
  memset(shadow, 0, sizeof *shadow);
  shadow->mapping = mapping;
  shadow->bytes = bytes;
  shadow->live = reserve_memory(&shadow->place, bytes);
  shadow->snapshots = zeroed(bytes);
  shadow->is_taken = zeroed(lines);
  shadow->lines = zeroed(lines * sizeof *shadow->lines);
  if (shadow->live == NULL || shadow->snapshots == NULL || shadow->is_taken == NULL ||
      shadow->lines == NULL) {
    shadow_close(shadow);
    return fault_set(fault, "no memory for a shadow of %llu bytes", (unsigned long long)bytes);
  }
  for (uint64_t piece = 0; piece < bytes; piece += PIECE_BYTES) {
    if (guard_copy(shadow->live + piece, mapping + piece, PIECE_BYTES)) continue;
    for (uint64_t at = piece; at < piece + PIECE_BYTES; at += HAL_LINE_BYTES) {
      if (guard_copy(shadow->live + at, mapping + at, HAL_LINE_BYTES)) continue;
      memset(shadow->live + at, 0, HAL_LINE_BYTES);
      bad(context, at / HAL_LINE_BYTES);
    }
  }
  return true;
}

void shadow_close(struct shadow *shadow) {
  uint64_t lines = shadow->bytes / HAL_LINE_BYTES;
  reserve_release(&shadow->place);
  release(shadow->snapshots, shadow->bytes);
  release(shadow->is_taken, lines);
  release(shadow->lines, lines * sizeof *shadow->lines);
  memset(shadow, 0, sizeof *shadow);
}

void shadow_clean(struct shadow *shadow, uint64_t at, uint64_t length) {
  uint64_t end = at + length;
  for (uint64_t line = at / HAL_LINE_BYTES; line * HAL_LINE_BYTES < end; line++) {
    uint64_t offset = line * HAL_LINE_BYTES;
    memcpy(shadow->snapshots + offset, shadow->live + offset, HAL_LINE_BYTES);
    if (shadow->is_taken[line]) continue;
    shadow->is_taken[line] = 1;
    shadow->lines[shadow->count++] = (uint32_t)line;
  }
}

void shadow_fence(struct shadow *shadow, const struct persist *persist) {
  for (uint64_t i = 0; i < shadow->count; i++) {
    uint64_t offset = (uint64_t)shadow->lines[i] * HAL_LINE_BYTES;
    memcpy(shadow->mapping + offset, shadow->snapshots + offset, HAL_LINE_BYTES);
    persist->clean(shadow->mapping + offset, HAL_LINE_BYTES, persist->line_bytes);
  }
  persist->fence();
  shadow_forget(shadow);
}

void shadow_forget(struct shadow *shadow) {
  for (uint64_t i = 0; i < shadow->count; i++) shadow->is_taken[shadow->lines[i]] = 0;
  shadow->count = 0;
}
