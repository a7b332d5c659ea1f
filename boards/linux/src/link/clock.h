/* The time by which the links judge who is still there. */
#ifndef PERDURE_LINK_CLOCK_H
#define PERDURE_LINK_CLOCK_H

#include <stdint.h>

/* Microseconds, never backwards, exact to a few milliseconds: cheap enough for every burst. Tests
 * put their own in its place. */
extern uint64_t (*link_now_us)(void);

#endif
