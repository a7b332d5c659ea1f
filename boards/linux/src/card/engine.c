#include "card/engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hal.h"
#include "quickjs.h"
#include "service/notify.h"

#include "bind.h"

/*
 * Up to so many frames a burst, somebody waits for each answer: it leaves at once, while the
 * firmware tidies up. Beyond, answers are sent together, by fewer system calls.
 */
#define PROMPT_FRAMES 4

/* While it starts: from one sign of life to the next, and what each asks for. */
#define SIGN_NS UINT64_C(1000000000)
#define SIGN "EXTEND_TIMEOUT_USEC=60000000"

struct engine {
  JSRuntime *runtime;
  JSContext *context;
  JSValue firmware, serve, idle;
  struct machine *machine;
  uint64_t call_ns, deadline_ns;
  uint64_t sign_ns; /* when the next sign of life is due; never once it has started */
  bool translated;
  bool prompt; /* frames leave behind the list that sends them, not only behind the call */
  const char *stopped;
  char text[2048];
  char report[ENGINE_REPORT_MAX + 1];
};

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The engine asks once in ten thousand loops and calls whether to go on. */
static int is_late(JSRuntime *runtime, void *opaque) {
  (void)runtime;
  struct engine *engine = opaque;
  uint64_t now = now_ns();
  if (now > engine->deadline_ns) return 1;
  if (now >= engine->sign_ns) {
    notify(SIGN);
    engine->sign_ns = now + SIGN_NS;
  }
  return 0;
}

static void start_clock(struct engine *engine) {
  engine->deadline_ns = now_ns() + engine->call_ns;
}

static JSValue run(JSContext *context, JSValueConst self, int count, JSValueConst *arguments) {
  (void)self;
  struct engine *engine = JS_GetContextOpaque(context);
  double commands = NAN;
  if (count > 0 && JS_ToFloat64(context, &commands, arguments[0]) != 0) return JS_EXCEPTION;
  uint64_t kept = engine->machine->kept;
  uint32_t done = machine_run(engine->machine, commands);
  /* The time that a file system takes is not the firmware's. */
  if (engine->machine->kept != kept) start_clock(engine);
  if (engine->prompt) links_flush(engine->machine->links);
  return JS_NewInt64(context, done);
}

/* Packet memory belongs to the machine: the engine never frees it. */
static void keep(JSRuntime *runtime, void *opaque, void *memory) {
  (void)runtime;
  (void)opaque;
  (void)memory;
}

/* Copies the property of an error as text; false if it is not there. */
static bool part_of(JSContext *context, JSValueConst error, const char *name, char *text,
                    size_t length) {
  text[0] = '\0';
  if (!JS_IsObject(error)) return false;
  JSValue value = JS_GetPropertyStr(context, error, name);
  const char *words = JS_IsString(value) ? JS_ToCString(context, value) : NULL;
  if (words != NULL) snprintf(text, length, "%s", words);
  JS_FreeCString(context, words);
  JS_FreeValue(context, value);
  return words != NULL;
}

/* As `reasonOf` of boards/emulator/run/guest.ts. */
static const char *reason_of(const char *name, const char *message) {
  if (strcmp(message, "interrupted") == 0) return "hung";
  if (strcmp(message, "out of memory") == 0) return "memory";
  if (strcmp(name, "InternalError") == 0 && strcmp(message, "stack overflow") == 0) return "stack";
  if (strstr(message, "'perdure' is not defined") != NULL) return "bundle";
  return "threw";
}

static void cut_blanks(char *text) {
  size_t length = strlen(text);
  while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == ' ')) length--;
  text[length] = '\0';
}

/* The firmware is over: why, from what was thrown. */
static void stop(struct engine *engine) {
  JSContext *context = engine->context;
  JSValue thrown = JS_GetException(context);
  char name[64], message[512], stack[1024];
  part_of(context, thrown, "name", name, sizeof name);
  if (!part_of(context, thrown, "message", message, sizeof message)) {
    const char *words = JS_IsNull(thrown) ? NULL : JS_ToCString(context, thrown);
    /* After a lack of memory the engine may not even be able to say so. */
    snprintf(message, sizeof message, "%s", words == NULL ? "out of memory" : words);
    JS_FreeCString(context, words);
  }
  part_of(context, thrown, "stack", stack, sizeof stack);
  cut_blanks(stack);
  engine->stopped = reason_of(name, message);
  snprintf(engine->text, sizeof engine->text, "%s: %s%s%s", name[0] == '\0' ? "error" : name,
           message, stack[0] == '\0' ? "" : "\n", stack);
  JS_FreeValue(context, thrown);
}

