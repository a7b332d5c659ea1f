/* What the console understands. */
#include <string.h>

#include "card/icrc.h"
#include "service/json.h"
#include "service/service.h"

typedef void command(struct service *service, struct json *json);

static void tell_help(struct service *service, struct json *json);

static void tell_hash(struct service *service, struct json *json) {
  json_text(json, "bundle", service->bundle->sha256);
}

void service_tell_memory(const struct memory *memory, struct json *json) {
  bool outlives = memory->forgets_because == NULL;
  json_number(json, "bytes", memory->bytes);
  json_text(json, "class", memory_class_name(memory->class));
  json_flag(json, "armed", memory->armed);
  json_text(json, "durable", !memory->armed ? "nothing" : outlives ? "power" : "process");
  if (!outlives) json_text(json, "forgetsBecause", memory->forgets_because);
  json_text(json, "instruction", memory->persist->name);
  json_number(json, "lineBytes", memory->persist->line_bytes);
}

static void tell_status(struct service *service, struct json *json) {
  const struct memory *memory = service->memory;
  json_text(json, "state", service->stopping ? "stopping" : "serving");
  json_text(json, "board", service->config->board);
  json_text(json, "bundle", service->bundle->sha256);
  identity_tell(service->identity, json);
  const char *names[LINKS_MAX];
  for (int i = 0; i < service->links->count; i++) names[i] = service->links->each[i].name;
  json_texts(json, "links", names, service->links->count);
  json_open(json, "memory");
  json_text(json, "path", service->config->memory);
  service_tell_memory(memory, json);
  json_flag(json, "shadow", service->config->shadow);
  json_number(json, "dirtyShutdowns", memory->dirty_shutdowns);
  json_close(json);
  json_text(json, "icrc", icrc_engine());
  json_number(json, "heapBytes", engine_heap_bytes(service->engine));
  json_number(json, "uptimeUs", service_now_us() - service->started_us);
}

static void tell_link(struct json *json, const char *name, const struct link_counters *link) {
  json_open(json, name);
  json_number(json, "received", link->received);
  json_number(json, "receivedBytes", link->received_bytes);
  json_number(json, "sent", link->sent);
  json_number(json, "sentBytes", link->sent_bytes);
  json_number(json, "receiveDropped", link->receive_dropped);
  json_number(json, "receiveClaimed", link->receive_claimed);
  json_number(json, "floods", link->floods);
  json_number(json, "sendDropped", link->send_dropped);
  json_close(json);
}

static void tell_counters(struct service *service, struct json *json) {
  const struct machine_counters *machine = &service->machine->counters;
  const struct link_counters sum = links_sum(service->links);
  json_number(json, "bursts", service->bursts);
  json_number(json, "frames", service->frames);
  json_number(json, "idleCalls", service->idle_calls);
  json_number(json, "resumes", engine_resumes());
  json_number(json, "rests", engine_rested());
  tell_link(json, "link", &sum);
  json_open(json, "links");
  for (int i = 0; i < service->links->count; i++) {
    tell_link(json, service->links->each[i].name, &service->links->each[i].counters);
  }
  json_close(json);
  json_open(json, "machine");
  json_number(json, "runs", machine->runs);
  json_number(json, "commands", machine->commands);
  json_number(json, "fences", machine->fences);
  json_number(json, "bytesStored", machine->bytes_stored);
  json_number(json, "linesCleaned", machine->lines_cleaned);
  json_number(json, "mediaErrors", machine->media_errors);
  json_number(json, "badCommands", machine->bad_commands);
  json_number(json, "hostFailures", machine->host_failures);
  json_close(json);
}

static void stop(struct service *service, struct json *json) {
  service->stopping = true;
  json_text(json, "state", "stopping");
}

static const struct {
  const char *name, *what;
  command *run;
} COMMANDS[] = {
    {"help", "what can be said here", tell_help},
    {"status", "what runs, on what memory, and what may be claimed of it", tell_status},
    {"counters", "frames, bursts, commands and fences since the start", tell_counters},
    {"hash", "SHA-256 of the firmware bundle", tell_hash},
    {"stop", "ends the service; what was acknowledged stays", stop},
};

#define COMMANDS_COUNT (sizeof COMMANDS / sizeof COMMANDS[0])

static void tell_help(struct service *service, struct json *json) {
  (void)service;
  for (size_t i = 0; i < COMMANDS_COUNT; i++) json_text(json, COMMANDS[i].name, COMMANDS[i].what);
}

void service_answer(void *context, const char *line, char *answer) {
  struct json json;
  json_begin(&json, answer, CONSOLE_ANSWER_BYTES);
  size_t i = 0;
  while (i < COMMANDS_COUNT && strcmp(COMMANDS[i].name, line) != 0) i++;
  if (i < COMMANDS_COUNT) {
    COMMANDS[i].run(context, &json);
  } else {
    json_text(&json, "error", "unknown command; help says what there is");
    json_text(&json, "line", line);
  }
  json_end(&json);
}
