/*
 * A UDP socket whose datagrams are frames: bursts in, bursts out, one system call each.
 *
 * Invariants:
 * - A frame is received straight into its place; it is moved only where one before it was dropped.
 * - An answer leaves from the address that was asked, also where the socket is on all of them.
 * - What the kernel dropped before us is counted: a full socket loses nothing silently.
 * - Nothing is allocated after it was opened.
 */
#ifndef PERDURE_DATAGRAMS_H
#define PERDURE_DATAGRAMS_H

#include "hal.h"
#include "link/endpoint.h"
#include "link/link-kinds.h"

#include <sys/socket.h>

enum { SEND_FRAMES = HAL_TRANSMIT_FRAMES, CONTROL_BYTES = 96 };

struct datagrams {
  int fd;
  uint32_t kernel_dropped; /* as the kernel last told it; it wraps */
  struct mmsghdr in[HAL_BURST_FRAMES];
  struct iovec in_places[HAL_BURST_FRAMES];
  struct endpoint from[HAL_BURST_FRAMES];
  _Alignas(struct cmsghdr) char control[HAL_BURST_FRAMES][CONTROL_BYTES];
  unsigned waiting; /* frames to send */
  unsigned stored;  /* frames whose bytes are kept: several messages may share one */
  struct mmsghdr out[SEND_FRAMES];
  struct iovec out_places[SEND_FRAMES];
  struct endpoint to[SEND_FRAMES];
  _Alignas(struct cmsghdr) char out_control[SEND_FRAMES][CONTROL_BYTES];
  uint8_t frames[SEND_FRAMES][HAL_FRAME_STRIDE_BYTES];
};

/* Binds a socket to `own`, and writes the port there that the system chose for a port of 0. */
bool datagrams_open(struct datagrams *datagrams, struct endpoint *own, struct fault *fault);

/* Told of every datagram, the bytes of it that are there, and from whom it came, before it is
 * handed on. False: it claims an address of another, and is dropped. */
typedef bool datagrams_heard(void *whom, uint8_t *frame, uint32_t length,
                             const struct endpoint *from);

int datagrams_receive(struct datagrams *datagrams, struct link *link, uint8_t *packets,
                      datagrams_heard *heard, void *whom);

/* Keeps the frame's bytes and returns where, or NULL where it is too long: counted as dropped. */
const uint8_t *datagrams_keep(struct datagrams *datagrams, struct link *link, const uint8_t *frame,
                              uint32_t length);

/* Queues bytes that are kept for one receiver. */
void datagrams_send(struct datagrams *datagrams, struct link *link, const uint8_t *kept,
                    uint32_t length, const struct endpoint *to);

void datagrams_flush(struct datagrams *datagrams, struct link *link);

void datagrams_close(struct datagrams *datagrams);

#endif