static void refuse(struct engine *engine, const char *text) {
  engine->stopped = "bundle";
  snprintf(engine->text, sizeof engine->text, "%s", text);
}

/*
 * Evaluates a script. Its functions run as what they were translated to, if that was done for the
 * script of that SHA-256; NULL: they are interpreted.
 */
static bool evaluate(struct engine *engine, const char *source, size_t length, const char *name,
                     const char *sha256) {
  start_clock(engine);
  int flags = JS_EVAL_TYPE_GLOBAL | JS_EVAL_FLAG_STRICT | JS_EVAL_FLAG_COMPILE_ONLY;
  JSValue program = JS_Eval(engine->context, source, length, name, flags);
  JSValue value = JS_EXCEPTION;
  if (!JS_IsException(program)) {
    value = JS_EvalFunction(engine->context, JS_DupValue(engine->context, program));
  }
  bool done = !JS_IsException(value);
  if (done) engine->translated = sha256 != NULL && aot_bind(program, sha256);
  else stop(engine);
  JS_FreeValue(engine->context, value);
  JS_FreeValue(engine->context, program);
  return done;
}

/* What the firmware may use: no Date, no Proxy, no weak references. */
static bool furnish(const struct engine *engine) {
  JSContext *context = engine->context;
  JS_AddIntrinsicBaseObjects(context);
  JS_AddIntrinsicEval(context);
  JS_AddIntrinsicStringNormalize(context);
  JS_AddIntrinsicRegExp(context);
  JS_AddIntrinsicJSON(context);
  JS_AddIntrinsicMapSet(context);
  JS_AddIntrinsicTypedArrays(context);
  JS_AddIntrinsicPromise(context);
  return !JS_HasException(context);
}

static JSValue numbers(JSContext *context, const uint8_t *bytes, size_t count) {
  JSValue list = JS_NewArray(context);
  for (uint32_t i = 0; i < count; i++) {
    JS_DefinePropertyValueUint32(context, list, i, JS_NewUint32(context, bytes[i]), JS_PROP_C_W_E);
  }
  return list;
}

static void set(JSContext *context, JSValueConst object, const char *name, JSValue value) {
  JS_DefinePropertyValueStr(context, object, name, value, JS_PROP_C_W_E);
}

static JSValue texts(JSContext *context, const struct identity_regions *regions) {
  JSValue list = JS_NewArray(context);
  for (uint32_t i = 0; i < regions->count; i++) {
    JSValue name = JS_NewString(context, regions->names[i]);
    JS_DefinePropertyValueUint32(context, list, i, name, JS_PROP_C_W_E);
  }
  return list;
}

static JSValue peer_object(JSContext *context, const struct identity_peer *peer) {
  JSValue object = JS_NewObject(context);
  set(context, object, "key", numbers(context, peer->key, sizeof peer->key));
  set(context, object, "name", JS_NewString(context, peer->name));
  set(context, object, "admin", JS_NewBool(context, peer->admin));
  set(context, object, "read", texts(context, &peer->read));
  set(context, object, "write", texts(context, &peer->write));
  return object;
}

static JSValue identity_object(JSContext *context, const struct identity *identity) {
  JSValue object = JS_NewObject(context), peers = JS_NewArray(context);
  for (uint32_t i = 0; i < identity->peers_count; i++) {
    JSValue peer = peer_object(context, &identity->peers[i]);
    JS_DefinePropertyValueUint32(context, peers, i, peer, JS_PROP_C_W_E);
  }
  set(context, object, "secret", numbers(context, identity->secret, sizeof identity->secret));
  set(context, object, "peers", peers);
  return object;
}

