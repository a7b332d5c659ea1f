/*
 * The network cards of virtual machines: QEMU's stream network backend over a Unix socket, as
 * `boards/emulator/network/netdev.ts` speaks it.
 *
 *       0       1       2       3       4
 *     +-------+-------+-------+-------+---------------------------+
 *     |  length of the frame, bytes   |  Ethernet frame, no FCS   |   both ways
 *     +-------+-------+-------+-------+---------------------------+
 *
 * Invariants:
 * - Machines come and go, up to CLIENTS_MAX at a time; each is one stream. A frame goes to the
 *   machine whose address its destination is, or to all. Machines do not hear each other: this is
 *   a port, and no switch.
 * - An address is that of the machine from which it was first heard, until that is unplugged, or
 *   was not heard with it for PEER_OWNED_US. What another sends from it meanwhile is dropped whole,
 *   and counted.
 * - A length that no Ethernet frame has ends the stream that said it: what follows it cannot be
 *   told apart. Nobody else notices.
 * - A machine that does not read loses frames, as behind a full queue; memory stays bounded.
 * - The descriptor is an epoll set, so that it stays the same while machines come and go. Frames
 *   that were read and not yet handed on keep it readable through `more`.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link/clock.h"
#include "link/link-kinds.h"
#include "link/known/peers.h"
#include "link/unix-socket.h"

enum {
  CLIENTS_MAX = 16,
  MACS_MAX = 16, /* addresses that are remembered of one machine */
  LENGTH_BYTES = 4,
  STREAM_FRAME_BYTES_MAX = 4096 + 65536, /* what QEMU itself takes */
  IN_BYTES = 2 * (LENGTH_BYTES + STREAM_FRAME_BYTES_MAX),
  OUT_BYTES = 1 << 20,
};

struct bytes {
  size_t start, end;
};

struct client {
  int fd;
  bool waits_to_write;
  bool is_gone;         /* nothing more comes; what came is still handed on */
  uint64_t out_frames;  /* frames in `out`, or since it was empty the last time */
  uint64_t macs[MACS_MAX];
  uint64_t heard_us[MACS_MAX];
  struct bytes in, out;
  uint8_t in_bytes[IN_BYTES];
  uint8_t out_bytes[OUT_BYTES];
};

struct stream {
  int listening, epoll, more;
  bool more_is_set;
  unsigned next;   /* who is served first */
  uint64_t now_us; /* of the burst */
  struct client *clients[CLIENTS_MAX];
  const char *path; /* within the name */
  char name[256];
};

static void watch(const struct stream *stream, int fd, int how, uint32_t events, uint32_t tag) {
  struct epoll_event event = {.events = events, .data.u32 = tag};
  epoll_ctl(stream->epoll, how, fd, &event);
}

/* Tags of the epoll set that are no client's number. */
enum { TAG_LISTENING = CLIENTS_MAX, TAG_MORE };

/* Frames that were queued for a machine that is gone are lost, and counted. */
static void unplug(struct link *link, unsigned i) {
  struct stream *stream = link->internal;
  link->counters.send_dropped += stream->clients[i]->out_frames;
  close(stream->clients[i]->fd);
  free(stream->clients[i]);
  stream->clients[i] = NULL;
}

