#include "card/port.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hal.h"

/* The form of the file: `boards/port/port-file.ts` has the map. */
enum {
  MAGIC = 0x46504450,
  VERSION = 1,
  CARD_LIFE = 64,
  CARD_PROCESS = 68,
  CARD_BEAT = 72,
  CARD_SERVES = 76,
  CARD_SESSION = 80,
  CARD_INTERRUPTS = 84,
  CARD_CONSUMED = 88,
  HOST_LIFE = 128,
  HOST_PROCESS = 132,
  HOST_BEAT = 136,
  REGISTERS = 192,
  REGISTERS_BYTES = 16,
  HOST_PRODUCED = 208,
  HOST_DROPPED = 212,
  RING = 256,
  MEMORY = 4096,
};

/* From one beat to the next; silence after which its process must be there; and too long. */
#define BEAT_US 100000u
#define QUIET_US 300000u
#define SILENT_US 10000000u

/* Back to front: the epoch says that the others are there. */
static const int REGISTERS_OF_HOST[] = {HAL_PORT_POINTER, HAL_PORT_REGISTER, HAL_PORT_HEADER,
                                        HAL_PORT_EPOCH};

/* A file that is cut short reads as zeros, and what cannot be written is nobody's to report. */
static uint32_t get(const struct port *port, int at) {
  uint32_t value = 0;
  return pread(port->descriptor, &value, sizeof value, at) == sizeof value ? value : 0;
}

static void put(const struct port *port, int at, uint32_t value) {
  ssize_t written = pwrite(port->descriptor, &value, sizeof value, at);
  (void)written;
}

static uint32_t seen(const struct port *port, int at) { return port->words[at / 4]; }

/* The words of packet memory. */
static uint32_t word(const struct port *port, int at) {
  uint32_t value;
  memcpy(&value, port->machine->packets + at, sizeof value);
  return value;
}

static void set_word(struct port *port, int at, uint32_t value) {
  memcpy(port->machine->packets + at, &value, sizeof value);
}

/* A session begins: nobody has written a register, and nobody has rung. */
static void begin(struct port *port) {
  static const uint8_t none[REGISTERS_BYTES];
  port->machine->dma.absent = port->serves == 0;
  ssize_t written = pwrite(port->descriptor, none, sizeof none, REGISTERS);
  (void)written;
  port->consumed = get(port, HOST_PRODUCED);
  put(port, CARD_CONSUMED, port->consumed);
  port->dropped = get(port, HOST_DROPPED);
  port->interrupts_seen = 0;
  port->session++;
  put(port, CARD_SESSION, port->session);
  put(port, CARD_SERVES, port->serves);
  for (int i = 0; i < 4; i++) set_word(port, REGISTERS_OF_HOST[i], 0);
  set_word(port, HAL_PORT_LINK, port->serves != 0);
}

static bool is_there(uint32_t process) {
  if (process == 0 || process > INT_MAX) return false;
  return kill((pid_t)process, 0) == 0 || errno == EPERM;
}

/* Whether the host lives, as far as its words show it. */
static bool lives(struct port *port, uint64_t now_us) {
  uint32_t life = seen(port, HOST_LIFE), beat = seen(port, HOST_BEAT);
  uint32_t process = seen(port, HOST_PROCESS);
  if (life != port->host.life || beat != port->host.beat) {
    /* A life that is seen for the first time may be what a killed process has left. */
    port->host.alive = life != 0 && (port->host.life == life || is_there(process));
    port->host.life = life;
    port->host.beat = beat;
    port->host.beat_us = now_us;
    return port->host.alive;
  }
  uint64_t quiet_us = now_us - port->host.beat_us;
  if (quiet_us > SILENT_US || (quiet_us > QUIET_US && !is_there(process))) {
    port->host.alive = false;
  }
  return port->host.alive;
}

