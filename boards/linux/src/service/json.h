/*
 * JSON objects in one line, written into a buffer of fixed size.
 *
 * Invariant: what is written is valid JSON, whatever the texts hold. What does not fit sets
 * `full`, and the line is then `{"error":"too long"}`.
 */
#ifndef PERDURE_JSON_H
#define PERDURE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json {
  char *text;
  size_t size, length;
  bool full, first;
};

/* Begins an object at `text`. */
void json_begin(struct json *json, char *text, size_t size);

void json_text(struct json *json, const char *key, const char *value);
void json_number(struct json *json, const char *key, uint64_t value);
void json_texts(struct json *json, const char *key, const char *const *values, int count);
void json_flag(struct json *json, const char *key, bool value);

/* An object inside, and the end of it. */
void json_open(struct json *json, const char *key);
void json_close(struct json *json);

/* Ends the object. Returns the text, with a line's end and a NUL behind it. */
const char *json_end(struct json *json);

#endif
