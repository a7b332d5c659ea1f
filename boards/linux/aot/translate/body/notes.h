/* What was seen of the operations of a function, and the C that notes what is. */
#ifndef TRANSLATE_NOTES_H
#define TRANSLATE_NOTES_H

#include "../../seen.h"
#include "body/body.h"

/* SEEN_…; 0 where nothing is known. */
unsigned seen_at(const struct body *body, uint32_t at);

/* Was nothing seen but integers in, and the plain way? */
bool is_quick(const struct body *body, const struct instruction *i);

/* Which ways a branch was seen to go. It leaves on one that it was not. */
enum ways { BOTH, ONLY_JUMPS, ONLY_GOES_ON };
enum ways ways_of(const struct body *body, const struct instruction *i);

/* If only integers, or only truths, were seen where the last of the stack came from, it is that
 * from here on; what is something else goes on in the interpreter. */
void narrow(struct body *body, const struct instruction *i);

/* While the program is watched: notes a mask, an expression of C. */
void note(const struct body *body, uint32_t at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
