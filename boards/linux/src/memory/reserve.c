#include "memory/reserve.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE_BYTES_MAX = 65536 }; /* of any kernel that we run on */

static size_t rounded(size_t bytes, size_t align) { return (bytes + align - 1) / align * align; }

bool reserve_space(struct reserve *reserve, size_t bytes, size_t align) {
  size_t margin = align > PAGE_BYTES_MAX ? align : PAGE_BYTES_MAX;
  memset(reserve, 0, sizeof *reserve);
  size_t all_bytes = rounded(bytes, margin) + 3 * margin;
  uint8_t *all = mmap(NULL, all_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                      -1, 0);
  if (all == MAP_FAILED) return false;
  reserve->all = all;
  reserve->all_bytes = all_bytes;
  reserve->at = all + (rounded((uintptr_t)all, margin) - (uintptr_t)all) + margin;
  reserve->bytes = bytes;
  return true;
}

size_t reserve_lead(uint64_t at) { return (size_t)(at % (uint64_t)sysconf(_SC_PAGESIZE)); }

uint8_t *reserve_map(const struct reserve *reserve, int flags, int descriptor, uint64_t at) {
  size_t lead = reserve_lead(at);
  uint8_t *mapping = mmap(reserve->at, reserve->bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED,
                          descriptor, (off_t)(at - lead));
  return mapping == MAP_FAILED ? MAP_FAILED : mapping + lead;
}

uint8_t *reserve_memory(struct reserve *reserve, size_t bytes) {
  if (!reserve_space(reserve, bytes, 1)) return NULL;
  void *at = mmap(reserve->at, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (at != MAP_FAILED) return at;
  reserve_release(reserve);
  return NULL;
}

void reserve_release(struct reserve *reserve) {
  if (reserve->all != NULL) munmap(reserve->all, reserve->all_bytes);
  memset(reserve, 0, sizeof *reserve);
}
