#include "memory/persist.h"

#include <stdbool.h>
#include <string.h>

/* First byte of the line of an address. */
static uintptr_t line_of(const void *address, uint32_t line_bytes) {
  return (uintptr_t)address & ~((uintptr_t)line_bytes - 1);
}

#if defined(__x86_64__)

#include <cpuid.h>

static void clean_clwb(const void *address, size_t length, uint32_t line_bytes) {
  uintptr_t end = (uintptr_t)address + length;
  for (uintptr_t at = line_of(address, line_bytes); at < end; at += line_bytes) {
    __asm__ volatile("clwb %0" : "+m"(*(volatile char *)at)::"memory");
  }
}

static void clean_clflushopt(const void *address, size_t length, uint32_t line_bytes) {
  uintptr_t end = (uintptr_t)address + length;
  for (uintptr_t at = line_of(address, line_bytes); at < end; at += line_bytes) {
    __asm__ volatile("clflushopt %0" : "+m"(*(volatile char *)at)::"memory");
  }
}

static void clean_clflush(const void *address, size_t length, uint32_t line_bytes) {
  uintptr_t end = (uintptr_t)address + length;
  for (uintptr_t at = line_of(address, line_bytes); at < end; at += line_bytes) {
    __asm__ volatile("clflush %0" : "+m"(*(volatile char *)at)::"memory");
  }
}

static void fence(void) { __asm__ volatile("sfence" ::: "memory"); }

/* Best first. */
enum { CLWB, CLFLUSHOPT, CLFLUSH, KINDS };

static struct persist kinds[KINDS] = {
    {"clwb", 64, true, clean_clwb, fence},
    {"clflushopt", 64, true, clean_clflushopt, fence},
    {"clflush", 64, true, clean_clflush, fence},
};

/* Which of them the CPU states, as bits; every CPU of this architecture has the last. */
static unsigned stated(void) {
  unsigned a = 0, b = 0, c = 0, d = 0, found = 1u << CLFLUSH;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return found;
  if (b & (1u << 24)) found |= 1u << CLWB;
  if (b & (1u << 23)) found |= 1u << CLFLUSHOPT;
  return found;
}

/* Leaf 1: EBX 15-8 is the line in units of eight bytes, where EDX bit 19 says CLFLUSH. */
static uint32_t line_bytes_of_cpu(void) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(d & (1u << 19))) return 64;
  uint32_t line_bytes = 8 * ((b >> 8) & 0xff);
  return line_bytes != 0 ? line_bytes : 64;
}

#elif defined(__aarch64__)

#include <setjmp.h>
#include <signal.h>
#include <sys/auxv.h>

/* HWCAP_DCPOP of the kernel: the CPU states FEAT_DPB. */
#define STATES_DC_CVAP (1ul << 16)

/* DC CVAP by its encoding, because the assembler refuses its name below ARMv8.2. */
static void clean_cvap(const void *address, size_t length, uint32_t line_bytes) {
  uintptr_t end = (uintptr_t)address + length;
  for (uintptr_t at = line_of(address, line_bytes); at < end; at += line_bytes) {
    __asm__ volatile("sys #3, C7, C12, #1, %0" ::"r"(at) : "memory");
  }
}

static void clean_cvac(const void *address, size_t length, uint32_t line_bytes) {
  uintptr_t end = (uintptr_t)address + length;
  for (uintptr_t at = line_of(address, line_bytes); at < end; at += line_bytes) {
    __asm__ volatile("dc cvac, %0" ::"r"(at) : "memory");
  }
}

static void fence(void) { __asm__ volatile("dsb sy" ::: "memory"); }

static sigjmp_buf trial_mark;

static void on_illegal(int number) {
  (void)number;
  siglongjmp(trial_mark, 1);
}

/* Executes the instruction once: what a CPU states, an emulator of it may not have. */
static bool survives(void (*clean)(const void *, size_t, uint32_t), uint32_t line_bytes) {
  struct sigaction action, before;
  uint64_t word = 0;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_illegal;
  action.sa_flags = SA_NODEFER;
  sigemptyset(&action.sa_mask);
  if (sigaction(SIGILL, &action, &before) != 0) return false;
  volatile bool survived = false;
  if (sigsetjmp(trial_mark, 0) == 0) {
    clean(&word, sizeof word, line_bytes);
    fence();
    survived = true;
  }
  sigaction(SIGILL, &before, NULL);
  return survived;
}

/* Best first. */
enum { CVAP, CVAC, KINDS };

static struct persist kinds[KINDS] = {
    {"dc cvap", 64, true, clean_cvap, fence},
    {"dc cvac", 64, false, clean_cvac, fence},
};

/* CTR_EL0.DminLine, bits 19-16: log2 of the words in the smallest data line. */
static uint32_t line_bytes_of_cpu(void) {
  uint64_t type;
  __asm__("mrs %0, ctr_el0" : "=r"(type));
  return 4u << ((type >> 16) & 0xf);
}

static unsigned stated(void) {
  unsigned found = 1u << CVAC;
  if (!(getauxval(AT_HWCAP) & STATES_DC_CVAP)) return found;
  return survives(clean_cvap, line_bytes_of_cpu()) ? found | 1u << CVAP : found;
}

#else
#error "no persistence instruction known for this CPU: x86-64 and arm64 only"
#endif

static const struct persist *kind(unsigned which) {
  kinds[which].line_bytes = line_bytes_of_cpu();
  return &kinds[which];
}

const struct persist *persist_detect(void) {
  unsigned found = stated(), which = 0;
  while (!(found & (1u << which))) which++;
  return kind(which);
}

const struct persist *persist_named(const char *name) {
  unsigned found = stated();
  for (unsigned which = 0; which < KINDS; which++) {
    if ((found & (1u << which)) && strcmp(kinds[which].name, name) == 0) return kind(which);
  }
  return NULL;
}
