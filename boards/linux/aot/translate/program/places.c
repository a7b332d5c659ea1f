#include "program/places.h"

#include <stdio.h>

#include "trouble.h"

/* An operation that needs a property to be where it was seen. */
struct want {
  uint32_t offset, slot;
};

/* A place that remembers a shape, and what is wanted of that. */
struct place {
  struct want *wants;
  int count;
};

int new_place(struct program *program) {
  size_t bytes = sizeof *program->places * (size_t)(program->place_count + 1);
  program->places = grown(program->places, bytes);
  program->places[program->place_count] = (struct place){NULL, 0};
  return program->place_count++;
}

void add_want(struct program *program, int place, const struct instruction *i, uint32_t slot) {
  struct place *p = &program->places[place];
  p->wants = grown(p->wants, sizeof *p->wants * (size_t)(p->count + 1));
  p->wants[p->count++] = (struct want){i->at, slot};
}

void write_places(const struct program *program) {
  const struct place *places = program->places;
  printf("\nstatic const struct aot_want aot_wants[] = {\n");
  for (int k = 0; k < program->place_count; k++) {
    for (int w = 0; w < places[k].count; w++) {
      printf("  {%u, %u},\n", places[k].wants[w].offset, places[k].wants[w].slot);
    }
  }
  printf("  {0, 0},\n};\nstatic struct aot_place aot_places[] = {\n");
  for (int k = 0, first = 0; k < program->place_count; first += places[k++].count) {
    printf("  {NULL, 0, 0, &aot_wants[%d], %d},\n", first, places[k].count);
  }
  printf("  {NULL, 0, 0, NULL, 0},\n};\n");
}
