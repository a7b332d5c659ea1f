/*
 * Hashes, signatures and compression for the script, by libsodium and brotli.
 *
 * Invariant: what is unpacked is whole, ends where its packed form ends, and is no longer
 * than the script allows.
 */
#ifndef PERDURE_BOOT_CRYPTO_H
#define PERDURE_BOOT_CRYPTO_H

#include "values.h"

JSCFunction host_sha256, host_verify, host_brotli;

#endif
