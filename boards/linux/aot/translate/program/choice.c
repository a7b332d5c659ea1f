#include "program/choice.h"

#include <stdlib.h>
#include <string.h>

#include "program/opcodes.h"
#include "program/stores.h"
#include "trouble.h"

/* By line of the program, from 1: is it of a file that is to be translated? */
struct lines {
  bool *are_wanted;
  int count;
};

/* The bundler writes a line `// FILE` before what it takes of each. */
static struct lines find_wanted(const char *source, char **files, int count) {
  static const char mark[] = "  // ";
  struct lines lines = {.count = 0};
  for (const char *c = source; *c; c++) lines.count += *c == '\n';
  lines.are_wanted = zeros((size_t)lines.count + 1, sizeof *lines.are_wanted);
  int line = 1, found = 0;
  for (const char *from = source; *from; line++) {
    size_t length = strcspn(from, "\n");
    lines.are_wanted[line] = line > 1 && lines.are_wanted[line - 1];
    if (strncmp(from, mark, sizeof mark - 1) == 0 && length > 3 &&
        strncmp(from + length - 3, ".ts", 3) == 0) {
      lines.are_wanted[line] = false;
      for (int k = 0; k < count; k++) {
        size_t size = strlen(files[k]);
        if (size != length - 5 || strncmp(from + 5, files[k], size) != 0) continue;
        lines.are_wanted[line] = true;
        found++;
      }
    }
    from += length + (from[length] == '\n');
  }
  if (found < count) die("translate: %d files of %d are in the bundle", found, count);
  return lines;
}

/* Does the function stand in a wanted file? */
static bool is_wanted(const struct function *function, const struct lines *lines) {
  int line = function->line;
  return line > 0 && line <= lines->count && lines->are_wanted[line];
}

/* Does it use what it is called on? What it does not see the interpreter does not, either. */
static bool sees_this(const struct function *function) {
  for (uint32_t at = 0; at < function->code_bytes;) {
    struct instruction i = read_at(function->code, at);
    at = i.next;
    if (i.opcode == OP_push_this) return true;
  }
  return false;
}

/* Can it be translated? Its arguments have to be all that it asks of its call. */
static bool is_plain(const struct function *function) {
  if (function->is_special || !function->is_strict) return false;
  for (uint32_t at = 0; at < function->code_bytes;) {
    struct instruction i = read_at(function->code, at);
    at = i.next;
    if (i.opcode == OP_special_object || i.opcode == OP_rest || i.opcode == OP_check_ctor ||
        i.opcode == OP_init_ctor) {
      return false;
    }
  }
  return true;
}

static void choose(struct function *function) {
  function->is_translated = is_plain(function);
  function->sees_this = sees_this(function);
}

/* What a function calls is chosen with it; it is itself if it calls a wanted one in a loop. */
static void choose_by_calls(struct program *program, int index, const struct lines *lines) {
  struct function *function = &program->functions[index];
  bool wants = is_wanted(function, lines), *loops = find_loops(function);
  if (wants) choose(function);
  for (uint32_t at = 0; at < function->code_bytes;) {
    struct instruction i = read_at(function->code, at);
    at = i.next;
    if (i.opcode != OP_get_var_ref && i.opcode != OP_get_var_ref_check) continue;
    int called = function_in(program, index, i.operand);
    if (called < 0) continue;
    if (wants) choose(&program->functions[called]);
    else if (loops[i.at] && is_wanted(&program->functions[called], lines)) choose(function);
  }
  free(loops);
}

void choose_functions(struct program *program, const char *source, char **files, int count) {
  struct lines lines = find_wanted(source, files, count);
  for (int k = 0; k < program->function_count; k++) choose_by_calls(program, k, &lines);
  free(lines.are_wanted);
}
