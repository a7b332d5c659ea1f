/*
 * What is noted of an operation while the program runs: which values it gave, and how it went.
 */
#ifndef AOT_SEEN_H
#define AOT_SEEN_H

enum {
  /* It gave a value of that kind. */
  SEEN_INT = 1,
  SEEN_FLOAT = 2,
  SEEN_BOOL = 4,
  SEEN_OBJECT = 8,
  SEEN_OTHER = 16,
  SEEN_VALUES = 31,
  /* It did not go its plain way. */
  SEEN_ASIDE = 32,
  /* It jumped; it did not. */
  SEEN_JUMP = 64,
  SEEN_NO_JUMP = 128,
  /* An element of the first class of arrays; of the next, twice that, and so on. */
  SEEN_CLASS = 256,
  /* A property in the first slot; in the next, one more of that, and so on. */
  SEEN_SLOT = 65536
};

#endif
