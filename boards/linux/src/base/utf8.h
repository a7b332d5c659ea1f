/*
 * UTF-8, and what a letter is to who shows it: the rules of firmware/medium/region-name.ts.
 *
 * Invariant: no byte beyond the length is read, whatever the bytes are.
 */
#ifndef PERDURE_UTF8_H
#define PERDURE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is no code point: malformed, longer than it need be, or half of a surrogate pair. */
#define UTF8_MALFORMED (-1)

/*
 * The code point that begins the text, of at least one byte; its bytes to `taken`, at least one.
 * UTF8_MALFORMED takes one.
 */
int32_t utf8_point(const char *text, size_t length, size_t *taken);

bool utf8_is_well_formed(const char *text, size_t length);

/* Whether it is more than a letter to who shows it: a terminal obeys it, or it turns the text. */
bool utf8_is_control(int32_t point);

/* White space of ECMAScript, which the ends of lines are. */
bool utf8_is_space(int32_t point);

/* How long JavaScript calls a text, in units of UTF-16. */
size_t utf8_units(const char *text, size_t length);

#endif
