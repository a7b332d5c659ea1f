/*
 * The machine of the native runtime by itself, for test/boards/linux/linux-machine.test.ts.
 *
 *   machine-harness lists OPTIONS        runs lists from stdin; see run_lists
 *   machine-harness fuzz SEED LISTS OPTIONS   anything in the ring; see fuzz
 *   machine-harness talk OPTIONS         one command a line; see talk
 *   machine-harness sysfs ROOT DEVICE    what sysfs.c finds
 *   machine-harness stray PATH           touches memory of that file that nobody covers
 *
 * Options: part=PATH create development shadow coherency at=N bytes=N host=WHERE dma=WHERE
 * dma-at=N, persist=NAME, which takes another of the CPU's instructions than the best, and late,
 * which puts packet memory to the end of its pages instead of their beginning, and device, which
 * treats the windows as a device's memory. sysfs=ROOT stands for /sys, and with dax the file system
 * of the part is one with DAX.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "card/icrc.h"
#include "card/machine.h"
#include "link/link-kinds.h"
#include "memory/guard.h"
#include "memory/reserve.h"
#include "memory/sysfs.h"

enum {
  COMMAND_BYTES = 64,
  /* Key, nonce, and how much data there is. */
  SEALING_BYTES = HAL_SEAL_KEY_BYTES + HAL_SEAL_NONCE_BYTES + (int)sizeof(uint32_t),
  PAGE_BYTES = 4096,
  TRACE_BYTES = 16 << 20,
  /* From the beginning of a page, to end with one. */
  LATE_BYTES = PAGE_BYTES - HAL_MEMORY_BYTES % PAGE_BYTES,
};

static struct machine machine;
static struct memory memory;
static struct reserve packets_place;
static bool is_late, are_devices, maps_sync;

/* The frames of one list, as they left. */
static uint32_t frame_count;
static uint32_t frame_lengths[HAL_COMMANDS_MAX];
static uint8_t frames[HAL_COMMANDS_MAX][HAL_FRAME_BYTES_MAX];
static bool keeps_frames;

static void must(bool holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "%s\n", what);
  exit(3);
}

static void put(const void *bytes, size_t length) {
  must(fwrite(bytes, 1, length, stdout) == length, "cannot write");
}

static void transmit(struct link *link, const uint8_t *frame, uint32_t length) {
  link->counters.sent++;
  if (!keeps_frames) return;
  must(length <= HAL_FRAME_BYTES_MAX, "a frame that is too long");
  frame_lengths[frame_count] = length;
  memcpy(frames[frame_count++], frame, length);
}

static struct links sink = {.each = {{.name = "sink", .transmit = transmit}}, .count = 1};

static bool is_option(const char *text, const char *name, const char **value) {
  size_t length = strlen(name);
  if (strncmp(text, name, length) != 0) return false;
  *value = text + length;
  return name[length - 1] == '=' || **value == '\0';
}

/* Two files stand for the BARs that no test machine has. */
static void become_device(struct window *window) {
  window->device = true;
  window->stage = reserve_memory(&window->stage_place, (size_t)window->bytes);
  must(window->stage != NULL, "no memory");
}

/* All of the file, or what is behind so many bytes of it, as of the file of a port. */
static bool open_dma(const char *path, const char *at, struct fault *fault) {
  if (at == NULL) return window_open(&machine.dma, path, fault);
  int descriptor = open(path, O_RDWR | O_CLOEXEC);
  off_t from = (off_t)strtoull(at, NULL, 10), end = lseek(descriptor, 0, SEEK_END);
  must(descriptor >= 0 && end > from, "no such bytes");
  return window_map(&machine.dma, descriptor, (uint64_t)from, (size_t)(end - from), path, fault);
}

