#include "calls/children.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "start.h"

enum { CHILDREN_MAX = 64 };

static struct {
  pid_t pid;
  bool ended;
} children[CHILDREN_MAX];
static int children_count;

bool children_has(pid_t pid) {
  for (int i = 0; i < children_count; i++) {
    if (children[i].pid == pid) return true;
  }
  return false;
}

static void forget_ended(void) {
  int kept = 0;
  for (int i = 0; i < children_count; i++) {
    if (!children[i].ended) children[kept++] = children[i];
  }
  children_count = kept;
}

/* False: it is none of them. Process 1 of a container gets what others have left behind, too. */
static bool note_end(pid_t pid) {
  for (int i = 0; i < children_count; i++) {
    if (children[i].pid != pid || children[i].ended) continue;
    children[i].ended = true;
    return true;
  }
  return false;
}

JSValue children_gather(JSContext *context) {
  JSValue list = JS_NewArray(context);
  uint32_t count = 0;
  int status;
  pid_t pid;
  forget_ended();
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
    if (!note_end(pid)) continue;
    int said = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    JSValue one = JS_NewObject(context);
    give(context, one, "pid", JS_NewInt32(context, pid));
    give(context, one, "status", JS_NewInt32(context, said));
    JS_DefinePropertyValueUint32(context, list, count++, one, JS_PROP_C_W_E);
  }
  return list;
}

HOST_FUNCTION(host_spawn) {
  struct start start;
  if (children_count == CHILDREN_MAX) {
    return throw_error(context, "EAGAIN", "%d programs run: that is all that there may be",
                       CHILDREN_MAX);
  }
  if (!start_take(context, arguments[0], &start)) return JS_EXCEPTION;
  pid_t pid = start_run(&start);
  if (pid < 0) throw_system(context, errno, "%s cannot be started", start.program);
  start_free(&start);
  if (pid < 0) return JS_EXCEPTION;
  children[children_count].pid = pid;
  children[children_count++].ended = false;
  return JS_NewInt32(context, pid);
}

/* The number of a signal that is called so without SIG; 0: none is. */
static int signal_of(const char *name) {
  for (int number = 1; number < NSIG; number++) {
    const char *abbreviation = sigabbrev_np(number);
    if (abbreviation != NULL && strcmp(abbreviation, name) == 0) return number;
  }
  return 0;
}

HOST_FUNCTION(host_kill) {
  int64_t pid;
  if (!take_whole(context, arguments[0], "pid", 1, INT32_MAX, &pid)) return JS_EXCEPTION;
  const char *name = take_string(context, arguments[1], "signal");
  if (name == NULL) return JS_EXCEPTION;
  int number = signal_of(name);
  if (number == 0) JS_ThrowRangeError(context, "there is no signal '%s'", name);
  JS_FreeCString(context, name);
  if (number == 0) return JS_EXCEPTION;
  for (int i = 0; i < children_count; i++) {
    if (children[i].pid == (pid_t)pid && !children[i].ended) kill((pid_t)pid, number);
  }
  return JS_UNDEFINED;
}
