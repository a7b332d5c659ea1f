/*
 * The peers file of a card, as boards/software/peers.ts reads it: a line for each that may come,
 *
 *     PUBLICKEY NAME RIGHT...
 *
 * Invariants:
 * - The same texts are read as the same peers, and the same are refused, by the same words. A file
 *   that is no UTF-8, or names nobody, is refused, too.
 * - A refusal names the line, and says what to write instead. It quotes nothing that is as long as
 *   a key, and nothing that a terminal obeys.
 */
#ifndef PERDURE_PEERS_FILE_H
#define PERDURE_PEERS_FILE_H

#include "access/identity.h"

/* A larger one is refused: 64 peers with all they may have make some 70 kilobytes. */
#define PEERS_FILE_BYTES_MAX (1u << 20)

/* The peers of the text to `identity`, which has none; `path` is what a refusal calls it. */
bool peers_text_read(const char *path, const char *text, size_t length, struct identity *identity,
                     struct fault *fault);

/* The peers of the file to `identity`. */
enum identity_result peers_file_read(const char *path, struct identity *identity,
                                     struct fault *fault);

#endif
