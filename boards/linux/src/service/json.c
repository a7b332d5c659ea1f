#include "service/json.h"

#include <stdio.h>
#include <string.h>

/* What always stays free: the ends of two objects, of the line and of the text. */
#define RESERVE 4

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

static bool is_continuation(char c) {
  return ((unsigned char)c & 0xc0) == 0x80;
}

/* How many bytes of UTF-8 begin here; 0 if they are none. */
static size_t utf8(const char *text) {
  unsigned char c = (unsigned char)text[0];
  size_t more = c < 0x80 ? 0 : c >= 0xc2 && c < 0xe0 ? 1 : c >= 0xe0 && c < 0xf0 ? 2 : 3;
  if (c >= 0x80 && (c < 0xc2 || c > 0xf4)) return 0;
  for (size_t i = 1; i <= more; i++) {
    if (!is_continuation(text[i])) return 0;
  }
  unsigned char next = (unsigned char)text[more == 0 ? 0 : 1];
  bool wrong = (c == 0xe0 && next < 0xa0) || (c == 0xed && next >= 0xa0) ||
               (c == 0xf0 && next < 0x90) || (c == 0xf4 && next >= 0x90);
  return wrong ? 0 : more + 1;
}

static void quoted(struct json *json, const char *text) {
  words(json, "\"");
  while (*text != '\0') {
    size_t length = utf8(text);
    char escape[12];
    if (length == 0) {
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
