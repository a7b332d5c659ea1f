#include "body/facts.h"

#include <stdio.h>
#include <string.h>

struct fact *fact_of(struct facts *facts, const char *text) {
  for (int k = 0; k < facts->count; k++) {
    if (strcmp(facts->known[k].text, text) == 0) return &facts->known[k];
  }
  return NULL;
}

static void forget(struct facts *facts, const char *text) {
  struct fact *fact = fact_of(facts, text);
  if (fact != NULL) *fact = facts->known[--facts->count];
}

void learn(struct facts *facts, const char *text, int place, int class) {
  struct fact *fact = fact_of(facts, text);
  if (fact == NULL) {
    if (facts->count == FACTS_MAX) return;
    fact = &facts->known[facts->count++];
    *fact = (struct fact){.place = -1, .class = -1};
    snprintf(fact->text, sizeof fact->text, "%s", text);
  }
  if (place >= 0) fact->place = place;
  if (class >= 0) fact->class = class;
}

void learn_same(struct facts *facts, const char *text, const char *other) {
  forget(facts, text);
  const struct fact *fact = fact_of(facts, other);
  if (fact != NULL) learn(facts, text, fact->place, fact->class);
}

void forget_shapes(struct facts *facts) {
  for (int k = 0; k < facts->count; k++) facts->known[k].place = -1;
}

void meet(struct facts *there, struct facts *here) {
  for (int k = 0; k < there->count; k++) {
    const struct fact *fact = fact_of(here, there->known[k].text);
    if (fact == NULL || fact->place != there->known[k].place) there->known[k].place = -1;
    if (fact == NULL || fact->class != there->known[k].class) there->known[k].class = -1;
  }
}
