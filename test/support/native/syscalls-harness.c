/*
 * What is tried behind the filter of system calls (confine/syscalls.h): the argument names it.
 * Prints "confined" before and "returned" behind; where there is no filter, why.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "confine/syscalls.h"

#define PAGE 4096
#define ANONYMOUS (MAP_PRIVATE | MAP_ANONYMOUS)
/* Of x86-64: numbers of calls with pointers of 32 bits begin here. */
#define X32 0x40000000

/* No trial harms anybody if the filter lets it pass. */
#define NO_PROCESS 0x7fffffff
#define NO_FILE "/dev/null/none"

static void *page;
static pid_t parent;

static void run_program(void) { execl("/bin/true", "true", (char *)NULL); }
static void make_process(void) { syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L); }
static void make_socket(void) { socket(AF_INET, SOCK_DGRAM, 0); }
static void connect_socket(void) { connect(0, NULL, 0); }
static void listen_socket(void) { listen(0, 1); }
static void map_code(void) { mmap(NULL, PAGE, PROT_READ | PROT_EXEC, ANONYMOUS, -1, 0); }
static void make_code(void) { mprotect(page, PAGE, PROT_READ | PROT_EXEC); }
static void end_another(void) { kill(NO_PROCESS, SIGURG); }
static void trace(void) { ptrace(PTRACE_ATTACH, NO_PROCESS, NULL, NULL); }
static void type_for_another(void) { ioctl(0, TIOCSTI, "x"); }
static void change_user(void) { setuid(getuid()); }
static void make_readable(void) { chmod(NO_FILE, 0777); }
static void set_process(void) { prctl(PR_SET_DUMPABLE, 1); }
static void call_as_x32(void) { syscall(X32 + SYS_getpid); }
static void call_no_number(void) { syscall(100000); }

static void look_for_another(void) { kill(parent, 0); }
static void map_data(void) { mmap(NULL, PAGE, PROT_READ | PROT_WRITE, ANONYMOUS, -1, 0); }
static void make_data(void) { mprotect(page, PAGE, PROT_READ); }
static void look_at_terminal(void) { isatty(0); }
static void draw(void) {
  uint8_t bytes[8];
  ssize_t drawn = getrandom(bytes, sizeof bytes, 0);
  (void)drawn;
}
static void open_file(void) { close(open("/dev/null", O_RDWR | O_CLOEXEC)); }

static const struct trial {
  const char *name;
  void (*run)(void);
} TRIALS[] = {
    {"run-program", run_program},
    {"make-process", make_process},
    {"make-socket", make_socket},
    {"connect-socket", connect_socket},
    {"listen-socket", listen_socket},
    {"map-code", map_code},
    {"make-code", make_code},
    {"end-another", end_another},
    {"trace", trace},
    {"type-for-another", type_for_another},
    {"change-user", change_user},
    {"make-readable", make_readable},
    {"set-process", set_process},
    {"call-as-x32", call_as_x32},
    {"call-no-number", call_no_number},
    {"look-for-another", look_for_another},
    {"map-data", map_data},
    {"make-data", make_data},
    {"look-at-terminal", look_at_terminal},
    {"draw", draw},
    {"open-file", open_file},
};

static void say(const char *text) {
  ssize_t written = write(STDOUT_FILENO, text, strlen(text));
  (void)written;
}

int main(int count, char **words) {
  struct fault fault;
  const struct trial *trial = NULL;
  for (size_t i = 0; i < sizeof TRIALS / sizeof TRIALS[0]; i++) {
    if (count == 2 && strcmp(words[1], TRIALS[i].name) == 0) trial = &TRIALS[i];
  }
  if (trial == NULL) return 2;
  parent = getppid();
  page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, ANONYMOUS, -1, 0);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || !syscalls_confine(&fault)) {
    say(fault.text);
    return 3;
  }
  say("confined ");
  trial->run();
  say("returned");
  return 0;
}