static void start(char **options) {
  struct memory_options part = {.path = ""};
  struct fault fault;
  must(sodium_init() >= 0, "libsodium");
  const char *value, *host = NULL, *dma = NULL, *dma_at = NULL, *persist = NULL;
  struct trace_options trace = {.board = "harness", .bytes = TRACE_BYTES};
  for (; *options != NULL; options++) {
    if (is_option(*options, "part=", &value)) part.path = value;
    else if (is_option(*options, "create", &value)) part.create = true;
    else if (is_option(*options, "development", &value)) part.development = true;
    else if (is_option(*options, "shadow", &value)) part.shadow = true;
    else if (is_option(*options, "coherency", &value)) part.clean_to_coherency = true;
    else if (is_option(*options, "at=", &value)) part.at = strtoull(value, NULL, 10);
    else if (is_option(*options, "bytes=", &value)) part.bytes = strtoull(value, NULL, 10);
    else if (is_option(*options, "host=", &value)) host = value;
    else if (is_option(*options, "dma=", &value)) dma = value;
    else if (is_option(*options, "dma-at=", &value)) dma_at = value;
    else if (is_option(*options, "persist=", &value)) persist = value;
    else if (is_option(*options, "sysfs=", &value)) part.sysfs = value;
    else if (is_option(*options, "trace=", &value)) trace.path = value;
    else if (is_option(*options, "dax", &value)) maps_sync = true;
    else if (is_option(*options, "late", &value)) is_late = true;
    else if (is_option(*options, "device", &value)) are_devices = true;
    else must(false, *options);
  }
  must(memory_open(&memory, &part, &fault), fault.text);
  if (persist != NULL) memory.persist = persist_named(persist);
  must(memory.persist != NULL, "this CPU has no such instruction");
  trace.part = part.path;
  trace.part_bytes = memory.bytes;
  trace.dirty_shutdowns = memory.dirty_shutdowns;
  must(trace.path == NULL || trace_open(&machine.trace, &trace, &fault), fault.text);
  if (trace.path != NULL) trace_start(&machine.trace, 0);
  must(host == NULL || window_open(&machine.host, host, &fault), fault.text);
  must(dma == NULL || open_dma(dma, dma_at, &fault), fault.text);
  if (are_devices) become_device(&machine.host);
  if (are_devices) become_device(&machine.dma);
  size_t margin = is_late ? LATE_BYTES : 0;
  uint8_t *place = reserve_memory(&packets_place, HAL_MEMORY_BYTES + margin);
  must(place != NULL, "no memory");
  machine.packets = place + margin;
  machine.memory = &memory;
  machine.links = &sink;
}

static void stop(void) {
  trace_close(&machine.trace);
  tags_forget(&machine.tags);
  memory_close(&memory);
  window_close(&machine.host);
  window_close(&machine.dma);
  reserve_release(&packets_place);
}

/*
 * What the kernel says of the write-back of the part, once, as of an error of a disk: which no test
 * can have. `PERDURE_WRITE_BACK` says it of the first time.
 */
static int write_back = -1;

static int told(int result) {
  const char *first = getenv("PERDURE_WRITE_BACK");
  if (write_back < 0) write_back = first == NULL ? 0 : atoi(first);
  if (write_back == 0) return result;
  errno = write_back;
  write_back = 0;
  return -1;
}

int __real_sync_file_range(int descriptor, off_t at, off_t length, unsigned flags);
int __wrap_sync_file_range(int descriptor, off_t at, off_t length, unsigned flags);
int __wrap_sync_file_range(int descriptor, off_t at, off_t length, unsigned flags) {
  return told(__real_sync_file_range(descriptor, at, length, flags));
}

int __real_fdatasync(int descriptor);
int __wrap_fdatasync(int descriptor);
int __wrap_fdatasync(int descriptor) { return told(__real_fdatasync(descriptor)); }

/* A kernel of other pages: `PERDURE_PAGE_BYTES` says of which. It refuses what that one would. */
static size_t page_bytes(void) {
  const char *bytes = getenv("PERDURE_PAGE_BYTES");
  return bytes == NULL ? PAGE_BYTES : (size_t)strtoull(bytes, NULL, 10);
}

long __real_sysconf(int name);
long __wrap_sysconf(int name);
long __wrap_sysconf(int name) {
  return name == _SC_PAGESIZE ? (long)page_bytes() : __real_sysconf(name);
}

