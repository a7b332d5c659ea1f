#include "memory/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "hal.h"
#include "memory/dimms.h"
#include "memory/guard.h"
#include "memory/image-lock.h"
#include "memory/reserve.h"
#include "memory/shadow.h"
#include "service/condition.h"
#include "service/log.h"

#ifndef MAP_SHARED_VALIDATE
#define MAP_SHARED_VALIDATE 0x03
#endif
#ifndef MAP_SYNC
#define MAP_SYNC 0x80000
#endif

/* A part of a file begins and ends at a multiple of it, whatever the page of the kernel is. */
enum { UNIT_BYTES = 4096 };

struct internal {
  int descriptor;
  char *path; /* as it was opened, for people */
  struct reserve mapping; /* a multiple of the device's alignment, and the kernel's page before */
  bool shadowed;
  struct shadow shadow;
  struct image_lock lock;
  struct condition condition;
  struct dimms dimms;
  bool development;
  bool not_written_back; /* the kernel could not, once: nothing is promised any more */
  const char *forgets;   /* why nothing outlives the power, whatever the DIMMs say; or NULL */
  char because[128];     /* the same, where it is a DIMM */
};

static struct internal *internal_of(const struct memory *memory) { return memory->internal; }

const char *memory_class_name(enum memory_class class) {
  if (class == MEMORY_DEVDAX) return "device-dax";
  return class == MEMORY_FSDAX ? "fsdax (MAP_SYNC)" : "page cache";
}

/* The file's name is made durable, too: it must be there when the power comes back. */
static bool settle_name(const char *path, int descriptor) {
  char folder[4096];
  snprintf(folder, sizeof folder, "%s", path);
  char *slash = strrchr(folder, '/');
  if (slash == NULL) {
    strcpy(folder, ".");
  } else {
    slash[slash == folder ? 1 : 0] = '\0';
  }
  int above = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (above < 0) return false;
  bool settled = fsync(descriptor) == 0 && fsync(above) == 0;
  close(above);
  return settled;
}

/* All of its bytes are there from the beginning: a full disk is found out now, not at a store. */
static int make_file(const struct memory_options *options, struct fault *fault) {
  uint64_t bytes = options->at + options->bytes;
  if (options->bytes == 0) {
    fault_set(fault, "%s is not there, and how many bytes it shall have is not said",
              options->path);
    return -1;
  }
  int descriptor = open(options->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) {
    fault_set(fault, "cannot make %s: %s", options->path, strerror(errno));
    return -1;
  }
  int reason = posix_fallocate(descriptor, 0, (off_t)bytes);
  if (reason == 0 && settle_name(options->path, descriptor)) return descriptor;
  fault_set(fault, "cannot make %s with %llu bytes: %s", options->path, (unsigned long long)bytes,
            strerror(reason != 0 ? reason : errno));
  close(descriptor);
  unlink(options->path);
  return -1;
}

static int open_file(const struct memory_options *options, struct fault *fault) {
  int descriptor = open(options->path, O_RDWR | O_CLOEXEC);
  if (descriptor >= 0) return descriptor;
  if (errno == ENOENT && options->create) return make_file(options, fault);
  const char *hint = errno == ENOENT ? "; memory-create makes a file" : "";
  fault_set(fault, "cannot open %s: %s%s", options->path, strerror(errno), hint);
  return -1;
}

/* What there is to map: bytes and alignment, and what kind of device the kernel calls it. */
struct extent {
  uint64_t bytes, align;
  char device[48]; /* as sysfs_dax wants it */
  bool is_device;
};

static bool measure(const char *path, int descriptor, struct extent *extent, struct fault *fault) {
  struct stat status;
  struct sysfs_dax dax;
  if (fstat(descriptor, &status) != 0) {
    return fault_set(fault, "cannot examine %s: %s", path, strerror(errno));
  }
  extent->is_device = S_ISCHR(status.st_mode);
  dev_t number = extent->is_device ? status.st_rdev : status.st_dev;
  snprintf(extent->device, sizeof extent->device, "%s/%u:%u", extent->is_device ? "char" : "block",
           major(number), minor(number));
  if (S_ISREG(status.st_mode)) {
    extent->bytes = (uint64_t)status.st_size;
    extent->align = UNIT_BYTES;
    return true;
  }
  if (extent->is_device && sysfs_dax("/sys", extent->device, &dax)) {
    extent->bytes = dax.bytes;
    extent->align = dax.align;
    return true;
  }
  return fault_set(fault,
                   "%s is neither a file nor a device of device-dax (/dev/daxX.Y): a block device "
                   "would be mapped through the page cache",
                   path);
}