static JSValue facts_object(JSContext *context, const struct facts *facts) {
  JSValue object = JS_NewObject(context);
  set(context, object, "board", JS_NewString(context, facts->board));
  set(context, object, "nvdimmBytes", JS_NewInt64(context, (int64_t)facts->nvdimm_bytes));
  set(context, object, "hostBytes", JS_NewInt64(context, (int64_t)facts->host_bytes));
  set(context, object, "dmaBytes", JS_NewInt64(context, (int64_t)facts->dma_bytes));
  set(context, object, "strictIcrc", JS_NewBool(context, facts->strict_icrc));
  set(context, object, "dirtyShutdowns", JS_NewUint32(context, facts->dirty_shutdowns));
  set(context, object, "mac", numbers(context, facts->mac, sizeof facts->mac));
  set(context, object, "ipv4", numbers(context, facts->ipv4, sizeof facts->ipv4));
  set(context, object, "ipv6", numbers(context, facts->ipv6, sizeof facts->ipv6));
  set(context, object, "pathMtu", JS_NewUint32(context, facts->path_mtu));
  JSValue entropy = JS_NewArray(context);
  for (uint32_t i = 0; i < 8; i++) {
    JSValue word = JS_NewUint32(context, facts->entropy[i]);
    JS_DefinePropertyValueUint32(context, entropy, i, word, JS_PROP_C_W_E);
  }
  set(context, object, "entropy", entropy);
  if (!identity_is_open(facts->identity)) {
    set(context, object, "identity", identity_object(context, facts->identity));
  }
  return object;
}

static bool is_plain(const char *text, size_t length) {
  for (size_t i = 0; i < length; i++) {
    if (text[i] < ' ' || text[i] > '~') return false;
  }
  return true;
}

/* Takes down what the firmware says of the part, if it says anything; false if it threw. */
static bool take_report(struct engine *engine) {
  JSContext *context = engine->context;
  JSValue function = JS_GetPropertyStr(context, engine->firmware, "report");
  JSValue line = JS_IsException(function) ? JS_EXCEPTION : JS_UNDEFINED;
  start_clock(engine);
  if (JS_IsFunction(context, function)) {
    line = JS_Call(context, function, JS_UNDEFINED, 0, NULL);
  }
  JS_FreeValue(context, function);
  size_t length = 0;
  const char *text = JS_IsString(line) ? JS_ToCStringLen(context, &length, line) : NULL;
  bool threw = JS_IsException(line) || (text == NULL && JS_IsString(line));
  if (text != NULL && length <= ENGINE_REPORT_MAX && is_plain(text, length)) {
    memcpy(engine->report, text, length);
    engine->report[length] = '\0';
  }
  if (threw) stop(engine);
  JS_FreeCString(context, text);
  JS_FreeValue(context, line);
  return !threw;
}

/* Calls `perdure.start` with the machine: recovery runs in it. */
static bool start(struct engine *engine, const struct facts *facts) {
  JSContext *context = engine->context;
  JSValue machine = JS_NewObject(context);
  set(context, machine, "facts", facts_object(context, facts));
  uint8_t *packets = engine->machine->packets;
  JSValue memory = JS_NewArrayBuffer(context, packets, HAL_MEMORY_BYTES, keep, NULL, false);
  set(context, machine, "memory", memory);
  set(context, machine, "run", JS_NewCFunction(context, run, "run", 1));
  /* Evaluated, so that a bundle without it fails by the words that reason_of knows. */
  start_clock(engine);
  const char entry[] = "perdure.start";
  int flags = JS_EVAL_TYPE_GLOBAL | JS_EVAL_FLAG_STRICT;
  JSValue function = JS_Eval(context, entry, sizeof entry - 1, "board", flags);
  start_clock(engine);
  engine->firmware = JS_IsException(function)
                         ? JS_EXCEPTION
                         : JS_Call(context, function, JS_UNDEFINED, 1, &machine);
  JS_FreeValue(context, function);
  JS_FreeValue(context, machine);
  if (JS_IsException(engine->firmware)) {
    engine->firmware = JS_UNDEFINED;
    stop(engine);
    return false;
  }
  if (JS_IsObject(engine->firmware)) {
    engine->serve = JS_GetPropertyStr(context, engine->firmware, "serve");
    engine->idle = JS_GetPropertyStr(context, engine->firmware, "idle");
  }
  if (JS_IsFunction(context, engine->serve) && JS_IsFunction(context, engine->idle)) {
    return take_report(engine);
  }
  refuse(engine, "what start returned cannot serve");
  return false;
}