void *__real_mmap(void *at, size_t length, int protection, int flags, int file, off_t from);
void *__wrap_mmap(void *at, size_t length, int protection, int flags, int file, off_t from);
void *__wrap_mmap(void *at, size_t length, int protection, int flags, int file, off_t from) {
  /* The file system takes MAP_SYNC, which none of a test does: as what it is without. */
  if (maps_sync && (flags & MAP_SYNC) != 0) {
    flags = (flags & ~(MAP_SYNC | MAP_SHARED_VALIDATE)) | MAP_SHARED;
  }
  bool is_fixed = (flags & MAP_FIXED) != 0;
  if ((uint64_t)from % page_bytes() == 0 && (!is_fixed || (uintptr_t)at % page_bytes() == 0)) {
    return __real_mmap(at, length, protection, flags, file, from);
  }
  errno = EINVAL;
  return MAP_FAILED;
}

static uint8_t *ring(void) { return machine.packets + HAL_COMMANDS_AT; }

/* Takes the burst that comes before a list, and tells the flags of its frames. */
static void take_burst(uint32_t count) {
  must(count <= HAL_BURST_FRAMES, "a burst that is too long");
  for (uint32_t i = 0; i < count; i++) {
    uint32_t length;
    must(fread(&length, sizeof length, 1, stdin) == 1 && frame_fits(length), "no frame");
    must(fread(receive_place(machine.packets, (int)i), length, 1, stdin) == 1, "half a frame");
    receive_tell(&sink.each[0], machine.packets, (int)i, length);
  }
  tags_judge(&machine.tags, machine.packets, count);
  for (uint32_t i = 0; i < count; i++) {
    put(machine.packets + HAL_RECEIVED_AT + 8 * i + sizeof(uint32_t), sizeof(uint32_t));
  }
}

/* Runs the list in the ring, and tells what became of it. */
static void run_list(uint32_t commands, double count) {
  frame_count = 0;
  uint32_t done = machine_run(&machine, count);
  put(&done, sizeof done);
  put(&frame_count, sizeof frame_count);
  put(ring(), (size_t)commands * COMMAND_BYTES);
  for (uint32_t i = 0; i < frame_count; i++) {
    put(&frame_lengths[i], sizeof frame_lengths[i]);
    put(frames[i], frame_lengths[i]);
  }
}

/*
 * In: packet memory, then lists: how many frames come before it, each with its length, the count as
 * a double, and the commands as a 32-bit count and their words. Out, for each list: the flags of
 * the frames that came, how many commands were done, how many frames left, the commands as they now
 * are, the frames with their lengths. At the end packet memory, and what the counters say. It ends
 * without a word to the part, as a process that is killed: what its file then holds is what was
 * durable.
 */
static int run_lists(void) {
  double count;
  uint32_t came, commands;
  keeps_frames = true;
  must(fread(machine.packets, HAL_MEMORY_BYTES, 1, stdin) == 1, "half a packet memory");
  while (fread(&came, sizeof came, 1, stdin) == 1) {
    take_burst(came);
    must(fread(&count, sizeof count, 1, stdin) == 1, "half a list");
    must(fread(&commands, sizeof commands, 1, stdin) == 1, "half a list");
    must(commands <= HAL_COMMANDS_MAX, "a list that is too long");
    must(fread(ring(), COMMAND_BYTES, commands, stdin) == commands, "half a list");
    run_list(commands, count);
  }
  put(machine.packets, HAL_MEMORY_BYTES);
  const struct machine_counters *c = &machine.counters;
  const double counters[] = {(double)c->runs, (double)c->fences, (double)c->bytes_stored,
                             (double)c->lines_cleaned};
  put(counters, sizeof counters);
  fflush(stdout);
  _exit(0);
}

static uint64_t chance;