/* Which bytes are ours. */
static bool choose(const struct memory_options *options, const struct extent *extent,
                   uint64_t *bytes, struct fault *fault) {
  uint64_t at = options->at;
  if (at % extent->align != 0 || options->bytes % UNIT_BYTES != 0) {
    return fault_set(fault, "memory-at must be a multiple of %llu, memory-bytes of %d",
                     (unsigned long long)extent->align, UNIT_BYTES);
  }
  uint64_t left = at < extent->bytes ? extent->bytes - at : 0;
  *bytes = options->bytes != 0 ? options->bytes : left - left % UNIT_BYTES;
  if (*bytes != 0 && *bytes <= left) return true;
  return fault_set(fault, "%s has %llu bytes: it has not %llu from %llu on", options->path,
                   (unsigned long long)extent->bytes, (unsigned long long)*bytes,
                   (unsigned long long)at);
}

/* What is mapped has its room in the file system: where that is full, a store into a hole of the
 * file would look like a fault of the medium. A file system that cannot say so is believed. */
static bool have_room(const struct memory_options *options, int descriptor, uint64_t bytes,
                      struct fault *fault) {
  if (fallocate(descriptor, 0, (off_t)options->at, (off_t)bytes) == 0) return true;
  if (errno == EOPNOTSUPP || errno == ENOSYS) return true;
  return fault_set(fault, "%s has holes, and no room for its %llu bytes: %s", options->path,
                   (unsigned long long)bytes, strerror(errno));
}

static bool map(struct memory *memory, const struct memory_options *options,
                const struct extent *extent, struct fault *fault) {
  struct internal *internal = internal_of(memory);
  struct reserve *place = &internal->mapping;
  size_t bytes = (size_t)((memory->bytes + extent->align - 1) / extent->align * extent->align);
  int descriptor = internal->descriptor;
  uint8_t *mapping = MAP_FAILED;
  if (!reserve_space(place, reserve_lead(options->at) + bytes, (size_t)extent->align)) {
    return fault_set(fault, "no address space for %llu bytes", (unsigned long long)bytes);
  }
  memory->class = MEMORY_DEVDAX;
  if (!extent->is_device) {
    memory->class = MEMORY_FSDAX;
    mapping = reserve_map(place, MAP_SHARED_VALIDATE | MAP_SYNC, descriptor, options->at);
    if (mapping == MAP_FAILED) memory->class = MEMORY_CACHED;
  }
  if (mapping == MAP_FAILED) mapping = reserve_map(place, MAP_SHARED, descriptor, options->at);
  if (mapping == MAP_FAILED) {
    return fault_set(fault, "cannot map %s: %s", options->path, strerror(errno));
  }
  memory->live = mapping;
  return guard_cover(place->at, place->bytes, fault);
}

const char *memory_forgets_because(enum memory_class class, enum sysfs_kind kind,
                                   bool to_persistence) {
  if (class == MEMORY_CACHED) {
    return "the file is mapped through the page cache: nothing guarantees that a fence persists";
  }
  if (kind != SYSFS_PERSISTENT) {
    return "the kernel knows no region of persistent memory under the device: it is ordinary "
           "memory, which keeps nothing without power";
  }
  if (to_persistence) return NULL;
  return "this CPU cleans to the point of coherency only, and no setting states that the platform "
         "persists from there";
}

/* Whether what was fenced survives a power cut, or the operator said that this does not matter. */
static void judge(struct memory *memory, const struct dimms_health *health) {
  struct internal *internal = internal_of(memory);
  memory->forgets_because = internal->forgets;
  if (internal->forgets == NULL && health->unarmed != NULL) {
    snprintf(internal->because, sizeof internal->because,
             "the DIMM %s is not armed: what it holds would not be saved", health->unarmed);
    memory->forgets_because = internal->because;
  }
  bool will_do = memory->forgets_because == NULL || internal->development;
  memory->armed = will_do && !internal->not_written_back;
}