/* Takes a machine in. One too many is turned away by closing. */
static void plug(struct stream *stream) {
  int fd = accept4(stream->listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return;
  unsigned i = 0;
  while (i < CLIENTS_MAX && stream->clients[i] != NULL) i++;
  struct client *client = i < CLIENTS_MAX ? calloc(1, sizeof *client) : NULL;
  if (client == NULL) {
    close(fd);
    return;
  }
  client->fd = fd;
  stream->clients[i] = client;
  watch(stream, fd, EPOLL_CTL_ADD, EPOLLIN, i);
}

/* Moves what is left to the front. */
static void compact(struct bytes *range, uint8_t *bytes) {
  if (range->start == 0) return;
  memmove(bytes, bytes + range->start, range->end - range->start);
  range->end -= range->start;
  range->start = 0;
}

/* Reads what has come; false when the machine is gone. */
static bool read_in(struct client *client) {
  compact(&client->in, client->in_bytes);
  size_t room = IN_BYTES - client->in.end;
  if (room == 0) return true;
  ssize_t came = recv(client->fd, client->in_bytes + client->in.end, room, MSG_DONTWAIT);
  if (came > 0) client->in.end += (size_t)came;
  return came > 0 || (came < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Writes what waits; false when the machine is gone. */
static bool write_out(struct stream *stream, unsigned i) {
  struct client *client = stream->clients[i];
  struct bytes *out = &client->out;
  while (out->start < out->end) {
    ssize_t sent = send(client->fd, client->out_bytes + out->start, out->end - out->start,
                        MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN) return false;
    if (sent < 0) break;
    out->start += (size_t)sent;
  }
  bool waits = out->start < out->end;
  if (!waits) {
    out->start = out->end = 0;
    client->out_frames = 0;
  }
  if (waits != client->waits_to_write) {
    client->waits_to_write = waits;
    watch(stream, client->fd, EPOLL_CTL_MOD, waits ? EPOLLIN | EPOLLOUT : EPOLLIN, i);
  }
  return true;
}

/* Hears no more of a machine that is gone. */
static void give_up(struct stream *stream, struct client *client) {
  if (!client->is_gone) watch(stream, client->fd, EPOLL_CTL_DEL, 0, 0);
  client->is_gone = true;
}

static void serve_events(struct link *link) {
  struct stream *stream = link->internal;
  struct epoll_event events[CLIENTS_MAX + 2];
  int count = epoll_wait(stream->epoll, events, CLIENTS_MAX + 2, 0);
  for (int e = 0; e < count; e++) {
    unsigned i = events[e].data.u32;
    if (i == TAG_LISTENING) plug(stream);
    if (i >= CLIENTS_MAX || stream->clients[i] == NULL) continue;
    bool stays = (events[e].events & EPOLLOUT) == 0 || write_out(stream, i);
    if (stays && (events[e].events & ~(uint32_t)EPOLLOUT) != 0) stays = read_in(stream->clients[i]);
    if (!stays) give_up(stream, stream->clients[i]);
  }
}

/* Which of its addresses that is; MACS_MAX: none. 0 is nobody's: a free place. */
static unsigned place_of(const struct client *client, uint64_t mac) {
  unsigned k = mac == 0 ? MACS_MAX : 0;
  while (k < MACS_MAX && client->macs[k] != mac) k++;
  return k;
}

/* Where one more address goes: a free place, or that of the one not heard for longest. */
static unsigned place_for(const struct client *client) {
  unsigned oldest = 0;
  for (unsigned k = 0; k < MACS_MAX; k++) {
    if (client->macs[k] == 0) return k;
    if (client->heard_us[k] < client->heard_us[oldest]) oldest = k;
  }
  return oldest;
}

/* Notes that the machine speaks as this address. False: it is another's. */
static bool hear(struct stream *stream, struct client *client, uint64_t mac) {
  if (mac == 0) return true;
  unsigned k = place_of(client, mac);
  for (unsigned i = 0; i < CLIENTS_MAX && k == MACS_MAX; i++) {
    struct client *other = stream->clients[i];
    unsigned place = other == NULL ? MACS_MAX : place_of(other, mac);
    if (place == MACS_MAX) continue;
    if (stream->now_us - other->heard_us[place] < PEER_OWNED_US) return false;
    other->macs[place] = 0;
  }
  if (k == MACS_MAX) k = place_for(client);
  client->macs[k] = mac;
  client->heard_us[k] = stream->now_us;
  return true;
}

static size_t length_at(const uint8_t *bytes) {
  return (size_t)bytes[0] << 24 | (size_t)bytes[1] << 16 | (size_t)bytes[2] << 8 | bytes[3];
}

enum taken { TAKEN_FRAME, TAKEN_NOTHING, TAKEN_HOSTILE };

/* Takes one whole frame into place `i` of the burst; frames that fit nowhere are dropped. */
static enum taken take(struct link *link, struct client *client, uint8_t *packets, int i) {
  for (;;) {
    size_t there = client->in.end - client->in.start;
    const uint8_t *at = client->in_bytes + client->in.start;
    if (there < LENGTH_BYTES) return TAKEN_NOTHING;
    size_t length = length_at(at);
    if (length < ETHERNET_HEADER_BYTES || length > STREAM_FRAME_BYTES_MAX) return TAKEN_HOSTILE;
    if (there < LENGTH_BYTES + length) return TAKEN_NOTHING;
    client->in.start += LENGTH_BYTES + length;
    const uint8_t *source = at + LENGTH_BYTES + 6;
    /* Nobody is a group: the firmware says so. */
    bool is_station = (source[0] & 1) == 0;
    if (is_station && !hear(link->internal, client, mac_number(source))) {
      link->counters.receive_claimed++;
    } else if (frame_fits(length)) {
      memcpy(receive_place(packets, i), at + LENGTH_BYTES, length);
      receive_tell(link, packets, i, (uint32_t)length);
      return TAKEN_FRAME;
    }
    link->counters.receive_dropped++;
  }
}

/* Keeps the descriptor readable while frames wait in our own buffers. */
static void tell_more(struct stream *stream, bool more) {
  if (more == stream->more_is_set) return;
  stream->more_is_set = more;
  uint64_t count = 1;
  ssize_t done = more ? write(stream->more, &count, sizeof count)
                      : read(stream->more, &count, sizeof count);
  (void)done; /* neither can fail: the count is 0 before the one, and 1 before the other */
}

static int stream_receive(struct link *link, uint8_t *packets) {
  struct stream *stream = link->internal;
  stream->now_us = link_now_us();
  serve_events(link);
  int burst = 0;
  for (unsigned n = 0; n < CLIENTS_MAX && burst < HAL_BURST_FRAMES; n++) {
    unsigned i = (stream->next + n) % CLIENTS_MAX;
    struct client *client = stream->clients[i];
    if (client == NULL) continue;
    enum taken taken = TAKEN_FRAME;
    while (burst < HAL_BURST_FRAMES && taken == TAKEN_FRAME) {
      taken = take(link, client, packets, burst);
      if (taken == TAKEN_FRAME) burst++;
    }
    if (taken == TAKEN_HOSTILE) link->counters.receive_dropped++;
    if (taken == TAKEN_HOSTILE || (taken == TAKEN_NOTHING && client->is_gone)) unplug(link, i);
  }
  stream->next = (stream->next + 1) % CLIENTS_MAX;
  tell_more(stream, burst == HAL_BURST_FRAMES);
  return burst;
}

/* Queues a frame for one machine; returns whether there was room. */
static bool queue(struct client *client, const uint8_t *frame, uint32_t length) {
  struct bytes *out = &client->out;
  if (OUT_BYTES - out->end < LENGTH_BYTES + length) compact(out, client->out_bytes);
  if (OUT_BYTES - out->end < LENGTH_BYTES + length) return false;
  uint8_t *at = client->out_bytes + out->end;
  for (int i = 0; i < LENGTH_BYTES; i++) at[i] = (uint8_t)(length >> (24 - 8 * i));
  memcpy(at + LENGTH_BYTES, frame, length);
  out->end += LENGTH_BYTES + length;
  client->out_frames++;
  return true;
}

static void stream_transmit(struct link *link, const uint8_t *frame, uint32_t length) {
  struct stream *stream = link->internal;
  if (!frame_fits(length)) {
    link->counters.send_dropped++;
    return;
  }
  uint64_t mac = mac_number(frame);
  struct client *known = NULL;
  for (unsigned i = 0; i < CLIENTS_MAX && (frame[0] & 1) == 0 && known == NULL; i++) {
    struct client *client = stream->clients[i];
    if (client != NULL && place_of(client, mac) < MACS_MAX) known = client;
  }
  unsigned took = 0;
  for (unsigned i = 0; i < CLIENTS_MAX; i++) {
    struct client *client = stream->clients[i];
    if (client == NULL || (known != NULL && client != known)) continue;
    if (!client->is_gone && queue(client, frame, length)) took++;
    else link->counters.send_dropped++;
  }
  if (took == 0 && known == NULL) link->counters.send_dropped++;
  link->counters.sent += took;
  link->counters.sent_bytes += (uint64_t)took * length;
}

static void stream_flush(struct link *link) {
  struct stream *stream = link->internal;
  for (unsigned i = 0; i < CLIENTS_MAX; i++) {
    struct client *client = stream->clients[i];
    if (client == NULL || client->is_gone || client->out.start == client->out.end) continue;
    if (!write_out(stream, i)) give_up(stream, client);
  }
}

static int stream_descriptor(struct link *link) {
  const struct stream *stream = link->internal;
  return stream->epoll;
}

static void stream_close(struct link *link) {
  struct stream *stream = link->internal;
  for (unsigned i = 0; i < CLIENTS_MAX; i++) {
    if (stream->clients[i] != NULL) unplug(link, i);
  }
  close(stream->listening);
  close(stream->more);
  close(stream->epoll);
  unlink(stream->path);
  free(stream);
  link->internal = NULL;
}

/* Opens the three descriptors. */
static bool open_all(struct stream *stream, struct fault *fault) {
  stream->listening = unix_listen(stream->path, fault);
  if (stream->listening < 0) return false;
  stream->epoll = epoll_create1(EPOLL_CLOEXEC);
  stream->more = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (stream->epoll >= 0 && stream->more >= 0) {
    watch(stream, stream->listening, EPOLL_CTL_ADD, EPOLLIN, TAG_LISTENING);
    watch(stream, stream->more, EPOLL_CTL_ADD, EPOLLIN, TAG_MORE);
    return true;
  }
  fault_set(fault, "no descriptors for the link %s: %s", stream->name, strerror(errno));
  if (stream->epoll >= 0) close(stream->epoll);
  if (stream->more >= 0) close(stream->more);
  close(stream->listening);
  return false;
}

bool link_open_stream(struct link *link, const char *where, struct fault *fault) {
  if (strncmp(where, "unix:", 5) != 0) {
    return fault_set(fault, "'stream:%s' is no stream that we know: give stream:unix:PATH", where);
  }
  struct stream *stream = calloc(1, sizeof *stream);
  if (stream == NULL) return fault_set(fault, "no memory for the link stream:%s", where);
  snprintf(stream->name, sizeof stream->name, "stream:%s", where);
  stream->path = stream->name + strlen("stream:unix:");
  if (!open_all(stream, fault)) {
    free(stream);
    return false;
  }
  *link = (struct link){
      .name = stream->name,
      .receive = stream_receive,
      .transmit = stream_transmit,
      .flush = stream_flush,
      .descriptor = stream_descriptor,
      .close = stream_close,
      .internal = stream,
  };
  return true;
}
