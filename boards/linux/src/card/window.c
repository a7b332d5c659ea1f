#include "card/window.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hal.h"
#include "memory/guard.h"

enum { WORD_BYTES = 8 };

/* Empties the buffers that hold stores back, write-combining ones too. */
static void drain(void) {
#if defined(__x86_64__)
  __asm__ volatile("mfence" ::: "memory");
#else
  __asm__ volatile("dsb sy" ::: "memory");
#endif
}

/* From the device: whole aligned words, and single bytes at the ends. */
static void load_device(uint8_t *to, const volatile uint8_t *from, size_t length) {
  size_t i = 0;
  for (; i < length && (uintptr_t)(from + i) % WORD_BYTES != 0; i++) to[i] = from[i];
  for (; length - i >= WORD_BYTES; i += WORD_BYTES) {
    uint64_t word = *(const volatile uint64_t *)(const volatile void *)(from + i);
    memcpy(to + i, &word, sizeof word);
  }
  for (; i < length; i++) to[i] = from[i];
}

static void store_device(volatile uint8_t *to, const uint8_t *from, size_t length) {
  size_t i = 0;
  for (; i < length && (uintptr_t)(to + i) % WORD_BYTES != 0; i++) to[i] = from[i];
  for (; length - i >= WORD_BYTES; i += WORD_BYTES) {
    uint64_t word;
    memcpy(&word, from + i, sizeof word);
    *(volatile uint64_t *)(volatile void *)(to + i) = word;
  }
  for (; i < length; i++) to[i] = from[i];
}

const uint8_t *window_load(struct window *window, uint64_t at, size_t length) {
  if (window->lost || window->absent) return NULL;
  if (window->written) {
    drain();
    window->written = false;
  }
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  if (!window->device) return window->live + at;
  load_device(window->stage + at, window->live + at, length);
  return window->stage + at;
}

void window_store(struct window *window, uint64_t at, const uint8_t *from, size_t length) {
  if (window->lost || window->absent) return;
  window->written = true;
  __atomic_thread_fence(__ATOMIC_RELEASE);
  if (window->device) {
    store_device(window->live + at, from, length);
  } else {
    memmove(window->live + at, from, length);
  }
}

/* `pci:0000:00:02.0/resource2` as the path that sysfs has for it. */
static bool resource_path(const char *where, char *path, size_t bytes, struct fault *fault) {
  const char *slash = strchr(where, '/');
  if (slash == NULL || strncmp(slash, "/resource", 9) != 0 || strstr(where, "..") != NULL) {
    return fault_set(fault, "%s: a window on a device is pci:DOMAIN:BUS:DEVICE.FUNCTION/resourceN",
                     where);
  }
  snprintf(path, bytes, "/sys/bus/pci/devices/%s", where + strlen("pci:"));
  return true;
}

static bool map_all(struct window *window, int descriptor, const char *path, struct fault *fault) {
  struct stat status;
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size <= 0) {
    return fault_set(fault, "%s is no file with bytes in it: a host window is one", path);
  }
  return window_map(window, descriptor, 0, (size_t)status.st_size, path, fault);
}

bool window_map(struct window *window, int descriptor, uint64_t at, size_t bytes,
                const char *path, struct fault *fault) {
  if (!reserve_space(&window->place, reserve_lead(at) + bytes, 1)) {
    return fault_set(fault, "no address space for %zu bytes", bytes);
  }
  uint8_t *live = reserve_map(&window->place, MAP_SHARED, descriptor, at);
  if (live == MAP_FAILED) {
    return fault_set(fault, "cannot map the window %s: %s", path, strerror(errno));
  }
  if (window->device) {
    window->stage = reserve_memory(&window->stage_place, bytes);
    if (window->stage == NULL) return fault_set(fault, "no memory for %zu bytes", bytes);
  }
  window->live = live;
  window->bytes = bytes;
  window->whole = bytes;
  return guard_cover(live, bytes, fault);
}

bool window_open(struct window *window, const char *where, struct fault *fault) {
  char path[PATH_MAX];
  memset(window, 0, sizeof *window);
  window->descriptor = -1;
  window->device = strncmp(where, "pci:", 4) == 0;
  if (window->device) {
    if (!resource_path(where, path, sizeof path, fault)) return false;
  } else {
    snprintf(path, sizeof path, "%s", where);
  }
  int descriptor = open(path, O_RDWR | O_SYNC | O_CLOEXEC);
  if (descriptor < 0) {
    return fault_set(fault, "cannot open the window %s: %s", path, strerror(errno));
  }
  window->descriptor = descriptor;
  bool mapped = map_all(window, descriptor, path, fault);
  if (!mapped) window_close(window);
  return mapped;
}

void window_close(struct window *window) {
  if (window->live != NULL) guard_uncover(window->live);
  reserve_release(&window->place);
  reserve_release(&window->stage_place);
  if (window->descriptor >= 0) close(window->descriptor);
  memset(window, 0, sizeof *window);
  window->descriptor = -1;
}

/* Bytes of the pieces; 0 if there can be no such pieces. */
static uint64_t bytes_of_pieces(const struct window *window, const uint32_t *table,
                                uint32_t count) {
  uint64_t limit = window->whole / HAL_PAGE_BYTES, pages = 0;
  for (uint32_t i = 0; i < count; i++) {
    uint64_t from = table[2 * i], end = from + table[2 * i + 1];
    if (end == from || end > limit) return 0;
    for (uint32_t k = 0; k < i; k++) {
      uint64_t other = table[2 * k], other_end = other + table[2 * k + 1];
      if (from < other_end && other < end) return 0;
    }
    pages += end - from;
  }
  return pages * HAL_PAGE_BYTES;
}

/* Maps the piece `from` on of the file, `bytes` of it, at that place. */
static bool map_piece(const struct window *window, uint8_t *at, uint64_t from, uint64_t bytes) {
  int protection = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_FIXED;
  if (from % (uint64_t)sysconf(_SC_PAGESIZE) != 0) return false;
  return mmap(at, bytes, protection, flags, window->descriptor, (off_t)from) != MAP_FAILED;
}

bool window_arrange(struct window *window, const uint32_t *table, uint32_t count) {
  struct fault fault;
  struct reserve place;
  if (window->live == NULL || window->descriptor < 0) return false;
  uint64_t bytes = count == 0 ? window->whole : bytes_of_pieces(window, table, count);
  if (bytes == 0 || !reserve_space(&place, bytes, 1)) return false;
  bool mapped = count > 0 || map_piece(window, place.at, 0, bytes);
  uint8_t *at = place.at;
  for (uint32_t i = 0; i < count && mapped; i++) {
    uint64_t run = (uint64_t)table[2 * i + 1] * HAL_PAGE_BYTES;
    mapped = map_piece(window, at, (uint64_t)table[2 * i] * HAL_PAGE_BYTES, run);
    at += run;
  }
  if (!mapped || !guard_cover(place.at, bytes, &fault)) {
    reserve_release(&place);
    return false;
  }
  guard_uncover(window->live);
  reserve_release(&window->place);
  window->place = place;
  window->live = place.at;
  window->bytes = bytes;
  return true;
}