bool memory_watch(struct memory *memory) {
  struct dimms_health health = dimms_look(&internal_of(memory)->dimms);
  bool armed = memory->armed, forgot = memory->forgets_because != NULL;
  judge(memory, &health);
  return memory->armed != armed || (memory->forgets_because != NULL) != forgot;
}

bool memory_is_watched(const struct memory *memory) {
  const struct internal *internal = internal_of(memory);
  return internal->forgets == NULL && internal->dimms.count > 0;
}

/* What Linux says of the device: was it persistent, was all kept, is it armed? */
static void ask_platform(struct memory *memory, const struct memory_options *options,
                         const char *device) {
  struct internal *internal = internal_of(memory);
  const char *root = options->sysfs == NULL ? "/sys" : options->sysfs;
  struct sysfs_region region = sysfs_region(root, device);
  uint64_t shutdowns = internal->condition.dirty_shutdowns + region.dirty_shutdowns;
  memory->dirty_shutdowns = shutdowns > UINT32_MAX ? UINT32_MAX : (uint32_t)shutdowns;
  bool to_persistence = memory->persist->to_persistence || options->clean_to_coherency;
  internal->forgets = memory_forgets_because(memory->class, region.kind, to_persistence);
  dimms_open(&internal->dimms, root, &region);
  struct dimms_health health = dimms_look(&internal->dimms);
  if (health.failed != NULL) {
    memory->save_failed = true;
    log_event(LOG_ERROR, "a DIMM has not kept all that it held: the card refuses writes",
              LOG_TEXT("dimm", health.failed));
  }
  judge(memory, &health);
}

static void on_bad_line(void *context, uint64_t line) {
  struct memory *memory = context;
  condition_mark(&internal_of(memory)->condition, line);
}

/*
 * Whether the kernel could write back what it took so far: of an error it tells a descriptor once.
 * It is asked behind every page of the file, so that none is waited for: a fence of the page cache
 * costs a call of the kernel, and one of persistent memory nothing. Returns 0, or the reason.
 */
static int write_back_error(const struct memory *memory) {
  const off_t behind = (off_t)1 << 62;
  if (memory->class != MEMORY_CACHED) return 0;
  int descriptor = internal_of(memory)->descriptor;
  if (sync_file_range(descriptor, behind, 1, SYNC_FILE_RANGE_WAIT_BEFORE) == 0) return 0;
  /* A kernel, or a file system, that cannot say so is believed. */
  return errno == ENOSYS || errno == EINVAL || errno == ESPIPE ? 0 : errno;
}

/*
 * The file may hold less than was served, and its pages are in memory only for as long as the
 * kernel likes. What is there is read, nothing is stored any more, and whoever opens it next is
 * told as of a save that failed.
 */
static void lose(struct memory *memory, int reason) {
  struct internal *internal = internal_of(memory);
  memory->save_failed = true;
  bool noted = condition_fail_save(&internal->condition);
  log_event(LOG_ERROR, "the part's file was not written back: the card refuses writes",
            LOG_TEXT("file", internal->path), LOG_TEXT("because", strerror(reason)),
            LOG_TEXT("noted", noted ? "beside it" : "nowhere: do not start it again"));
}

