/* perdure-boot: a small host around the one script that it was linked with. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "embedded.h"
#include "exit-codes.h"
#include "failure.h"
#include "loop.h"
#include "script.h"
#include "service/log.h"
#include "service/notify.h"
#include "version.h"

enum { HEAP_BYTES = 192 << 20, STACK_BYTES = 512 << 10, STACK_BESIDE_BYTES = 512 << 10 };

struct program {
  JSRuntime *runtime;
  JSContext *context;
  JSValue script; /* what start() has returned */
  int signals;
};

/* Descriptors 0, 1 and 2 are open, so that nothing that is opened later is taken for stdio. */
static bool has_stdio(void) {
  for (;;) {
    int fd = open("/dev/null", O_RDWR);
    if (fd < 0) return false;
    if (fd <= STDERR_FILENO) continue;
    close(fd);
    return true;
  }
}

/* The engine stops at its own bound: the system's must lie behind it. */
static bool has_stack(void) {
  struct rlimit limit;
  rlim_t needed = STACK_BYTES + STACK_BESIDE_BYTES;
  if (getrlimit(RLIMIT_STACK, &limit) != 0) return false;
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= needed) return true;
  limit.rlim_cur = needed;
  return setrlimit(RLIMIT_STACK, &limit) == 0;
}

static bool open_engine(struct program *program) {
  program->runtime = JS_NewRuntime();
  if (program->runtime == NULL) return false;
  JS_SetMemoryLimit(program->runtime, HEAP_BYTES);
  JS_SetMaxStackSize(program->runtime, STACK_BYTES);
  failure_watch(program->runtime);
  program->context = JS_NewContext(program->runtime);
  return program->context != NULL;
}

static bool prepare(struct program *program) {
  const char *what = NULL;
  if (!has_stdio()) what = "there is no stdio";
  else if (!has_stack()) what = "there is too little stack";
  else if (sodium_init() < 0) what = "libsodium cannot start on this machine";
  else if ((program->signals = loop_signals()) < 0) what = "signals cannot be held back";
  else if (!open_engine(program)) what = "QuickJS has no room to start";
  if (what != NULL) log_event(LOG_ERROR, what, LOG_TEXT("reason", strerror(errno)));
  return what == NULL;
}

/* Does the work that waits in promises; false: thrown. */
static bool settle(struct program *program) {
  JSContext *context;
  int done;
  while ((done = JS_ExecutePendingJob(program->runtime, &context)) > 0) {
  }
  return done == 0 && !failure_refused(program->context);
}

/* Calls a function of an object with one argument, and does the work that it leaves. */
static JSValue call(struct program *program, JSValueConst object, const char *name,
                    JSValueConst argument) {
  JSContext *context = program->context;
  JSAtom atom = JS_NewAtom(context, name);
  JSValue result = JS_Invoke(context, object, atom, 1, &argument);
  JS_FreeAtom(context, atom);
  if (JS_IsException(result) || settle(program)) return result;
  JS_FreeValue(context, result);
  return JS_EXCEPTION;
}

/* False: thrown. */
static bool start(struct program *program, char *const *words) {
  JSContext *context = program->context;
  int flags = JS_EVAL_TYPE_GLOBAL | JS_EVAL_FLAG_STRICT;
  JSValue value = JS_Eval(context, embedded_script, embedded_script_bytes, "boot.js", flags);
  if (JS_IsException(value)) return false;
  JS_FreeValue(context, value);
  JSValue global = JS_GetGlobalObject(context);
  JSValue entry = JS_GetPropertyStr(context, global, "perdureBoot");
  JSValue host = script_host(context, words);
  program->script = call(program, entry, "start", host);
  JS_FreeValue(context, host);
  JS_FreeValue(context, entry);
  JS_FreeValue(context, global);
  return !JS_IsException(program->script);
}

/* Waits and tells the script what came, until it wants to end; false: thrown. */
static bool run(struct program *program, int *code) {
  JSContext *context = program->context;
  while (!script_exits(code)) {
    JSValue watch = call(program, program->script, "watch", JS_UNDEFINED);
    if (JS_IsException(watch)) return false;
    JSValue came = script_exits(code) ? JS_NULL : loop_wait(context, watch, program->signals);
    JS_FreeValue(context, watch);
    if (JS_IsException(came)) return false;
    if (JS_IsNull(came)) break;
    JSValue nothing = call(program, program->script, "turn", came);
    JS_FreeValue(context, came);
    if (JS_IsException(nothing)) return false;
    JS_FreeValue(context, nothing);
  }
  return true;
}

int main(int count, char **words) {
  static struct program program;
  int code = EXIT_OK;
  if (count == 2 && strcmp(words[1], "--version") == 0) {
    return puts("perdure-boot " PERDURE_VERSION) < 0 ? EXIT_SYSTEM : EXIT_OK;
  }
  if (!prepare(&program)) return EXIT_SYSTEM;
  notify_open();
  /* An engine that something was thrown in may not be fit to be taken down: it goes with us. */
  if (!start(&program, words + (count > 0)) || !run(&program, &code)) {
    failure_tell(program.context);
    return EXIT_FIRMWARE;
  }
  JS_FreeValue(program.context, program.script);
  JS_FreeContext(program.context);
  JS_FreeRuntime(program.runtime);
  return code;
}
