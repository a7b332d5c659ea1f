/*
 * A program that was translated and the same interpreted, side by side, for
 * test/boards/linux/aot/aot.test.ts.
 *
 *   aot-harness PROGRAM.js SHA256 [SHARE]
 *
 * The program leaves two global functions: `cases()`, a count, and `play(i)`, a text. Every case is
 * played in a runtime that interprets the program, because it offered another SHA-256 to aot_bind,
 * and in one that runs what was translated. Some were played in a translated runtime before: that
 * leaves nothing to the later one. Printed is one line of JSON, numbers alone, then for each case
 * whose texts differ where they begin to.
 *
 * The program may call `allow(n)`: what runs then is stopped when it has polled for interrupts
 * about 10000 n times; `n` below 0 lets it run. What is stopped is no exception that it could
 * catch. `detach(buffer)` takes the bytes from an ArrayBuffer, and `collect()` frees circles;
 * `runs()` is 1 where it is interpreted, else 2. `share()` is SHARE, 0 if there is none: for
 * another the program may have fewer cases.
 */

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bind.h"
#include "quickjs.h"

enum {
  STACK_BYTES = 3 << 20, /* of the machine's 8 MiB: the sanitizers make wide frames */
  CONTEXT_BYTES = 160,   /* of a difference that are printed to either side */
  DIFFERENCES_PRINTED = 20,
  BEFORE_STEP = 19, /* each so many cases is played in the runtime before */
};

struct outcome {
  int functions; /* that run as what they were translated to */
  uint32_t count;
  char **texts;
  uint64_t bytes; /* of all texts */
  int64_t allocations, objects;
  uint64_t resumes, rests;
};

static int64_t patience = -1;
static int run_count, share_number;

static void must(bool holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "%s\n", what);
  exit(3);
}

static char *read_file(const char *path, size_t *length) {
  FILE *file = fopen(path, "rb");
  must(file != NULL, "the program cannot be opened");
  must(fseek(file, 0, SEEK_END) == 0, "the program cannot be read");
  long size = ftell(file);
  rewind(file);
  must(size >= 0, "the program cannot be read");
  char *text = malloc((size_t)size + 1);
  must(text != NULL, "no memory");
  must(fread(text, 1, (size_t)size, file) == (size_t)size, "the program cannot be read");
  text[size] = '\0';
  fclose(file);
  *length = (size_t)size;
  return text;
}

static int interrupt(JSRuntime *runtime, void *nothing) {
  (void)runtime;
  (void)nothing;
  return patience >= 0 && patience-- == 0;
}

static JSValue allow(JSContext *context, JSValueConst self, int count, JSValueConst *arguments) {
  (void)self;
  if (count < 1 || JS_ToInt64(context, &patience, arguments[0]) != 0) return JS_EXCEPTION;
  return JS_UNDEFINED;
}

/* The same program says something else with it. */
static JSValue runs(JSContext *context, JSValueConst self, int count, JSValueConst *arguments) {
  (void)self;
  (void)count;
  (void)arguments;
  return JS_NewInt32(context, run_count);
}

static JSValue share(JSContext *context, JSValueConst self, int count, JSValueConst *arguments) {
  (void)self;
  (void)count;
  (void)arguments;
  return JS_NewInt32(context, share_number);
}

static JSValue detach(JSContext *context, JSValueConst self, int count, JSValueConst *arguments) {
  (void)self;
  if (count > 0) JS_DetachArrayBuffer(context, arguments[0]);
  return JS_UNDEFINED;
}

static JSValue collect(JSContext *context, JSValueConst self, int count, JSValueConst *arguments) {
  (void)self;
  (void)count;
  (void)arguments;
  JS_RunGC(JS_GetRuntime(context));
  return JS_UNDEFINED;
}

static char *text_of(JSContext *context, JSValueConst value) {
  const char *text = JS_ToCString(context, value);
  char *copy = strdup(text == NULL ? "(no text)" : text);
  must(copy != NULL, "no memory");
  JS_FreeCString(context, text);
  return copy;
}

/* What nothing caught. Where it was is not told: a run is stopped where it happens to poll. */
static char *text_of_exception(JSContext *context) {
  patience = -1;
  JSValue exception = JS_GetException(context);
  char *said = text_of(context, exception);
  JS_FreeValue(context, exception);
  return said;
}

static void must_run(JSContext *context, JSValueConst value) {
  if (!JS_IsException(value)) return;
  char *text = text_of_exception(context);
  fprintf(stderr, "%s\n", text);
  free(text);
  exit(3);
}

/* Each `step` cases; the texts of others are NULL. */
static void play(JSContext *context, JSValueConst global, uint32_t step, struct outcome *outcome) {
  JSValue cases = JS_GetPropertyStr(context, global, "cases");
  JSValue player = JS_GetPropertyStr(context, global, "play");
  JSValue count = JS_Call(context, cases, JS_UNDEFINED, 0, NULL);
  must_run(context, count);
  must(JS_ToUint32(context, &outcome->count, count) == 0, "the cases cannot be counted");
  outcome->texts = calloc(outcome->count + 1, sizeof *outcome->texts);
  must(outcome->texts != NULL, "no memory");
  for (uint32_t i = 0; i < outcome->count; i += step) {
    JSValue number = JS_NewUint32(context, i);
    JSValue text = JS_Call(context, player, JS_UNDEFINED, 1, &number);
    patience = -1;
    outcome->texts[i] =
        JS_IsException(text) ? text_of_exception(context) : text_of(context, text);
    outcome->bytes += strlen(outcome->texts[i]);
    JS_FreeValue(context, text);
  }
  JS_FreeValue(context, player);
  JS_FreeValue(context, cases);
}