/* Whether a host has come or gone. */
static bool see_host(struct port *port, uint64_t now_us) {
  uint32_t serves = lives(port, now_us) ? seen(port, HOST_LIFE) : 0;
  if (serves == port->serves) return false;
  /* From one host to the next by way of none, so that the firmware sees that it is another one. */
  port->serves = port->serves == 0 ? serves : 0;
  begin(port);
  return true;
}

static bool take_registers(struct port *port) {
  bool changed = false;
  for (int i = 0; i < 4; i++) {
    int at = REGISTERS_OF_HOST[i];
    uint32_t value = seen(port, REGISTERS + at - HAL_PORT_AT);
    if (word(port, at) == value) continue;
    set_word(port, at, value);
    changed = true;
  }
  return changed;
}

static bool is_full(const struct port *port) {
  return word(port, HAL_PORT_PRODUCED) - word(port, HAL_PORT_CONSUMED) >= HAL_DOORBELLS;
}

static void append(struct port *port, uint32_t low, uint32_t high) {
  uint32_t produced = word(port, HAL_PORT_PRODUCED);
  int at = HAL_PORT_RING + (int)(produced % HAL_DOORBELLS) * HAL_DOORBELL_BYTES;
  set_word(port, at, low);
  set_word(port, at + 4, high);
  set_word(port, HAL_PORT_PRODUCED, produced + 1);
}

static bool take_doorbells(struct port *port) {
  uint32_t dropped = seen(port, HOST_DROPPED);
  uint32_t lost = dropped - port->dropped;
  port->dropped = dropped;
  /* A count that no host can have reached says only that there is something. */
  uint32_t waiting = seen(port, HOST_PRODUCED) - port->consumed;
  if (waiting == 0 && lost == 0) return false;
  if (waiting > HAL_DOORBELLS) {
    lost += waiting - HAL_DOORBELLS;
    port->consumed += waiting - HAL_DOORBELLS;
    waiting = HAL_DOORBELLS;
  }
  for (; waiting > 0 && !is_full(port); waiting--) {
    int at = RING + (int)(port->consumed % HAL_DOORBELLS) * HAL_DOORBELL_BYTES;
    append(port, get(port, at), get(port, at + 4));
    port->consumed++;
  }
  set_word(port, HAL_PORT_DROPPED, word(port, HAL_PORT_DROPPED) + lost);
  put(port, CARD_CONSUMED, port->consumed);
  return true;
}

/* Tells the host of an interrupt when the firmware has counted one in the header page. */
static void pass_interrupt(struct port *port) {
  struct window *dma = &port->machine->dma;
  uint64_t at = (uint64_t)word(port, HAL_PORT_HEADER) * HAL_HEADER_PAGE_BYTES;
  uint32_t count;
  at += HAL_HEADER_INTERRUPTS;
  if (port->serves == 0 || word(port, HAL_PORT_EPOCH) == 0) return;
  if (dma->bytes < sizeof count || at > dma->bytes - sizeof count) return;
  if (pread(port->descriptor, &count, sizeof count, (off_t)(MEMORY + at)) != sizeof count) return;
  if (count == port->interrupts_seen) return;
  port->interrupts_seen = count;
  put(port, CARD_INTERRUPTS, ++port->interrupts);
}

static void keep_beat(struct port *port, uint64_t now_us) {
  if (now_us < port->beat_due_us) return;
  port->beat_due_us = now_us + BEAT_US;
  put(port, CARD_BEAT, ++port->beat);
}

bool port_look(struct port *port, uint64_t now_us) {
  if (!port->is_serving) return false;
  keep_beat(port, now_us);
  pass_interrupt(port);
  memset(port->words, 0, sizeof port->words);
  ssize_t read = pread(port->descriptor, port->words, sizeof port->words, 0);
  (void)read;
  bool changed = see_host(port, now_us);
  if (!changed && port->serves != 0) changed = take_registers(port) || take_doorbells(port);
  if (changed) port->active_us = now_us;
  return changed;
}

