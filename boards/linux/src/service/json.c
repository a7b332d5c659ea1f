#include "service/json.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

/* What always stays free: the ends of two objects, of the line and of the text. */
#define RESERVE 4

/* Of one code point. */
#define UTF8_BYTES_MAX 4

static void put(struct json *json, const char *text, size_t length) {
  if (json->full || json->size - json->length < length + RESERVE) {
    json->full = true;
    return;
  }
  memcpy(json->text + json->length, text, length);
  json->length += length;
}

static void words(struct json *json, const char *text) {
  put(json, text, strlen(text));
}

static void quoted(struct json *json, const char *text) {
  words(json, "\"");
  while (*text != '\0') {
    size_t length;
    char escape[12];
    if (utf8_point(text, strnlen(text, UTF8_BYTES_MAX), &length) == UTF8_MALFORMED) {
      words(json, "\\ufffd");
      text++;
    } else if (*text == '"' || *text == '\\' || (unsigned char)*text < 0x20 || *text == 0x7f) {
      snprintf(escape, sizeof escape, "\\u%04x", (unsigned char)*text);
      words(json, escape);
      text++;
    } else {
      put(json, text, length);
      text += length;
    }
  }
  words(json, "\"");
}

static void name(struct json *json, const char *key) {
  if (!json->first) words(json, ",");
  json->first = false;
  quoted(json, key);
  words(json, ":");
}

void json_begin(struct json *json, char *text, size_t size) {
  *json = (struct json){.text = text, .size = size, .first = true};
  words(json, "{");
}

void json_text(struct json *json, const char *key, const char *value) {
  name(json, key);
  quoted(json, value);
}

void json_texts(struct json *json, const char *key, const char *const *values, int count) {
  name(json, key);
  words(json, "[");
  for (int i = 0; i < count; i++) {
    if (i > 0) words(json, ",");
    quoted(json, values[i]);
  }
  words(json, "]");
}

void json_number(struct json *json, const char *key, uint64_t value) {
  char digits[24];
  name(json, key);
  /* Beyond 2^53 a number of JavaScript is no longer exact: as everywhere, a string then. */
  const char *format = value >> 53 == 0 ? "%llu" : "\"%llu\"";
  snprintf(digits, sizeof digits, format, (unsigned long long)value);
  words(json, digits);
}

void json_flag(struct json *json, const char *key, bool value) {
  name(json, key);
  words(json, value ? "true" : "false");
}

void json_open(struct json *json, const char *key) {
  name(json, key);
  words(json, "{");
  json->first = true;
}

void json_close(struct json *json) {
  words(json, "}");
  json->first = false;
}

const char *json_end(struct json *json) {
  if (json->full) {
    snprintf(json->text, json->size, "{\"error\":\"too long\"}\n");
    return json->text;
  }
  memcpy(json->text + json->length, "}\n", 3);
  return json->text;
}
