#include "service/log.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "service/json.h"

static bool as_json;

static const char *const LEVELS[] = {"error", "warning", "info"};

void log_as_json(bool json) {
  as_json = json;
}

/* UTC, with milliseconds. */
static void tell_time(char *text, size_t size) {
  struct timespec now;
  struct tm parts;
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &parts);
  size_t length = strftime(text, size, "%Y-%m-%dT%H:%M:%S", &parts);
  snprintf(text + length, size - length, ".%03dZ", (int)(now.tv_nsec / 1000000));
}

static size_t as_text(char *line, size_t size, const char *head, const struct log_field *field) {
  size_t length = (size_t)snprintf(line, size, "%s", head);
  for (; field->key != NULL && length < size; field++) {
    const char *text = field->text;
    char digits[24];
    if (text == NULL) {
      snprintf(digits, sizeof digits, "%llu", (unsigned long long)field->number);
      text = digits;
    }
    bool quotes = text[strcspn(text, " \"=\n")] != '\0' || text[0] == '\0';
    length += (size_t)snprintf(line + length, size - length, quotes ? " %s=\"%s\"" : " %s=%s",
                               field->key, text);
  }
  if (length > size - 2) length = size - 2;
  /* A stack has several lines: an event has one. */
  for (size_t i = 0; i < length; i++) {
    if (line[i] == '\n') line[i] = ';';
  }
  line[length] = '\n';
  return length + 1;
}

void log_write(enum log_level level, const char *message, const struct log_field *fields) {
  char line[4096], time[40], head[512];
  size_t length;
  tell_time(time, sizeof time);
  if (as_json) {
    struct json json;
    json_begin(&json, line, sizeof line);
    json_text(&json, "time", time);
    json_text(&json, "level", LEVELS[level]);
    json_text(&json, "event", message);
    for (; fields->key != NULL; fields++) {
      if (fields->text != NULL) json_text(&json, fields->key, fields->text);
      else json_number(&json, fields->key, fields->number);
    }
    length = strlen(json_end(&json));
  } else {
    snprintf(head, sizeof head, "%s %s %s", time, LEVELS[level], message);
    length = as_text(line, sizeof line, head, fields);
  }
  ssize_t written = write(STDERR_FILENO, line, length);
  (void)written;
}
