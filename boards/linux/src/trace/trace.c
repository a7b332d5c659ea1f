#include "trace/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "link/link-kinds.h"

enum {
  MAGIC = 0x43525450, /* "PTRC" */
  VERSION = 1,
  AREA_AT = 4096,
  /* Of a frame: headers, and a PERSIST_ACK with the outcome of a whole batch. */
  FRAME_BYTES = 256,
};

_Static_assert(sizeof(struct trace_head) <= AREA_AT, "the head has a page");

enum kind { PAD, START, CALL, RECEIVED, SENT, STORE, CLEAN, FENCED };

/* What it holds stands behind it; all of it together is a multiple of eight bytes. */
struct entry {
  uint32_t bytes;  /* of the entry, this included */
  uint32_t kind;
};

/* Of START and CALL `at` is the time, µs; of FENCED the result; else a place in the part. */
struct body {
  uint64_t at;
  uint32_t length; /* of frame or store; of CALL how many frames */
  uint32_t spare;
};

static uint64_t padded(uint64_t bytes) { return (bytes + 7) & ~UINT64_C(7); }

static struct entry *entry_at(const struct trace *trace, uint64_t place) {
  return (struct entry *)(void *)(trace->area + place % trace->head->area_bytes);
}

static void publish(uint64_t *word, uint64_t value) {
  atomic_store_explicit((_Atomic uint64_t *)word, value, memory_order_release);
  /* What is written behind it is not seen before it. */
  atomic_thread_fence(memory_order_release);
}

/* Gives up the oldest entries until so many bytes more have room. */
static void make_room(struct trace *trace, uint64_t bytes) {
  struct trace_head *head = trace->head;
  uint64_t first = head->first;
  while (head->written + bytes - first > head->area_bytes) {
    uint32_t size = entry_at(trace, first)->bytes;
    /* The file is not as we wrote it: somebody else did. */
    if (size < sizeof(struct entry) || size > head->written - first) {
      first = head->written;
      break;
    }
    first += size;
  }
  if (first != head->first) publish(&head->first, first);
}

/* Room for an entry in one piece; NULL, and all is given up, if it is too large for the ring. */
static uint8_t *begin(struct trace *trace, enum kind kind, uint64_t bytes) {
  struct trace_head *head = trace->head;
  trace->open = NULL;
  if (bytes > head->area_bytes / 2) {
    publish(&head->first, head->written);
    return NULL;
  }
  uint64_t rest = head->area_bytes - head->written % head->area_bytes;
  uint64_t skipped = bytes > rest ? rest : 0;
  make_room(trace, skipped + bytes);
  if (skipped > 0) {
    *entry_at(trace, head->written) = (struct entry){(uint32_t)skipped, PAD};
    publish(&head->written, head->written + skipped);
  }
  struct entry *entry = entry_at(trace, head->written);
  *entry = (struct entry){(uint32_t)bytes, kind};
  trace->open = (uint8_t *)(entry + 1);
  trace->open_bytes = (uint32_t)bytes;
  return trace->open;
}

static void end(struct trace *trace) {
  if (trace->open == NULL) return;
  trace->open = NULL;
  publish(&trace->head->written, trace->head->written + trace->open_bytes);
}

static uint8_t *put(uint8_t *to, const void *bytes, size_t length) {
  if (bytes == NULL) {
    memset(to, 0, length);
  } else {
    memcpy(to, bytes, length);
  }
  return to + padded(length);
}

static void add(struct trace *trace, enum kind kind, struct body body, const uint8_t *data,
                uint32_t length) {
  if (trace->head == NULL) return;
  uint8_t *to = begin(trace, kind, sizeof(struct entry) + sizeof body + padded(length));
  if (to == NULL) return;
  put(put(to, &body, sizeof body), data, length);
  end(trace);
}

void trace_start(struct trace *trace, uint64_t now_us) {
  add(trace, START, (struct body){now_us, 0, 0}, NULL, 0);
}

