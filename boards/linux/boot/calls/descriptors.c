#include "calls/descriptors.h"

#include <unistd.h>

static bool known[DESCRIPTORS_MAX];

JSValue give_descriptor(JSContext *context, int descriptor) {
  if (descriptor >= DESCRIPTORS_MAX) {
    close(descriptor);
    return throw_error(context, "EMFILE", "%d descriptors are open: that is all that there may be",
                       DESCRIPTORS_MAX);
  }
  known[descriptor] = true;
  return JS_NewInt32(context, descriptor);
}

bool descriptor_is_known(int descriptor) {
  return descriptor >= 0 && descriptor < DESCRIPTORS_MAX && known[descriptor];
}

bool take_descriptor(JSContext *context, JSValueConst value, const char *name, int *descriptor) {
  int64_t number;
  if (!take_whole(context, value, name, INT32_MIN, INT32_MAX, &number)) return false;
  *descriptor = (int)number;
  if (descriptor_is_known(*descriptor)) return true;
  throw_error(context, "EBADF", "%s: the script has no descriptor %d", name, *descriptor);
  return false;
}

int take_descriptors(JSContext *context, JSValueConst object, const char *name, int *descriptors,
                     int most) {
  JSValue array = JS_GetPropertyStr(context, object, name);
  int count = JS_IsException(array) ? -1 : take_count(context, array, name, most);
  for (int i = 0; i < count; i++) {
    JSValue value = JS_GetPropertyUint32(context, array, (uint32_t)i);
    bool taken = !JS_IsException(value) && take_descriptor(context, value, name, &descriptors[i]);
    JS_FreeValue(context, value);
    if (!taken) count = -1;
  }
  JS_FreeValue(context, array);
  return count;
}

HOST_FUNCTION(host_close) {
  int descriptor;
  if (!take_descriptor(context, arguments[0], "descriptor", &descriptor)) return JS_EXCEPTION;
  known[descriptor] = false;
  close(descriptor);
  return JS_UNDEFINED;
}