/* splitmix64 of Steele, Lea and Flood. */
static uint64_t next(void) {
  uint64_t z = (chance += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static uint64_t below(uint64_t count) { return next() % count; }

static double any_bits(void) {
  uint64_t bits = next();
  double number;
  memcpy(&number, &bits, sizeof number);
  return number;
}

/* What is wrong with a number, or only odd. */
static double spoilt(double number) {
  static const double odd[] = {0, -0.0, -1, 0.5, 1e308, -1e308, 4294967296.0, 2147483648.0,
                               2147483647.0, 9007199254740993.0, 18446744073709551616.0};
  switch (below(8)) {
    case 0: return any_bits();
    case 1: return odd[below(sizeof odd / sizeof *odd)];
    case 2: return number + 0.5;
    case 3: return -number;
    case 4: return number + (double)below(200) - 100;
    case 5: return number * 2;
    case 6: return number + 4294967296.0 * (double)(below(9)) - 17179869184.0;
    default: return (double)below(5) * (double)HAL_SPACE_BYTES - (double)below(3);
  }
}

/* Mostly inside a space, often at one of its ends. */
static double some_address(void) {
  const uint64_t host = machine.host.bytes, dma = machine.dma.bytes;
  const uint64_t bytes[] = {HAL_MEMORY_BYTES, memory.bytes, host, dma, 0};
  uint64_t space = below(below(20) == 0 ? 5 : 4);
  uint64_t offset = below(bytes[space] + 1);
  if (below(3) == 0) offset = below(512);
  if (below(3) == 0) offset = bytes[space] - below(512);
  if (below(2) == 0) offset &= ~63u;
  return (double)(space * HAL_SPACE_BYTES + offset);
}

static double some_length(void) {
  static const uint32_t usual[] = {0, 1, 8, 16, 64, 128, 512, 4096};
  if (below(3) != 0) return usual[below(sizeof usual / sizeof *usual)];
  return (double)below(below(50) == 0 ? 10000000 : 600);
}

/* What sessions are made of lies in packet memory, and the data of a seal is short. */
static void some_session(double *words) {
  const int addresses[] = {HAL_FROM, HAL_TO, HAL_AUX};
  for (int i = 0; i < 3; i++) {
    uint64_t end = HAL_MEMORY_BYTES - below(700), inside = HAL_PRIVATE_AT + below(20000);
    words[addresses[i]] = (double)(below(3) == 0 ? end : inside);
  }
  /* It takes as long as hundreds of others. */
  if (words[HAL_OP] == HAL_AGREE && below(4) == 0) words[HAL_LENGTH] = 32;
  uint64_t sealing = (uint64_t)words[HAL_AUX];
  if (sealing + SEALING_BYTES <= HAL_MEMORY_BYTES) {
    uint32_t data_bytes = (uint32_t)below(HAL_SEAL_DATA_BYTES + 2);
    memcpy(machine.packets + sealing + HAL_SEAL_KEY_BYTES + HAL_SEAL_NONCE_BYTES, &data_bytes,
           sizeof data_bytes);
  }
}

/* Tags want a place; SECURE lies in packet memory. */
static void some_tags(double *words) {
  double place = (double)below(HAL_QUEUE_PAIRS + 2);
  if (words[HAL_OP] == HAL_TRANSMIT) {
    words[HAL_AUX] = place * HAL_TAGGED + (double)below(4);
    return;
  }
  words[HAL_FROM] = (double)(HAL_MEMORY_BYTES - below(200));
  words[HAL_LENGTH] = below(4) == 0 ? (double)below(80) : HAL_SECURE_BYTES;
  words[HAL_AUX] = place;
}

static void some_command(double *words) {
  words[HAL_OP] = (double)below(HAL_KEEP_PEER + 2);
  words[HAL_FROM] = some_address();
  words[HAL_TO] = some_address();
  words[HAL_LENGTH] = some_length();
  words[HAL_AUX] = below(2) == 0 ? (double)below(4) : some_address();
  words[HAL_RESULT] = any_bits();
  if (words[HAL_OP] >= HAL_FETCH_ADD && below(2) == 0) words[HAL_LENGTH] = 8;
  if (words[HAL_OP] >= HAL_FETCH_ADD && below(2) == 0) words[HAL_FROM] = (double)below(100000);
  if (words[HAL_OP] >= HAL_KEYSTREAM && below(4) != 0) some_session(words);
  if (words[HAL_OP] == HAL_TRANSMIT && below(2) == 0) some_tags(words);
  if (words[HAL_OP] == HAL_SECURE && below(4) != 0) some_tags(words);
  if (below(3) == 0) {
    uint64_t which = below(5);
    words[which] = spoilt(words[which]);
  }
}

/*
 * Lists of commands of any kind with any numbers. Every space has pages around it that nobody may
 * touch, and the sanitizers look on: a byte outside ends the process. Prints what was done.
 */
static int fuzz(uint64_t seed, uint64_t lists) {
  chance = seed;
  for (uint64_t list = 0; list < lists; list++) {
    double words[HAL_COMMAND_WORDS];
    uint64_t commands = 1 + below(8);
    for (uint64_t i = 0; i < commands; i++) {
      some_command(words);
      memcpy(ring() + i * COMMAND_BYTES, words, sizeof words);
    }
    double count = below(100) == 0 ? spoilt((double)commands) : (double)commands;
    /* A list that stops early shows little: what it stopped at is taken back. */
    for (uint64_t tries = 0; tries < commands; tries++) {
      uint32_t done = machine_run(&machine, count);
      must(done <= HAL_COMMANDS_MAX && done <= (count > 0 ? count : 0), "more done than asked for");
      if (done >= commands) break;
      double skip = HAL_SKIP;
      memcpy(ring() + (size_t)done * COMMAND_BYTES, &skip, sizeof skip);
    }
  }
  const struct machine_counters *c = &machine.counters;
  printf("{\"runs\":%" PRIu64 ",\"commands\":%" PRIu64 ",\"refused\":%" PRIu64
         ",\"fences\":%" PRIu64 ",\"stored\":%" PRIu64 ",\"sent\":%" PRIu64 "}\n",
         c->runs, c->commands, c->bad_commands, c->fences, c->bytes_stored, links_sum(&sink).sent);
  stop();
  return 0;
}

static void say_memory(void) {
  printf("{\"class\":\"%s\",\"armed\":%s,\"forgets\":\"%s\",\"bytes\":%" PRIu64 ","
         "\"persist\":\"%s\",\"line\":%u,\"dirtyShutdowns\":%u,\"badLines\":%" PRIu64 "}\n",
         memory_class_name(memory.class), memory.armed ? "true" : "false",
         memory.forgets_because == NULL ? "" : memory.forgets_because, memory.bytes,
         memory.persist->name, memory.persist->line_bytes, memory.dirty_shutdowns,
         memory.bad_lines);
}

/* The DIMMs are asked again; what is claimed then. */
static void watch(void) {
  bool changed = memory_watch(&memory);
  printf("{\"watched\":%s,\"changed\":%s,\"armed\":%s,\"forgets\":\"%s\"}\n",
         memory_is_watched(&memory) ? "true" : "false", changed ? "true" : "false",
         memory.armed ? "true" : "false",
         memory.forgets_because == NULL ? "" : memory.forgets_because);
}

static void say_counters(void) {
  const struct machine_counters *c = &machine.counters;
  printf("{\"commands\":%" PRIu64 ",\"fences\":%" PRIu64 ",\"mediaErrors\":%" PRIu64
         ",\"badCommands\":%" PRIu64 ",\"hostFailures\":%" PRIu64 "}\n",
         c->commands, c->fences, c->media_errors, c->bad_commands, c->host_failures);
}

/* "run OP FROM TO LENGTH AUX …": several commands, five numbers each. */
static void run_line(char *text) {
  uint32_t commands = 0;
  char *end = text;
  for (;; commands++) {
    double words[HAL_COMMAND_WORDS] = {0};
    for (int i = 0; i < HAL_RESULT; i++) {
      words[i] = strtod(text, &end);
      if (end == text) break;
      text = end;
    }
    if (words[HAL_OP] == 0) break;
    memcpy(ring() + (size_t)commands * COMMAND_BYTES, words, sizeof words);
  }
  uint32_t done = machine_run(&machine, commands);
  double result = 0;
  uint32_t last = done < commands ? done : commands - 1;
  memcpy(&result, ring() + (size_t)last * COMMAND_BYTES + HAL_RESULT * sizeof result,
         sizeof result);
  int32_t health;
  memcpy(&health, machine.packets + HAL_HEALTH_AT, sizeof health);
  printf("{\"done\":%u,\"result\":%g,\"health\":%d}\n", done, result, health);
}

/* "put AT HEX" and "get AT BYTES" of packet memory. */
static void put_line(const char *text) {
  unsigned at, byte;
  int taken = 0;
  must(sscanf(text, "%u %n", &at, &taken) == 1, "put AT HEX");
  for (text += taken; sscanf(text, "%2x", &byte) == 1; text += 2) {
    machine.packets[at++] = (uint8_t)byte;
  }
  printf("put\n");
}

static void get_line(const char *text) {
  unsigned at, bytes;
  must(sscanf(text, "%u %u", &at, &bytes) == 2, "get AT BYTES");
  for (unsigned i = 0; i < bytes; i++) printf("%02x", machine.packets[at + i]);
  printf("\n");
}

/* One answer to every line: see the functions above. Ends with stdin. */
static int talk(void) {
  static char line[1 << 20];
  setvbuf(stdout, NULL, _IOLBF, 0);
  say_memory();
  while (fgets(line, sizeof line, stdin) != NULL) {
    if (strncmp(line, "run ", 4) == 0) run_line(line + 4);
    else if (strncmp(line, "put ", 4) == 0) put_line(line + 4);
    else if (strncmp(line, "get ", 4) == 0) get_line(line + 4);
    else if (strncmp(line, "counters", 8) == 0) say_counters();
    else if (strncmp(line, "watch", 5) == 0) watch();
    else if (sscanf(line, "writeback %d", &write_back) == 1) printf("writeback\n");
    else must(false, "run, put, get, counters, watch or writeback");
  }
  stop();
  return 0;
}

/* Of a character device what device-dax is, of a block device what a file with MAP_SYNC is. */
static int say_sysfs(const char *root, const char *device) {
  struct sysfs_dax dax = {0};
  bool is_dax = sysfs_dax(root, device, &dax);
  struct sysfs_region region = sysfs_region(root, device);
  static const char *const KINDS[] = {"none", "volatile", "persistent"};
  enum memory_class class = strncmp(device, "char/", 5) == 0 ? MEMORY_DEVDAX : MEMORY_FSDAX;
  printf("{\"isDax\":%s,\"bytes\":%" PRIu64 ",\"align\":%" PRIu64 ",\"dirtyShutdowns\":%" PRIu64
         ",\"region\":\"%s\",\"outlivesPower\":%s}\n",
         is_dax ? "true" : "false", dax.bytes, dax.align, region.dirty_shutdowns,
         KINDS[region.kind],
         memory_forgets_because(class, region.kind, true) == NULL ? "true" : "false");
  return 0;
}

/* A mapping that does not answer, and that is not the machine's: this must be the end. */
static int stray(const char *path) {
  uint8_t covered[PAGE_BYTES];
  struct fault fault;
  FILE *file = fopen(path, "r+e");
  must(file != NULL, path);
  const volatile uint8_t *page = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, fileno(file), 0);
  must(page != MAP_FAILED, "cannot map");
  must(guard_cover(covered, sizeof covered, &fault), fault.text);
  must(ftruncate(fileno(file), 0) == 0, "cannot truncate");
  if (sigsetjmp(guard_mark, 0) == 0) {
    guard_armed = 1;
    return page[0];
  }
  return 4;
}

int main(int count, char **arguments) {
  must(count > 2, "which of lists, fuzz, talk, sysfs?");
  const char *duty = arguments[1];
  if (strcmp(duty, "sysfs") == 0) return say_sysfs(arguments[2], arguments[3]);
  if (strcmp(duty, "stray") == 0) return stray(arguments[2]);
  bool is_fuzz = strcmp(duty, "fuzz") == 0;
  start(arguments + (is_fuzz ? 4 : 2));
  if (is_fuzz) return fuzz(strtoull(arguments[2], NULL, 10), strtoull(arguments[3], NULL, 10));
  return strcmp(duty, "lists") == 0 ? run_lists() : talk();
}