static void furnish(JSContext *context, JSValueConst global) {
  static const struct {
    const char *name;
    JSCFunction *function;
  } given[] = {
      {"allow", allow}, {"detach", detach}, {"collect", collect}, {"runs", runs}, {"share", share},
  };
  for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
    JSValue function = JS_NewCFunction(context, given[i].function, given[i].name, 1);
    JS_SetPropertyStr(context, global, given[i].name, function);
  }
}

static void run(const char *source, size_t length, const char *sha256, bool fits, uint32_t step,
                struct outcome *outcome) {
  run_count = fits ? 2 : 1;
  JSRuntime *runtime = JS_NewRuntime();
  must(runtime != NULL, "no memory");
  JS_SetMaxStackSize(runtime, STACK_BYTES);
  JS_SetInterruptHandler(runtime, interrupt, NULL);
  JSContext *context = JS_NewContext(runtime);
  must(context != NULL, "no memory");
  JSValue global = JS_GetGlobalObject(context);
  furnish(context, global);
  int flags = JS_EVAL_TYPE_GLOBAL | JS_EVAL_FLAG_STRICT | JS_EVAL_FLAG_COMPILE_ONLY;
  JSValue program = JS_Eval(context, source, length, "program.js", flags);
  must_run(context, program);
  JSValue done = JS_EvalFunction(context, JS_DupValue(context, program));
  must_run(context, done);
  JS_FreeValue(context, done);
  must(aot_bind(program, sha256) == fits, "aot_bind takes what it should refuse, or refuses");
  outcome->functions = aot_bound(program);
  JS_FreeValue(context, program);
  outcome->resumes = aot_resumes();
  outcome->rests = aot_rested();
  play(context, global, step, outcome);
  outcome->resumes = aot_resumes() - outcome->resumes;
  outcome->rests = aot_rested() - outcome->rests;
  JS_FreeValue(context, global);
  aot_unbind(runtime);
  JS_RunGC(runtime);
  JSMemoryUsage usage;
  JS_ComputeMemoryUsage(runtime, &usage);
  outcome->allocations = usage.malloc_count;
  outcome->objects = usage.obj_count;
  JS_FreeContext(context);
  JS_FreeRuntime(runtime);
}

/* Where two texts begin to differ, and what stands there. */
static void show(uint32_t number, const char *interpreted, const char *translated) {
  size_t at = 0;
  while (interpreted[at] != '\0' && interpreted[at] == translated[at]) at++;
  size_t from = at > CONTEXT_BYTES ? at - CONTEXT_BYTES : 0;
  int size = (int)(at - from) + CONTEXT_BYTES;
  printf("case %" PRIu32 ", from byte %zu:\n- %.*s\n+ %.*s\n", number, from, size,
         interpreted + from, size, translated + from);
}

static void forget(struct outcome *outcome) {
  for (uint32_t i = 0; i < outcome->count; i++) free(outcome->texts[i]);
  free(outcome->texts);
}

int main(int count, char **arguments) {
  must((count == 3 || count == 4) && strlen(arguments[2]) == 64,
       "usage: aot-harness PROGRAM.js SHA256 [SHARE]");
  if (count == 4) share_number = atoi(arguments[3]);
  size_t length;
  char *source = read_file(arguments[1], &length);
  char other[65];
  snprintf(other, sizeof other, "%s", arguments[2]);
  other[0] = other[0] == '0' ? '1' : '0';
  struct outcome before = {0}, interpreted = {0}, translated = {0};
  run(source, length, arguments[2], true, BEFORE_STEP, &before);
  forget(&before);
  run(source, length, other, false, 1, &interpreted);
  run(source, length, arguments[2], true, 1, &translated);
  must(interpreted.count == translated.count, "not so many cases the second time");
  uint32_t differences = 0;
  for (uint32_t i = 0; i < interpreted.count; i++) {
    differences += strcmp(interpreted.texts[i], translated.texts[i]) != 0;
  }
  printf("{\"functions\":[%d,%d],\"cases\":%" PRIu32 ",\"bytes\":%" PRIu64
         ",\"differences\":%" PRIu32 ",\"allocations\":[%" PRId64 ",%" PRId64
         "],\"objects\":[%" PRId64 ",%" PRId64 "],\"resumes\":%" PRIu64 ",\"rests\":%" PRIu64 "}\n",
         interpreted.functions, translated.functions, interpreted.count, interpreted.bytes,
         differences, interpreted.allocations, translated.allocations, interpreted.objects,
         translated.objects, translated.resumes, translated.rests);
  for (uint32_t i = 0, printed = 0; i < interpreted.count; i++) {
    bool differs = strcmp(interpreted.texts[i], translated.texts[i]) != 0;
    if (differs && printed++ < DIFFERENCES_PRINTED) {
      show(i, interpreted.texts[i], translated.texts[i]);
    }
  }
  forget(&interpreted);
  forget(&translated);
  free(source);
  return 0;
}
