#include "values.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_BYTES = 6144, STRINGS_MAX = 1024 };

static JSValue throw_text(JSContext *context, const char *code, const char *message) {
  JSValue global = JS_GetGlobalObject(context);
  JSValue class = JS_GetPropertyStr(context, global, "Error");
  JSValue text = JS_NewString(context, message);
  JSValue error = JS_CallConstructor(context, class, 1, &text);
  JS_FreeValue(context, text);
  JS_FreeValue(context, class);
  JS_FreeValue(context, global);
  if (JS_IsException(error)) return error;
  if (code != NULL) give(context, error, "code", JS_NewString(context, code));
  return JS_Throw(context, error);
}

JSValue throw_error(JSContext *context, const char *code, const char *format, ...) {
  char message[MESSAGE_BYTES];
  va_list parts;
  va_start(parts, format);
  vsnprintf(message, sizeof message, format, parts);
  va_end(parts);
  return throw_text(context, code, message);
}

JSValue throw_system(JSContext *context, int reason, const char *format, ...) {
  char message[MESSAGE_BYTES];
  va_list parts;
  va_start(parts, format);
  vsnprintf(message, sizeof message, format, parts);
  va_end(parts);
  size_t length = strlen(message);
  snprintf(message + length, sizeof message - length, ": %s", strerror(reason));
  return throw_text(context, strerrorname_np(reason), message);
}

const char *take_string(JSContext *context, JSValueConst value, const char *name) {
  size_t length;
  if (!JS_IsString(value)) {
    JS_ThrowTypeError(context, "%s is to be a string", name);
    return NULL;
  }
  const char *text = JS_ToCStringLen(context, &length, value);
  if (text == NULL || strlen(text) == length) return text;
  JS_FreeCString(context, text);
  JS_ThrowTypeError(context, "%s has a NUL inside", name);
  return NULL;
}

bool take_path(JSContext *context, JSValueConst value, const char *name, char path[PATH_MAX]) {
  const char *text = take_string(context, value, name);
  if (text == NULL) return false;
  size_t length = strlen(text);
  bool fits = length > 0 && length < PATH_MAX;
  if (fits) memcpy(path, text, length + 1);
  else JS_ThrowRangeError(context, "%s is to have 1 to %d bytes", name, PATH_MAX - 1);
  JS_FreeCString(context, text);
  return fits;
}

bool take_whole(JSContext *context, JSValueConst value, const char *name, int64_t least,
                int64_t most, int64_t *number) {
  double given;
  if (!JS_IsNumber(value)) {
    JS_ThrowTypeError(context, "%s is to be a number", name);
    return false;
  }
  if (JS_ToFloat64(context, &given, value) != 0) return false;
  if (given >= (double)least && given <= (double)most && floor(given) == given) {
    *number = (int64_t)given;
    return true;
  }
  JS_ThrowRangeError(context, "%s is to be a whole number from %lld to %lld", name,
                     (long long)least, (long long)most);
  return false;
}

bool take_flag(JSContext *context, JSValueConst value, const char *name, bool *flag) {
  if (!JS_IsBool(value)) {
    JS_ThrowTypeError(context, "%s is to be true or false", name);
    return false;
  }
  *flag = JS_ToBool(context, value) != 0;
  return true;
}

bool take_bytes(JSContext *context, JSValueConst value, const char *name, struct bytes *bytes) {
  size_t offset, length, each, size;
  JSValue buffer = JS_GetTypedArrayBuffer(context, value, &offset, &length, &each);
  if (JS_IsException(buffer) || each != 1) {
    JS_FreeValue(context, JS_IsException(buffer) ? JS_GetException(context) : buffer);
    JS_ThrowTypeError(context, "%s is to be a Uint8Array", name);
    return false;
  }
  const uint8_t *at = JS_GetArrayBuffer(context, &size, buffer);
  /* The array keeps its buffer. */
  JS_FreeValue(context, buffer);
  if (at == NULL) return false;
  if (offset > size || length > size - offset) {
    JS_ThrowTypeError(context, "%s lies outside of its buffer", name);
    return false;
  }
  *bytes = (struct bytes){at + offset, length};
  return true;
}

int take_count(JSContext *context, JSValueConst value, const char *name, int most) {
  int64_t count;
  if (JS_IsArray(context, value) <= 0) {
    if (!JS_HasException(context)) JS_ThrowTypeError(context, "%s is to be an array", name);
    return -1;
  }
  JSValue length = JS_GetPropertyStr(context, value, "length");
  bool fits = take_whole(context, length, name, 0, UINT32_MAX, &count);
  JS_FreeValue(context, length);
  if (fits && count <= most) return (int)count;
  if (fits) JS_ThrowRangeError(context, "%s is to have at most %d elements", name, most);
  return -1;
}

static char *take_copy(JSContext *context, JSValueConst array, uint32_t i, const char *name) {
  JSValue value = JS_GetPropertyUint32(context, array, i);
  const char *text = JS_IsException(value) ? NULL : take_string(context, value, name);
  char *copy = text == NULL ? NULL : strdup(text);
  if (text != NULL && copy == NULL) JS_ThrowOutOfMemory(context);
  JS_FreeCString(context, text);
  JS_FreeValue(context, value);
  return copy;
}

static char **take_copies(JSContext *context, JSValueConst array, const char *name) {
  int count = take_count(context, array, name, STRINGS_MAX);
  if (count < 0) return NULL;
  char **strings = calloc((size_t)count + 1, sizeof *strings);
  if (strings == NULL) {
    JS_ThrowOutOfMemory(context);
    return NULL;
  }
  for (int i = 0; i < count; i++) {
    strings[i] = take_copy(context, array, (uint32_t)i, name);
    if (strings[i] != NULL) continue;
    free_strings(strings);
    return NULL;
  }
  return strings;
}

char **take_strings(JSContext *context, JSValueConst object, const char *name) {
  JSValue array = JS_GetPropertyStr(context, object, name);
  char **strings = JS_IsException(array) ? NULL : take_copies(context, array, name);
  JS_FreeValue(context, array);
  return strings;
}

void free_strings(char **strings) {
  for (char **one = strings; one != NULL && *one != NULL; one++) free(*one);
  free(strings);
}

static void free_bytes(JSRuntime *runtime, void *opaque, void *bytes) {
  (void)opaque;
  js_free_rt(runtime, bytes);
}

JSValue give_bytes(JSContext *context, uint8_t *bytes, size_t length) {
  JSValue buffer = JS_NewArrayBuffer(context, bytes, length, free_bytes, NULL, false);
  if (JS_IsException(buffer)) js_free(context, bytes);
  return buffer;
}

void give(JSContext *context, JSValueConst object, const char *name, JSValue value) {
  JS_DefinePropertyValueStr(context, object, name, value, JS_PROP_C_W_E);
}
