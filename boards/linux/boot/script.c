#include "script.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calls/children.h"
#include "calls/clock.h"
#include "calls/crypto.h"
#include "calls/descriptors.h"
#include "calls/files.h"
#include "calls/listeners.h"
#include "calls/memory-file.h"
#include "calls/messages.h"
#include "calls/streams.h"
#include "service/log.h"
#include "service/notify.h"

#if defined(__x86_64__)
#define ARCHITECTURE "x86-64"
#elif defined(__aarch64__)
#define ARCHITECTURE "arm64"
#endif

enum { EXIT_CODE_MAX = 255 };

static struct {
  bool asked;
  int code;
} end;

static HOST_FUNCTION(host_now_ms) {
  return JS_NewFloat64(context, floor(clock_ms()));
}

static HOST_FUNCTION(host_log) {
  static const struct {
    const char *name;
    enum log_level level;
  } LEVELS[] = {{"info", LOG_INFO}, {"warning", LOG_WARNING}, {"error", LOG_ERROR}};
  const char *level = take_string(context, arguments[0], "level");
  if (level == NULL) return JS_EXCEPTION;
  size_t i = 0, count_of_levels = sizeof LEVELS / sizeof LEVELS[0];
  while (i < count_of_levels && strcmp(level, LEVELS[i].name) != 0) i++;
  JS_FreeCString(context, level);
  if (i == count_of_levels) {
    return JS_ThrowRangeError(context, "level is to be info, warning or error");
  }
  const char *text = take_string(context, arguments[1], "text");
  if (text == NULL) return JS_EXCEPTION;
  log_write(LEVELS[i].level, text, (const struct log_field[]){{0}});
  JS_FreeCString(context, text);
  return JS_UNDEFINED;
}

/* What nobody takes is lost, and holds nothing up. */
static void print_all(const char *text, size_t length) {
  while (length > 0) {
    ssize_t went = write(STDOUT_FILENO, text, length);
    if (went < 0 && errno != EINTR) return;
    if (went < 0) continue;
    text += went;
    length -= (size_t)went;
  }
}

/* One write a line, so that it does not mix with those of programs that have our stdout. */
static HOST_FUNCTION(host_print) {
  const char *text = take_string(context, arguments[0], "text");
  if (text == NULL) return JS_EXCEPTION;
  size_t length = strlen(text);
  char *line = js_malloc(context, length + 1);
  if (line != NULL) {
    memcpy(line, text, length);
    line[length] = '\n';
    print_all(line, length + 1);
    js_free(context, line);
  }
  JS_FreeCString(context, text);
  return line == NULL ? JS_EXCEPTION : JS_UNDEFINED;
}

static HOST_FUNCTION(host_notify) {
  const char *state = take_string(context, arguments[0], "state");
  if (state == NULL) return JS_EXCEPTION;
  notify(state);
  JS_FreeCString(context, state);
  return JS_UNDEFINED;
}

static HOST_FUNCTION(host_exit) {
  int64_t code;
  if (!take_whole(context, arguments[0], "code", 0, EXIT_CODE_MAX, &code)) return JS_EXCEPTION;
  end.asked = true;
  end.code = (int)code;
  return JS_UNDEFINED;
}

bool script_exits(int *code) {
  if (end.asked) *code = end.code;
  return end.asked;
}

static const struct {
  const char *name;
  int arguments;
  JSCFunction *function;
} FUNCTIONS[] = {
    {"nowMs", 0, host_now_ms},
    {"log", 2, host_log},
    {"print", 1, host_print},
    {"readFile", 2, host_read_file},
    {"openStorage", 2, host_open_storage},
    {"lock", 1, host_lock},
    {"readAt", 3, host_read_at},
    {"writeAt", 3, host_write_at},
    {"sync", 1, host_sync},
    {"sha256", 1, host_sha256},
    {"verify", 3, host_verify},
    {"brotli", 2, host_brotli},
    {"memoryFile", 3, host_memory_file},
    {"listenUnix", 1, host_listen_unix},
    {"listenUdp", 2, host_listen_udp},
    {"portOf", 1, host_port_of},
    {"openTty", 1, host_open_tty},
    {"listenNotify", 1, host_listen_notify},
    {"accept", 1, host_accept},
    {"read", 2, host_read},
    {"write", 2, host_write},
    {"receiveFrom", 1, host_receive_from},
    {"sendTo", 3, host_send_to},
    {"close", 1, host_close},
    {"spawn", 1, host_spawn},
    {"kill", 2, host_kill},
    {"ask", 3, host_ask},
    {"notify", 1, host_notify},
    {"exit", 1, host_exit},
};

JSValue script_host(JSContext *context, char *const *words) {
  JSValue host = JS_NewObject(context), args = JS_NewArray(context);
  for (uint32_t i = 0; words[i] != NULL; i++) {
    JSValue word = JS_NewString(context, words[i]);
    JS_DefinePropertyValueUint32(context, args, i, word, JS_PROP_C_W_E);
  }
  give(context, host, "args", args);
  give(context, host, "architecture", JS_NewString(context, ARCHITECTURE));
  double watchdog_ms = floor((double)notify_watchdog_us() / 1e3);
  give(context, host, "watchdogMs", JS_NewFloat64(context, watchdog_ms));
  for (size_t i = 0; i < sizeof FUNCTIONS / sizeof FUNCTIONS[0]; i++) {
    const char *name = FUNCTIONS[i].name;
    JSCFunction *function = FUNCTIONS[i].function;
    give(context, host, name, JS_NewCFunction(context, function, name, FUNCTIONS[i].arguments));
  }
  return host;
}
