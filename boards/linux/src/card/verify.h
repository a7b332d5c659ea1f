/*
 * The firmware bundle, believed only when it is signed.
 *
 * Invariant: the bytes that were verified are the bytes that are handed out; the file is
 * read once.
 */
#ifndef PERDURE_VERIFY_H
#define PERDURE_VERIFY_H

#include <stddef.h>

#include "service/fault.h"

#define SHA256_TEXT_BYTES 65

struct bundle {
  char *source; /* with a NUL behind it, as QuickJS wants it */
  size_t length;
  char sha256[SHA256_TEXT_BYTES];
};

/* Why a bundle is not taken: a file that cannot be read, or one that cannot be trusted. */
enum verify_result { VERIFIED, VERIFY_NO_FILE, VERIFY_UNTRUSTED };

/*
 * Reads the bundle and its signature (Ed25519, 64 bytes) and verifies it under `trust`: the public
 * key as 64 hexadecimal digits, or a PEM file with it.
 */
enum verify_result verify_bundle(struct bundle *bundle, const char *path, const char *signature,
                                 const char *trust, struct fault *fault);

void verify_free(struct bundle *bundle);

#endif
