#include "loop.h"

#include <math.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "calls/children.h"
#include "calls/clock.h"
#include "calls/descriptors.h"

/* Places for poll: the signals, then what is to be readable, then what is to take bytes. */
struct places {
  struct pollfd each[1 + 2 * DESCRIPTORS_MAX];
  int readable_count, writable_count;
};

int loop_signals(void) {
  sigset_t held;
  sigemptyset(&held);
  sigaddset(&held, SIGTERM);
  sigaddset(&held, SIGINT);
  sigaddset(&held, SIGCHLD);
  /* Ignored, as whoever started us may have left it, none of our own would be waited for. */
  if (signal(SIGCHLD, SIG_DFL) == SIG_ERR || signal(SIGPIPE, SIG_IGN) == SIG_ERR) return -1;
  if (sigprocmask(SIG_BLOCK, &held, NULL) != 0) return -1;
  return signalfd(-1, &held, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Places for the descriptors in a property of the watch; how many; -1: thrown. */
static int add(JSContext *context, JSValueConst watch, const char *name, short event,
               struct pollfd *places) {
  int descriptors[DESCRIPTORS_MAX];
  int count = take_descriptors(context, watch, name, descriptors, DESCRIPTORS_MAX);
  for (int i = 0; i < count; i++) places[i] = (struct pollfd){descriptors[i], event, 0};
  return count;
}

static bool take_watch(JSContext *context, JSValueConst watch, struct places *places,
                       double *until_ms) {
  if (!JS_IsObject(watch)) {
    JS_ThrowTypeError(context, "what watch() returns is to be an object");
    return false;
  }
  struct pollfd *next = places->each + 1;
  places->readable_count = add(context, watch, "readable", POLLIN, next);
  if (places->readable_count < 0) return false;
  next += places->readable_count;
  places->writable_count = add(context, watch, "writable", POLLOUT, next);
  if (places->writable_count < 0) return false;
  JSValue until = JS_GetPropertyStr(context, watch, "untilMs");
  bool is_number = JS_IsNumber(until) && JS_ToFloat64(context, until_ms, until) == 0;
  JS_FreeValue(context, until);
  if (is_number && !isnan(*until_ms)) return true;
  if (!JS_HasException(context)) JS_ThrowTypeError(context, "untilMs is to be a number");
  return false;
}

/* An array of those of the places that something happened to. */
static JSValue ready_of(JSContext *context, const struct pollfd *places, int count) {
  JSValue list = JS_NewArray(context);
  uint32_t length = 0;
  for (int i = 0; i < count; i++) {
    if (places[i].revents == 0) continue;
    JSValue descriptor = JS_NewInt32(context, places[i].fd);
    JS_DefinePropertyValueUint32(context, list, length++, descriptor, JS_PROP_C_W_E);
  }
  return list;
}

/* Whether one came that tells the program to end. */
static bool read_signals(int signals) {
  struct signalfd_siginfo info;
  bool stops = false;
  while (read(signals, &info, sizeof info) == (ssize_t)sizeof info) {
    stops = stops || info.ssi_signo != SIGCHLD;
  }
  return stops;
}

JSValue loop_wait(JSContext *context, JSValueConst watch, int signals) {
  static struct places places;
  double until_ms;
  if (!take_watch(context, watch, &places, &until_ms)) return JS_EXCEPTION;
  int readable = places.readable_count, writable = places.writable_count;
  places.each[0] = (struct pollfd){signals, POLLIN, 0};
  clock_poll(places.each, (nfds_t)(1 + readable + writable), until_ms);
  bool stops = read_signals(signals);
  JSValue came = JS_NewObject(context);
  give(context, came, "readable", ready_of(context, places.each + 1, readable));
  give(context, came, "writable", ready_of(context, places.each + 1 + readable, writable));
  give(context, came, "ended", children_gather(context));
  give(context, came, "stops", JS_NewBool(context, stops));
  return came;
}
