/*
 * What the script's functions take and give: arguments that are checked, results, errors.
 *
 * Invariant: what takes an argument returns false, or NULL, with an exception thrown that
 * names the argument. A text has no NUL inside. Bytes are the script's own and stay where they are
 * until it runs again.
 */
#ifndef PERDURE_BOOT_VALUES_H
#define PERDURE_BOOT_VALUES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quickjs.h"

/* The head of a function that the script may call. */
#define HOST_FUNCTION(name)                                                         \
  JSValue name(JSContext *context, JSValueConst self __attribute__((unused)),       \
               int count __attribute__((unused)),                                   \
               JSValueConst *arguments __attribute__((unused)))

/* Beyond these a length is a mistake: the heap has no room for it. */
#define LENGTH_MAX (1ll << 30)
/* Up to here numbers of JavaScript are whole. */
#define NUMBER_MAX ((1ll << 53) - 1)

struct bytes {
  const uint8_t *at;
  size_t length;
};

/* To be freed by JS_FreeCString. */
const char *take_string(JSContext *context, JSValueConst value, const char *name);
bool take_path(JSContext *context, JSValueConst value, const char *name, char path[PATH_MAX]);
bool take_whole(JSContext *context, JSValueConst value, const char *name, int64_t least,
                int64_t most, int64_t *number);
bool take_flag(JSContext *context, JSValueConst value, const char *name, bool *flag);
/* Those of a typed array with elements of one byte. */
bool take_bytes(JSContext *context, JSValueConst value, const char *name, struct bytes *bytes);

/* How many elements an array has, at most so many; -1: thrown. */
int take_count(JSContext *context, JSValueConst value, const char *name, int most);
/* An array of strings that is a property of an object; NULL stands behind the last. */
char **take_strings(JSContext *context, JSValueConst object, const char *name);
void free_strings(char **strings);

/* An ArrayBuffer of bytes that js_malloc has given: it takes them. */
JSValue give_bytes(JSContext *context, uint8_t *bytes, size_t length);
void give(JSContext *context, JSValueConst object, const char *name, JSValue value);

/* Throws an Error with that text, as printf writes it, and `code`, if there is one. */
JSValue throw_error(JSContext *context, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Likewise for what the system said, errno: its words come behind the text, its name is `code`. */
JSValue throw_system(JSContext *context, int reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
