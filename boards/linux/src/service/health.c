#include "service/health.h"

#include <string.h>

#include "service/log.h"

#define LOOK_US 1000000

void health_tell_claim(const struct memory *memory) {
  if (memory->forgets_because == NULL) {
    if (memory->armed) log_event(LOG_INFO, "what is acknowledged as durable outlives the power");
    return;
  }
  const char *claim = "durability is not claimed: nothing is acknowledged as durable";
  if (memory->armed) claim = "what is acknowledged as durable outlives the process, not the power";
  log_event(LOG_WARNING, claim, LOG_TEXT("because", memory->forgets_because));
}

void health_begin(struct health *health, uint64_t now_us) {
  health->next_us = now_us + LOOK_US;
  strcpy(health->report, engine_report(health->engine));
}

static void look_at_claim(struct health *health) {
  if (!memory_is_watched(health->memory) || !memory_watch(health->memory)) return;
  if (!health->memory->armed) {
    log_event(LOG_ERROR, "a power cut now would lose what this part holds",
              LOG_TEXT("because", health->memory->forgets_because));
  }
  health_tell_claim(health->memory);
}

/* What is counted, and has grown. */
static void look_at_count(uint64_t now, uint64_t *told, const char *what) {
  if (now == *told) return;
  log_event(LOG_WARNING, what, LOG_NUMBER("times", now - *told));
  *told = now;
}

static bool look_at_part(struct health *health) {
  if (!engine_ask(health->engine)) return false;
  const char *report = engine_report(health->engine);
  if (strcmp(report, health->report) == 0) return true;
  strcpy(health->report, report);
  log_event(LOG_WARNING, "the part is another than it was", LOG_TEXT("is", report));
  return true;
}

bool health_look(struct health *health, uint64_t now_us) {
  if (now_us < health->next_us) return true;
  const struct machine_counters *counters = &health->machine->counters;
  health->next_us = now_us + LOOK_US;
  look_at_claim(health);
  look_at_count(links_sum(health->links).floods, &health->floods,
                "a flood of strangers' frames: most of them are kept out");
  if (counters->runs == health->runs) return true;
  health->runs = counters->runs;
  look_at_count(counters->media_errors, &health->media_errors,
                "the part did not deliver, or take, some bytes");
  look_at_count(counters->host_failures, &health->host_failures,
                "the host's memory did not answer");
  return look_at_part(health);
}

uint64_t health_due(const struct health *health) {
  bool has_news = health->machine->counters.runs != health->runs;
  return has_news || memory_is_watched(health->memory) ? health->next_us : UINT64_MAX;
}
