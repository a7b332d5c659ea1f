/*
 * What happened, on stderr: one line an event, for people or as JSON.
 *
 * Invariant: a line is one write, so that lines never mix; a log that nobody takes is lost
 * and holds nothing up.
 */
#ifndef PERDURE_LOG_H
#define PERDURE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO };

struct log_field {
  const char *key;
  const char *text; /* NULL: the number */
  uint64_t number;
};

#define LOG_TEXT(key, value) ((struct log_field){(key), (value), 0})
#define LOG_NUMBER(key, value) ((struct log_field){(key), NULL, (uint64_t)(value)})

/* log_event(LOG_INFO, "serving", LOG_TEXT("link", name), LOG_NUMBER("bytes", bytes)) */
#define log_event(level, ...) log_event_(level, __VA_ARGS__, {0})
#define log_event_(level, message, ...) \
  log_write(level, message, (const struct log_field[]){__VA_ARGS__})

/* As JSON from now on, or as text. */
void log_as_json(bool json);

/* `fields` ends with one that has no key. */
void log_write(enum log_level level, const char *message, const struct log_field *fields);

#endif