static bool set_up(struct memory *memory, const struct memory_options *options,
                   struct fault *fault) {
  struct internal *internal = internal_of(memory);
  struct extent extent = {0};
  internal->path = strdup(options->path);
  if (internal->path == NULL) return fault_set(fault, "no memory");
  internal->descriptor = open_file(options, fault);
  if (internal->descriptor < 0) return false;
  if (!measure(options->path, internal->descriptor, &extent, fault)) return false;
  if (!choose(options, &extent, &memory->bytes, fault)) return false;
  const struct image_range ours = {options->at, memory->bytes, extent.is_device};
  if (!image_lock_take(&internal->lock, options->path, internal->descriptor, &ours, fault)) {
    return false;
  }
  if (!extent.is_device && !have_room(options, internal->descriptor, memory->bytes, fault)) {
    return false;
  }
  if (!map(memory, options, &extent, fault)) return false;
  struct condition *condition = &internal->condition;
  /* An image is a whole file: of a part of one, the file beside it says nothing. */
  const char *beside = extent.is_device || options->at != 0 ? NULL : options->path;
  if (!condition_open(condition, beside, memory->bytes, fault)) return false;
  if (options->shadow) {
    if (!shadow_open(&internal->shadow, memory->live, memory->bytes, on_bad_line, memory,
                     fault)) {
      return false;
    }
    internal->shadowed = true;
    memory->live = internal->shadow.live;
  }
  memory->persist = persist_detect();
  /* Of an error that nobody has heard of whoever opens the file next is told. */
  int reason = write_back_error(memory);
  if (reason != 0) lose(memory, reason);
  memory->bad_lines = condition->bad_lines;
  memory->save_failed = condition->save_failed;
  internal->development = options->development;
  ask_platform(memory, options, extent.device);
  return true;
}

bool memory_open(struct memory *memory, const struct memory_options *options,
                 struct fault *fault) {
  memset(memory, 0, sizeof *memory);
  struct internal *internal = calloc(1, sizeof *internal);
  if (internal == NULL) return fault_set(fault, "no memory");
  internal->descriptor = -1;
  memory->internal = internal;
  if (set_up(memory, options, fault)) return true;
  memory_close(memory);
  return false;
}

void memory_close(struct memory *memory) {
  struct internal *internal = internal_of(memory);
  if (internal == NULL) return;
  if (internal->shadowed) shadow_close(&internal->shadow);
  if (memory->armed && memory->class == MEMORY_CACHED && fdatasync(internal->descriptor) != 0) {
    lose(memory, errno);
  }
  condition_close(&internal->condition);
  dimms_close(&internal->dimms);
  if (internal->mapping.at != NULL) guard_uncover(internal->mapping.at);
  reserve_release(&internal->mapping);
  image_lock_release(&internal->lock);
  if (internal->descriptor >= 0) close(internal->descriptor);
  free(internal->path);
  free(internal);
  memset(memory, 0, sizeof *memory);
}

#ifdef DROP_FLUSH
/*
 * For the kill tests alone: one clean in so many is left out, as by a bug that shows now and then.
 * Kill tests that then find no loss could not find any.
 */
enum { CLEANS_TO_ONE_LEFT_OUT = 101 };

static bool is_left_out(void) {
  static unsigned cleans = 0;
  cleans++;
  return cleans % CLEANS_TO_ONE_LEFT_OUT == 0;
}
#endif

void memory_clean(struct memory *memory, uint64_t at, uint64_t length) {
  struct internal *internal = internal_of(memory);
#ifdef DROP_FLUSH
  if (is_left_out()) return;
#endif
  if (internal->shadowed) {
    shadow_clean(&internal->shadow, at, length);
  } else {
    memory->persist->clean(memory->live + at, length, memory->persist->line_bytes);
  }
}

int memory_fence(struct memory *memory) {
  struct internal *internal = internal_of(memory);
  if (!memory->armed) return HAL_NOT_ARMED;
  if (internal->shadowed) {
    shadow_fence(&internal->shadow, memory->persist);
  } else {
    memory->persist->fence();
  }
  int reason = write_back_error(memory);
  if (reason != 0) {
    internal->not_written_back = true;
    memory->armed = false;
    lose(memory, reason);
    return HAL_FLUSH_FAILED;
  }
  if (internal->condition.healed_lines == 0) return HAL_DONE;
  /* Behind the content: what is noted as healed must be there. */
  return condition_settle(&internal->condition) ? HAL_DONE : HAL_FLUSH_FAILED;
}

void memory_fence_failed(struct memory *memory) {
  struct internal *internal = internal_of(memory);
  if (internal->shadowed) shadow_forget(&internal->shadow);
}

bool memory_readable(const struct memory *memory, uint64_t at, uint64_t length) {
  return condition_readable(&internal_of(memory)->condition, at, length);
}

void memory_heal(struct memory *memory, uint64_t at, uint64_t length) {
  struct condition *condition = &internal_of(memory)->condition;
  condition_heal(condition, at, length);
  memory->bad_lines = condition->bad_lines;
}
