#include "failure.h"

#include <stdio.h>
#include <string.h>

#include "service/log.h"

/* More than are refused at a time; of others beyond it is enough that these are told. */
enum { REFUSED_MAX = 32 };

static struct {
  JSValue promise, reason;
} refused[REFUSED_MAX];
static int refused_count;

static void forget(JSContext *context, int i) {
  JS_FreeValue(context, refused[i].promise);
  JS_FreeValue(context, refused[i].reason);
  refused[i] = refused[--refused_count];
}

static void note(JSContext *context, JSValueConst promise, JSValueConst reason, JS_BOOL is_handled,
                 void *opaque) {
  (void)opaque;
  if (!is_handled && refused_count < REFUSED_MAX) {
    refused[refused_count].promise = JS_DupValue(context, promise);
    refused[refused_count++].reason = JS_DupValue(context, reason);
  }
  for (int i = refused_count - 1; is_handled && i >= 0; i--) {
    if (JS_VALUE_GET_PTR(refused[i].promise) == JS_VALUE_GET_PTR(promise)) forget(context, i);
  }
}

void failure_watch(JSRuntime *runtime) {
  JS_SetHostPromiseRejectionTracker(runtime, note, NULL);
}

bool failure_refused(JSContext *context) {
  if (refused_count == 0) return false;
  JS_Throw(context, JS_DupValue(context, refused[0].reason));
  while (refused_count > 0) forget(context, refused_count - 1);
  return true;
}

static void cut_blanks(char *text) {
  size_t length = strlen(text);
  while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == ' ')) length--;
  text[length] = '\0';
}

void failure_tell(JSContext *context) {
  char text[1024] = "out of memory", stack[2048] = "";
  JSValue thrown = JS_GetException(context);
  const char *words = JS_ToCString(context, thrown);
  if (words != NULL) snprintf(text, sizeof text, "%s", words);
  JS_FreeCString(context, words);
  JSValue where = JS_IsObject(thrown) ? JS_GetPropertyStr(context, thrown, "stack") : JS_UNDEFINED;
  words = JS_IsString(where) ? JS_ToCString(context, where) : NULL;
  if (words != NULL) snprintf(stack, sizeof stack, "%s", words);
  JS_FreeCString(context, words);
  JS_FreeValue(context, where);
  JS_FreeValue(context, thrown);
  cut_blanks(stack);
  log_event(LOG_ERROR, "the script stopped", LOG_TEXT("reason", text));
  if (stack[0] != '\0') log_event(LOG_ERROR, "the script was at", LOG_TEXT("stack", stack));
}
