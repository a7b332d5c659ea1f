/*
 * translate [--learn | --profile FILE] FIRMWARE.JS FILE...: the functions of those files, and what
 * they call, as C, on standard output; before what the bundler took of a file there is a line
 * `  // FILE`. With --learn the program notes what it sees, which is the profile of later ones.
 *
 * A program of the build, not of the board. It compiles the bundle by QuickJS, as the board will,
 * and writes for each function's bytecode what the interpreter would do, operation by operation,
 * where that is plain: whole numbers, properties where they were the last time, elements of arrays,
 * calls. Where it is not, or where an operation is not known here, the function goes on in the
 * interpreter, from that operation (`aot_resume`): there is no second implementation of the
 * language. What this saves is the dispatch, the stack, the counting of references to what a
 * variable holds anyway, the look-up of properties, and most of a call.
 */
#include <stdio.h>
#include <string.h>

#include "body/versions.h"
#include "program/choice.h"
#include "program/compiled.h"
#include "program/places.h"
#include "program/profile.h"
#include "program/stores.h"
#include "trouble.h"

/* The table of all functions, bound by its order. */
static void write_table(const struct program *program) {
  printf("\nstatic const struct aot_function aot_functions[] = {\n");
  for (int k = 0; k < program->function_count; k++) {
    const struct function *function = &program->functions[k];
    if (function->is_translated) printf("  {e%d, %u},\n", k, function->code_bytes);
    else printf("  {NULL, %u},\n", function->code_bytes);
  }
  printf("};\n");
}

/* Where what is seen is noted, and of which functions. */
static void write_notes(const struct program *program) {
  const struct function *functions = program->functions;
  size_t bytes = 0;
  for (int k = 0; k < program->function_count; k++) bytes += functions[k].code_bytes;
  printf("#define AOT_LEARNS\n");
  printf("static uint32_t aot_seen[%zu];\n", bytes);
  printf("static const char *const aot_names[] = {\n");
  for (int k = 0; k < program->function_count; k++) {
    char name[NAME_MAX_BYTES];
    profile_name(&functions[k], name);
    printf("  \"%s %x\",\n", name, profile_hash(&functions[k]));
  }
  printf("};\n");
}

static void write_program(struct program *program) {
  if (program->learns) write_notes(program);
  printf("static struct aot_place aot_places[];\n");
  printf("static struct aot_habit aot_habits[%d];\n", program->function_count);
  for (int k = 0; k < program->function_count; k++) {
    if (program->functions[k].is_translated) declare_function(program, k);
  }
  for (int k = 0; k < program->function_count; k++) {
    if (program->functions[k].is_translated) write_function(program, k);
  }
  write_places(program);
  write_table(program);
}

static char *read_file(const char *path, size_t *length) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) die("translate: %s cannot be read", path);
  fseek(file, 0, SEEK_END);
  *length = (size_t)ftell(file);
  rewind(file);
  char *text = zeros(*length, 1);
  if (fread(text, 1, *length, file) != *length) die("translate: %s cannot be read", path);
  fclose(file);
  return text;
}

int main(int count, char **arguments) {
  struct program program = {.learns = false};
  int first = 1;
  size_t length;
  if (first < count && strcmp(arguments[first], "--learn") == 0) {
    program.learns = true;
    first++;
  }
  if (first + 1 < count && strcmp(arguments[first], "--profile") == 0) {
    read_profile(&program, read_file(arguments[first + 1], &length));
    first += 2;
  }
  if (count - first < 2) {
    die("usage: translate [--learn | --profile FILE] FIRMWARE.JS FILE...");
  }
  char *source = read_file(arguments[first], &length);
  read_program(&program, arguments[first], source, length);
  find_stores(&program);
  choose_functions(&program, source, arguments + first + 1, count - first - 1);
  write_program(&program);
  return 0;
}
