/* The engine, and the functions of the firmware that were translated, in one: they are made of its
 * inner parts. */
#include "quickjs-patched.c"

#include "bind.h"

struct aot_function {
  JSValue (*entry)(JSContext *, JSObject *, JSValueConst, int, JSValueConst *);
  int code_bytes;
};

#include "support.h"

#include "firmware.h"

#define AOT_FUNCTIONS ((int)(sizeof aot_functions / sizeof *aot_functions))

/* In the order of the translation. Counts on from `index`; past the end: another program. */
static int each_function(JSFunctionBytecode *b, int index, bool binds) {
  if (index >= AOT_FUNCTIONS) return AOT_FUNCTIONS + 1;
  const struct aot_function *function = &aot_functions[index++];
  if (b->byte_code_len != function->code_bytes) return AOT_FUNCTIONS + 1;
  if (binds) b->native = function->entry;
  for (int i = 0; i < b->cpool_count; i++) {
    if (JS_VALUE_GET_TAG(b->cpool[i]) != JS_TAG_FUNCTION_BYTECODE) continue;
    index = each_function(JS_VALUE_GET_PTR(b->cpool[i]), index, binds);
  }
  return index;
}

bool aot_bind(JSValueConst program, const char *sha256) {
  if (strcmp(sha256, AOT_SHA256) != 0) return false;
  if (JS_VALUE_GET_TAG(program) != JS_TAG_FUNCTION_BYTECODE) return false;
  JSFunctionBytecode *b = JS_VALUE_GET_PTR(program);
  if (each_function(b, 0, false) != AOT_FUNCTIONS) return false;
  each_function(b, 0, true);
  return true;
}

int aot_bound(JSValueConst program) {
  if (JS_VALUE_GET_TAG(program) != JS_TAG_FUNCTION_BYTECODE) return 0;
  const JSFunctionBytecode *b = JS_VALUE_GET_PTR(program);
  int count = b->native != NULL;
  for (int i = 0; i < b->cpool_count; i++) count += aot_bound(b->cpool[i]);
  return count;
}

uint64_t aot_resumes(void) { return aot_resume_count; }

uint64_t aot_rested(void) { return aot_rest_count; }

#ifdef AOT_LEARNS
#include <fcntl.h>

/* The engine has its own. */
#undef free

/* Adds to the file that AOT_PROFILE names a line for each function, as the translator reads it: in
 * one piece, as other programs may do so at the same time. */
static void write_profile(void) {
  const char *path = getenv("AOT_PROFILE");
  char *text = NULL;
  size_t length = 0;
  FILE *lines = path != NULL ? open_memstream(&text, &length) : NULL;
  if (lines == NULL) return;
  for (int k = 0, first = 0; k < AOT_FUNCTIONS; first += aot_functions[k++].code_bytes) {
    int count = 0;
    for (int at = 0; at < aot_functions[k].code_bytes; at++) {
      if (aot_seen[first + at] == 0) continue;
      if (count++ == 0) fprintf(lines, "%s %x", aot_names[k], aot_functions[k].code_bytes);
      fprintf(lines, " %x:%x", at, aot_seen[first + at]);
    }
    if (count > 0) fputc('\n', lines);
  }
  fclose(lines);
  int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0 || write(file, text, length) != (ssize_t)length) perror(path);
  if (file >= 0) close(file);
  free(text);
}
#endif

void aot_unbind(JSRuntime *runtime) {
#ifdef AOT_LEARNS
  write_profile();
#endif
  memset(aot_habits, 0, sizeof aot_habits);
  for (size_t i = 0; i < sizeof aot_places / sizeof *aot_places; i++) {
    js_free_shape_null(runtime, aot_places[i].shape);
    aot_places[i].shape = NULL;
    aot_places[i].slot = aot_places[i].changes = 0;
  }
}
