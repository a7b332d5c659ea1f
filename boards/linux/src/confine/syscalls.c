#include "confine/syscalls.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined __x86_64__
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "which processor is this?"
#endif

#ifdef __SANITIZE_ADDRESS__
#define IS_WATCHED true
#else
#define IS_WATCHED false
#endif

/* A page may have any protection but that of code. */
#define ANY_BUT_CODE(call) {(call), 2, PROT_EXEC, 0, true}
#define ANYHOW(call) {(call), 0, 0, 0, false}

/* One call of the list. */
struct allowed {
  uint32_t call;
  /* Which argument decides, and of it which bits, and what they have to be. */
  uint32_t argument, mask, value;
  bool decides;
};

/* Those of every burst come first: the kernel looks from the top. */
static const struct allowed ALLOWED[] = {
    ANYHOW(SYS_recvmmsg),
    ANYHOW(SYS_sendmmsg),
    ANYHOW(SYS_ppoll),
    ANYHOW(SYS_clock_gettime),
    ANYHOW(SYS_sync_file_range),
    ANYHOW(SYS_pread64),
    ANYHOW(SYS_pwrite64),
    ANYHOW(SYS_recvfrom),
    ANYHOW(SYS_sendto),
    ANYHOW(SYS_epoll_pwait),
    ANYHOW(SYS_epoll_ctl),
#ifdef SYS_epoll_wait
    ANYHOW(SYS_epoll_wait),
    ANYHOW(SYS_poll),
#endif
    /* What is open, and whoever connects to what listens. */
    ANYHOW(SYS_read),
    ANYHOW(SYS_write),
    ANYHOW(SYS_writev),
    ANYHOW(SYS_lseek),
    ANYHOW(SYS_close),
    ANYHOW(SYS_accept4),
    ANYHOW(SYS_getsockopt),
    ANYHOW(SYS_setsockopt),
    ANYHOW(SYS_getsockname),
    ANYHOW(SYS_fdatasync),
    ANYHOW(SYS_fsync),
    ANYHOW(SYS_ftruncate),
    ANYHOW(SYS_fcntl),
    ANYHOW(SYS_flock),
    /* Is the interface there? Is this a terminal, and how is it set? */
    {SYS_ioctl, 1, UINT32_MAX, SIOCGIFNAME, true},
    {SYS_ioctl, 1, UINT32_MAX, SIOCGIFFLAGS, true},
    {SYS_ioctl, 1, UINT32_MAX, TCGETS, true},
    {SYS_ioctl, 1, UINT32_MAX, TCSETS, true},
    /* A terminal of the console that comes back, and the files that go when it ends. */
    ANYHOW(SYS_openat),
    ANYHOW(SYS_newfstatat),
    ANYHOW(SYS_fstat),
    ANYHOW(SYS_unlinkat),
    ANYHOW(SYS_renameat),
#ifdef SYS_unlink
    ANYHOW(SYS_open),
    ANYHOW(SYS_unlink),
    ANYHOW(SYS_rename),
    ANYHOW(SYS_lstat),
#endif
    /* Memory. */
    ANYHOW(SYS_brk),
    ANYHOW(SYS_munmap),
    ANYHOW(SYS_madvise),
    ANYHOW(SYS_msync),
    ANYHOW(SYS_mremap),
    ANY_BUT_CODE(SYS_mmap),
    ANY_BUT_CODE(SYS_mprotect),
    /* Is the process there that had the port? */
    {SYS_kill, 1, UINT32_MAX, 0, true},
    ANYHOW(SYS_getpid),
    ANYHOW(SYS_getrandom),
    ANYHOW(SYS_rt_sigaction),
    ANYHOW(SYS_rt_sigprocmask),
    ANYHOW(SYS_rt_sigreturn),
    ANYHOW(SYS_restart_syscall),
    ANYHOW(SYS_futex),
    ANYHOW(SYS_exit_group),
};

/* Instructions for the head, and at the most for one of the list; behind all there is one more. */
#define HEAD 4
#define EACH 6
#define CALLS (sizeof ALLOWED / sizeof ALLOWED[0])

static void put(struct sock_filter *lines, unsigned short *count, struct sock_filter line) {
  lines[(*count)++] = line;
}

/* Lets that call go; where it is another one, the next is looked at. */
static void put_allowed(struct sock_filter *lines, unsigned short *count,
                        const struct allowed *allowed) {
  const struct sock_filter let_go = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const uint32_t call_at = (uint32_t)offsetof(struct seccomp_data, nr);
  put(lines, count,
      (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed->call, 0,
                                   allowed->decides ? EACH - 1 : 1));
  if (allowed->decides) {
    /* The lower half of it: neither processor has its bytes the other way round. */
    uint32_t at = (uint32_t)offsetof(struct seccomp_data, args) + 8 * allowed->argument;
    put(lines, count, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at));
    put(lines, count, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, allowed->mask));
    put(lines, count,
        (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed->value, 0, 1));
  }
  put(lines, count, let_go);
  if (allowed->decides)
    put(lines, count, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, call_at));
}

bool syscalls_confine(struct fault *fault) {
  static struct sock_filter lines[HEAD + EACH * CALLS + 1];
  const uint32_t architecture_at = (uint32_t)offsetof(struct seccomp_data, arch);
  const uint32_t call_at = (uint32_t)offsetof(struct seccomp_data, nr);
  const struct sock_filter end = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  unsigned short count = 0;
  if (IS_WATCHED) return fault_set(fault, "the sanitizers of this build make calls of their own");
  /* Numbers are those of one processor; of another one, of 32 bits, they mean something else. */
  put(lines, &count, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, architecture_at));
  put(lines, &count,
      (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0));
  put(lines, &count, end);
  put(lines, &count, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, call_at));
  for (size_t i = 0; i < CALLS; i++) put_allowed(lines, &count, &ALLOWED[i]);
  put(lines, &count, end);
  const struct sock_fprog program = {.len = count, .filter = lines};
  /* A filter would have older kernels slow down all speculation of the process. */
  const unsigned flags = SECCOMP_FILTER_FLAG_SPEC_ALLOW;
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) == 0) return true;
  return fault_set(fault, "the kernel filters no system calls: %s", strerror(errno));
}
