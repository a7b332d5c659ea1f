#include "persist.h"

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

const struct persist *persist_detect(void) {
  static struct persist found;
  unsigned a = 0, b = 0, c = 0, d = 0;
  found = (struct persist){"clflush", 64, true, clean_clflush, fence};
  /* Leaf 1: EBX 15-8 is the line in units of eight bytes, where EDX bit 19 says CLFLUSH. */
  if (__get_cpuid(1, &a, &b, &c, &d) && (d & (1u << 19)) && ((b >> 8) & 0xff) != 0) {
    found.line_bytes = 8 * ((b >> 8) & 0xff);
  }
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return &found;
  if (b & (1u << 24)) {
    found.name = "clwb";
    found.clean = clean_clwb;
  } else if (b & (1u << 23)) {
    found.name = "clflushopt";
    found.clean = clean_clflushopt;
  }
  return &found;
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

const struct persist *persist_detect(void) {
  static struct persist found;
  uint64_t type;
  __asm__("mrs %0, ctr_el0" : "=r"(type));
  /* CTR_EL0.DminLine, bits 19-16: log2 of the words in the smallest data line. */
  uint32_t line_bytes = 4u << ((type >> 16) & 0xf);
  found = (struct persist){"dc cvac", line_bytes, false, clean_cvac, fence};
  if ((getauxval(AT_HWCAP) & STATES_DC_CVAP) && survives(clean_cvap, line_bytes)) {
    found.name = "dc cvap";
    found.to_persistence = true;
    found.clean = clean_cvap;
  }
  return &found;
}

#else
#error "no persistence instruction known for this CPU: x86-64 and arm64 only"
#endif
