/*
 * Files of private keys, as boards/software/key-file.ts reads them: one line of 64 hexadecimal
 * digits; blank lines and those that begin with `#` are passed over.
 *
 * Invariants:
 * - Only a file that neither group nor others may read is read.
 * - No byte of a key is left but where the caller has it, and none is quoted.
 */
#ifndef PERDURE_KEY_FILE_H
#define PERDURE_KEY_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "access/identity.h"

/* The private key of the file, IDENTITY_KEY_BYTES, to `secret`. */
enum identity_result key_file_read(const char *path, uint8_t *secret, struct fault *fault);

/* The key that the text is, digits in either case; false if it is none. */
bool key_from_text(const char *text, size_t length, uint8_t *key);

#endif