static struct engine *make(struct machine *machine, const struct engine_limits *limits) {
  struct engine *engine = calloc(1, sizeof *engine);
  if (engine == NULL) return NULL;
  engine->machine = machine;
  engine->call_ns = (uint64_t)limits->start_ms * 1000000u;
  engine->sign_ns = now_ns() + SIGN_NS;
  engine->firmware = engine->serve = engine->idle = JS_UNDEFINED;
  engine->runtime = JS_NewRuntime();
  if (engine->runtime == NULL) {
    free(engine);
    return NULL;
  }
  JS_SetMemoryLimit(engine->runtime, limits->heap_bytes);
  JS_SetMaxStackSize(engine->runtime, limits->stack_bytes);
  /* Nobody asks a function for its text. A trace of the stack needs lines only, and keeps them. */
  JS_SetStripInfo(engine->runtime, JS_STRIP_SOURCE);
  JS_SetInterruptHandler(engine->runtime, is_late, engine);
  engine->context = JS_NewContextRaw(engine->runtime);
  if (engine->context == NULL) {
    JS_FreeRuntime(engine->runtime);
    free(engine);
    return NULL;
  }
  JS_SetContextOpaque(engine->context, engine);
  return engine;
}

struct engine *engine_start(const struct bundle *bundle, const struct facts *facts,
                            struct machine *machine, const struct engine_limits *limits,
                            struct fault *fault) {
  struct engine *engine = make(machine, limits);
  if (engine == NULL || !furnish(engine)) {
    fault_set(fault, "QuickJS has no room to start in %zu bytes: raise heap-bytes",
              limits->heap_bytes);
    engine_free(engine);
    return NULL;
  }
  const char no_chance[] = "delete Math.random";
  const char *sha256 = limits->interpret ? NULL : bundle->sha256;
  if (evaluate(engine, no_chance, sizeof no_chance - 1, "board", NULL) &&
      evaluate(engine, bundle->source, bundle->length, "firmware.js", sha256) &&
      start(engine, facts)) {
    engine->call_ns = (uint64_t)limits->call_ms * 1000000u;
    engine->sign_ns = UINT64_MAX;
    return engine;
  }
  fault_set(fault, "the firmware did not start (%s): %.400s", engine->stopped, engine->text);
  engine_free(engine);
  return NULL;
}

static double call(struct engine *engine, JSValueConst function, int count, JSValue *arguments) {
  if (engine->stopped != NULL) return -1;
  start_clock(engine);
  JSValue value = JS_Call(engine->context, function, JS_UNDEFINED, count, arguments);
  int tag = JS_VALUE_GET_NORM_TAG(value);
  if (tag == JS_TAG_INT && JS_VALUE_GET_INT(value) >= 0) return JS_VALUE_GET_INT(value);
  if (tag == JS_TAG_FLOAT64 && JS_VALUE_GET_FLOAT64(value) >= 0) return JS_VALUE_GET_FLOAT64(value);
  if (tag == JS_TAG_EXCEPTION) {
    stop(engine);
  } else {
    refuse(engine, "a call of the firmware returned no number of microseconds");
    JS_FreeValue(engine->context, value);
  }
  return -1;
}

double engine_serve(struct engine *engine, uint32_t count, double now_us) {
  JSContext *context = engine->context;
  engine->prompt = count <= PROMPT_FRAMES;
  JSValue arguments[] = {JS_NewUint32(context, count), JS_NewFloat64(context, now_us)};
  return call(engine, engine->serve, 2, arguments);
}

double engine_idle(struct engine *engine, double now_us) {
  JSValue now = JS_NewFloat64(engine->context, now_us);
  return call(engine, engine->idle, 1, &now);
}

const char *engine_stopped(const struct engine *engine, const char **text) {
  *text = engine->text;
  return engine->stopped;
}

uint64_t engine_resumes(void) { return aot_resumes(); }

uint64_t engine_rested(void) { return aot_rested(); }

bool engine_is_translated(const struct engine *engine) { return engine->translated; }

const char *engine_report(const struct engine *engine) { return engine->report; }

bool engine_ask(struct engine *engine) {
  return engine->stopped == NULL && take_report(engine);
}

size_t engine_heap_bytes(struct engine *engine) {
  JSMemoryUsage usage;
  JS_ComputeMemoryUsage(engine->runtime, &usage);
  return (size_t)usage.malloc_size;
}

/* One that was stopped may not be fit to be taken down: its memory goes with the process. */
void engine_free(struct engine *engine) {
  if (engine == NULL) return;
  if (engine->stopped == NULL) {
    JS_FreeValue(engine->context, engine->serve);
    JS_FreeValue(engine->context, engine->idle);
    JS_FreeValue(engine->context, engine->firmware);
    aot_unbind(engine->runtime);
    JS_FreeContext(engine->context);
    JS_FreeRuntime(engine->runtime);
  }
  free(engine);
}
