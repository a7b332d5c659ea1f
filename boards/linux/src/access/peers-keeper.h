/*
 * The peers file of a card that serves, as KEEP_PEER changes it (firmware/board/hal.ts): a line
 * comes, a line goes, and all else in it stays as it was written; as boards/software/peers-file.ts
 * does it.
 *
 * Invariants:
 * - At every instant the file is read as the peers before the change or as those behind it. A line
 *   comes as a comment first; then one byte makes it a line. A line goes by its first byte, which
 *   becomes that of a comment. Each step is durable before the next one, and one byte is never
 *   torn.
 * - A line comes only if the whole text can be read with it; so no change keeps the card from its
 *   next start. None leaves nobody who may come, or no admin where there was one.
 * - A change that the file system refuses is taken back, as far as it lets that be done.
 * - It is opened while the process may still do that. Whoever puts another file in its place has
 *   taken it from here: it is not changed any more.
 */
#ifndef PERDURE_PEERS_KEEPER_H
#define PERDURE_PEERS_KEEPER_H

#include "access/identity.h"

struct peers_keeper {
  int file; /* negative where it cannot be written */
  struct identity *identity; /* whose peers are those of the file */
};

/* Opens the file; where that cannot be done every change is refused. */
void peers_keeper_open(struct peers_keeper *keeper, const char *path, struct identity *identity);

/*
 * The line comes, or that of a public key as text goes: HAL_DONE; HAL_BAD_COMMAND for a line that
 * cannot stand there, or a key that does not; HAL_NOT_KEPT where the file stays as it is.
 */
int peers_keeper_keep(struct peers_keeper *keeper, const char *text, size_t length, bool comes);

void peers_keeper_close(struct peers_keeper *keeper);

#endif