uint64_t port_look_at_us(const struct port *port, uint64_t now_us) {
  uint64_t quiet_us = now_us - port->active_us;
  if (quiet_us < 2000) return now_us;
  return now_us + (quiet_us < 1000000 ? 1000 : 10000);
}

static bool is_memory(uint64_t bytes) {
  return bytes >= HAL_LINE_BYTES && bytes <= INT32_MAX && bytes % HAL_LINE_BYTES == 0;
}

/* Made aside, and then whole in its place: the other side may be about to do the same. */
static bool make(const char *path, uint64_t bytes, struct fault *fault) {
  char aside[PATH_MAX + 16];
  if (!is_memory(bytes)) {
    return fault_set(fault, "%s: memory of %llu bytes: whole lines, less than 2^31", path,
                     (unsigned long long)bytes);
  }
  snprintf(aside, sizeof aside, "%s.%ld", path, (long)getpid());
  const uint32_t head[] = {MAGIC, VERSION, (uint32_t)bytes};
  int descriptor = open(aside, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  bool made = descriptor >= 0 && pwrite(descriptor, head, sizeof head, 0) == sizeof head &&
              ftruncate(descriptor, (off_t)(MEMORY + bytes)) == 0 &&
              (link(aside, path) == 0 || errno == EEXIST);
  if (!made) fault_set(fault, "cannot make the port %s: %s", path, strerror(errno));
  if (descriptor >= 0) {
    close(descriptor);
    unlink(aside);
  }
  return made;
}

static bool open_file(struct port *port, const char *path, uint64_t bytes, struct fault *fault) {
  port->descriptor = open(path, O_RDWR | O_CLOEXEC);
  if (port->descriptor < 0 && errno == ENOENT) {
    if (!make(path, bytes, fault)) return false;
    port->descriptor = open(path, O_RDWR | O_CLOEXEC);
  }
  if (port->descriptor >= 0) return true;
  return fault_set(fault, "cannot open the port %s: %s", path, strerror(errno));
}

/* Maps the host's memory; it is all there, if only for the moment. */
static bool map(struct port *port, const char *path, struct fault *fault) {
  struct stat status;
  uint32_t bytes = get(port, 8);
  bool is_ours = get(port, 0) == MAGIC && get(port, 4) == VERSION && is_memory(bytes);
  if (!is_ours || fstat(port->descriptor, &status) != 0 || status.st_size < MEMORY) {
    return fault_set(fault, "%s is no port of ours, version %d", path, VERSION);
  }
  if (status.st_size < (off_t)(MEMORY + bytes) &&
      ftruncate(port->descriptor, (off_t)(MEMORY + bytes)) != 0) {
    return fault_set(fault, "cannot make room in %s: %s", path, strerror(errno));
  }
  if (!image_lock_take_side(&port->lock, path, "card", fault)) return false;
  return window_map(&port->machine->dma, port->descriptor, MEMORY, bytes, path, fault);
}

bool port_open(struct port *port, const char *path, uint64_t bytes, struct machine *machine,
               struct fault *fault) {
  memset(port, 0, sizeof *port);
  port->machine = machine;
  if (!open_file(port, path, bytes, fault) || !map(port, path, fault)) {
    image_lock_release(&port->lock);
    window_close(&machine->dma);
    if (port->descriptor >= 0) close(port->descriptor);
    return false;
  }
  port->session = get(port, CARD_SESSION);
  put(port, CARD_LIFE, 0);
  begin(port);
  return true;
}

void port_serve(struct port *port, uint64_t now_us) {
  uint32_t life = 0;
  if (getrandom(&life, sizeof life, 0) != sizeof life || life == 0) life = 1;
  port->is_serving = true;
  port->active_us = now_us;
  put(port, CARD_PROCESS, (uint32_t)getpid());
  put(port, CARD_LIFE, life);
}

void port_close(struct port *port) {
  port->serves = 0;
  begin(port);
  put(port, CARD_LIFE, 0);
  image_lock_release(&port->lock);
  window_close(&port->machine->dma);
  close(port->descriptor);
}
