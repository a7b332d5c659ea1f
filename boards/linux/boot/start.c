#include "start.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls/descriptors.h"

enum { FIRST_INHERITED = 3, NO_PROGRAM = 127, OLD_KERNEL_DESCRIPTORS = 1 << 16 };

static const char OUR_FILES[] = "/proc/self/fd/";

/* Finds out whether the program is a descriptor, and whether that is the script's. */
static bool take_file(JSContext *context, struct start *start) {
  size_t length = sizeof OUR_FILES - 1;
  start->file = -1;
  if (strncmp(start->program, OUR_FILES, length) != 0) return true;
  const char *digits = start->program + length;
  bool is_number = strlen(digits) < 5 && strspn(digits, "0123456789") == strlen(digits);
  int file = is_number && digits[0] != '\0' ? atoi(digits) : -1;
  if (descriptor_is_known(file)) {
    start->file = file;
    return true;
  }
  throw_error(context, "EBADF", "program: the script has no descriptor for %s", start->program);
  return false;
}

bool start_take(JSContext *context, JSValueConst what, struct start *start) {
  start->args = start->env = NULL;
  if (!JS_IsObject(what)) {
    JS_ThrowTypeError(context, "what is to be started is to be an object");
    return false;
  }
  JSValue program = JS_GetPropertyStr(context, what, "program");
  bool taken = !JS_IsException(program) &&
               take_path(context, program, "program", start->program) && take_file(context, start);
  JS_FreeValue(context, program);
  if (!taken) return false;
  int *to = start->inherits;
  start->inherits_count = take_descriptors(context, what, "inherits", to, INHERITS_MAX);
  if (start->inherits_count < 0) return false;
  start->args = take_strings(context, what, "args");
  if (start->args != NULL) start->env = take_strings(context, what, "env");
  if (start->env != NULL) return true;
  start_free(start);
  return false;
}

void start_free(struct start *start) {
  free_strings(start->args);
  free_strings(start->env);
}

/* From here to the exec only calls that are safe between fork and exec. */

/* A kernel before 5.11 has no word for it. */
static void close_on_exec_from(int first) {
  if (close_range((unsigned)first, ~0u, CLOSE_RANGE_CLOEXEC) == 0) return;
  for (int fd = first; fd < OLD_KERNEL_DESCRIPTORS; fd++) fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static void forget_signals(void) {
  sigset_t none;
  for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Puts what is inherited to its numbers, by way of numbers above, where nothing is overwritten. */
static bool arrange(const struct start *start, int *file, int *report) {
  int above = FIRST_INHERITED + start->inherits_count, moved[INHERITS_MAX];
  for (int i = 0; i < start->inherits_count; i++) {
    moved[i] = fcntl(start->inherits[i], F_DUPFD_CLOEXEC, above);
    if (moved[i] < 0) return false;
  }
  *report = fcntl(*report, F_DUPFD_CLOEXEC, above);
  *file = start->file < 0 ? -1 : fcntl(start->file, F_DUPFD_CLOEXEC, above);
  int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (*report < 0 || (*file < 0 && start->file >= 0) || nothing < 0) return false;
  if (dup2(nothing, STDIN_FILENO) < 0) return false;
  for (int i = 0; i < start->inherits_count; i++) {
    if (dup2(moved[i], FIRST_INHERITED + i) < 0) return false;
  }
  close_on_exec_from(above);
  return true;
}

static _Noreturn void become(const struct start *start, pid_t parent, int report) {
  int file;
  forget_signals();
  if (prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && getppid() != parent) _exit(NO_PROGRAM);
  if (arrange(start, &file, &report)) {
    if (file < 0) execve(start->program, start->args, start->env);
    else execveat(file, "", start->args, start->env, AT_EMPTY_PATH);
  }
  int reason = errno;
  ssize_t told = write(report, &reason, sizeof reason);
  (void)told;
  _exit(NO_PROGRAM);
}

/* What the new process says; 0: the program runs, since that has closed the pipe. */
static int hear_reason(int report) {
  int reason = 0;
  ssize_t came;
  do {
    came = read(report, &reason, sizeof reason);
  } while (came < 0 && errno == EINTR);
  return came == (ssize_t)sizeof reason ? reason : 0;
}

pid_t start_run(const struct start *start) {
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return -1;
  pid_t own = getpid(), pid = fork();
  if (pid == 0) become(start, own, report[1]);
  int reason = errno;
  close(report[1]);
  if (pid > 0) reason = hear_reason(report[0]);
  close(report[0]);
  if (pid > 0 && reason == 0) return pid;
  if (pid > 0) waitpid(pid, NULL, 0);
  errno = reason;
  return -1;
}
