#include "base/utf8.h"

int32_t utf8_point(const char *text, size_t length, size_t *taken) {
  static const int32_t LEAST[] = {0, 0x80, 0x800, 0x10000};
  uint8_t first = (uint8_t)text[0];
  *taken = 1;
  if (first < 0x80) return first;
  if (first < 0xc0 || first > 0xf7) return UTF8_MALFORMED;
  size_t more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
  if (more >= length) return UTF8_MALFORMED;
  int32_t point = first & (0x3f >> more);
  for (size_t i = 1; i <= more; i++) {
    uint8_t byte = (uint8_t)text[i];
    if ((byte & 0xc0) != 0x80) return UTF8_MALFORMED;
    point = point << 6 | (byte & 0x3f);
  }
  bool is_surrogate = point >= 0xd800 && point <= 0xdfff;
  if (point < LEAST[more] || point > 0x10ffff || is_surrogate) return UTF8_MALFORMED;
  *taken = 1 + more;
  return point;
}

bool utf8_is_well_formed(const char *text, size_t length) {
  size_t taken;
  for (size_t at = 0; at < length; at += taken) {
    if (utf8_point(text + at, length - at, &taken) == UTF8_MALFORMED) return false;
  }
  return true;
}

bool utf8_is_control(int32_t point) {
  if (point < 0x20) return true;
  if (point < 0x7f) return false;
  if (point < 0xa0) return true;
  if (point == 0x061c || point == 0x200e || point == 0x200f || point == 0xfeff) return true;
  return (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
}

bool utf8_is_space(int32_t point) {
  if (point <= 0x20) return point == 0x20 || (point >= 0x09 && point <= 0x0d);
  if (point == 0xa0 || point == 0x1680 || (point >= 0x2000 && point <= 0x200a)) return true;
  return point == 0x2028 || point == 0x2029 || point == 0x202f || point == 0x205f ||
         point == 0x3000 || point == 0xfeff;
}

size_t utf8_units(const char *text, size_t length) {
  size_t units = 0, taken;
  for (size_t at = 0; at < length; at += taken) {
    units += utf8_point(text + at, length - at, &taken) >= 0x10000 ? 2 : 1;
  }
  return units;
}