static void add_frame(struct trace *trace, enum kind kind, const uint8_t *frame, uint32_t length) {
  uint32_t kept = length < FRAME_BYTES ? length : FRAME_BYTES;
  add(trace, kind, (struct body){0, length, 0}, frame, kept);
}

void trace_call(struct trace *trace, uint8_t *packets, uint32_t frames, uint64_t now_us) {
  if (trace->head == NULL) return;
  add(trace, CALL, (struct body){now_us, frames, 0}, NULL, 0);
  for (uint32_t i = 0; i < frames; i++) {
    uint32_t length;
    memcpy(&length, packets + HAL_RECEIVED_AT + (size_t)i * 2 * sizeof length, sizeof length);
    add_frame(trace, RECEIVED, receive_place(packets, (int)i), length);
  }
}

void trace_sent(struct trace *trace, const uint8_t *frame, uint32_t length) {
  add_frame(trace, SENT, frame, length);
}

void trace_storing(struct trace *trace, uint64_t at, const uint8_t *before, uint32_t length) {
  if (trace->head == NULL) return;
  struct body body = {at, length, 0};
  uint64_t bytes = sizeof(struct entry) + sizeof body + 2 * padded(length);
  uint8_t *to = begin(trace, STORE, bytes);
  if (to == NULL) return;
  put(put(to, &body, sizeof body), before, length);
}

void trace_stored(struct trace *trace, const uint8_t *after) {
  struct body body;
  if (trace->open == NULL) return;
  memcpy(&body, trace->open, sizeof body);
  put(trace->open + sizeof body + padded(body.length), after, body.length);
  end(trace);
}

void trace_cleaned(struct trace *trace, uint64_t at, uint64_t length) {
  add(trace, CLEAN, (struct body){at, (uint32_t)length, 0}, NULL, 0);
}

void trace_fenced(struct trace *trace, int result) {
  add(trace, FENCED, (struct body){(uint64_t)result, 0, 0}, NULL, 0);
}

/* A file of that size with all its blocks: a store into a hole could find the disk full. */
static int make(const char *path, uint64_t bytes, struct fault *fault) {
  char old[PATH_MAX];
  snprintf(old, sizeof old, "%s.old", path);
  if (rename(path, old) != 0 && errno != ENOENT) {
    fault_set(fault, "cannot keep the trace %s as %s: %s", path, old, strerror(errno));
    return -1;
  }
  int descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  int error = descriptor < 0 ? errno : posix_fallocate(descriptor, 0, (off_t)bytes);
  if (error == 0) return descriptor;
  fault_set(fault, "cannot make the trace %s of %llu bytes: %s", path, (unsigned long long)bytes,
            strerror(error));
  if (descriptor >= 0) {
    close(descriptor);
    unlink(path);
  }
  return -1;
}

bool trace_open(struct trace *trace, const struct trace_options *options, struct fault *fault) {
  uint64_t bytes = options->bytes / AREA_AT * AREA_AT;
  int descriptor = make(options->path, bytes, fault);
  if (descriptor < 0) return false;
  uint8_t *all = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  int error = errno;
  close(descriptor);
  if (all == MAP_FAILED) {
    return fault_set(fault, "cannot map the trace %s: %s", options->path, strerror(error));
  }
  trace->area = all + AREA_AT;
  trace->head = (struct trace_head *)(void *)all;
  *trace->head = (struct trace_head){
      .version = VERSION,
      .area_bytes = bytes - AREA_AT,
      .part_bytes = options->part_bytes,
      .part_at = options->part_at,
      .dirty_shutdowns = options->dirty_shutdowns,
  };
  snprintf(trace->head->board, sizeof trace->head->board, "%s", options->board);
  snprintf(trace->head->part, sizeof trace->head->part, "%s", options->part);
  trace->head->magic = MAGIC;
  return true;
}

void trace_close(struct trace *trace) {
  if (trace->head == NULL) return;
  munmap(trace->head, trace->head->area_bytes + AREA_AT);
  trace->head = NULL;
}
