#include "link/datagrams.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Room for bursts of every client; the system may give less to a process without privileges. */
enum { SOCKET_BYTES = 4 << 20 };

static void make_room(int fd, int forced, int asked) {
  int bytes = SOCKET_BYTES;
  if (setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof bytes) == 0) return;
  setsockopt(fd, SOL_SOCKET, asked, &bytes, sizeof bytes);
}

/* The parts of the messages that no burst changes. */
static void lay_out(struct datagrams *d) {
  for (int i = 0; i < HAL_BURST_FRAMES; i++) {
    d->in_places[i].iov_len = HAL_FRAME_BYTES_MAX;
    d->in[i].msg_hdr.msg_iov = &d->in_places[i];
    d->in[i].msg_hdr.msg_iovlen = 1;
    d->in[i].msg_hdr.msg_name = &d->from[i].address;
    d->in[i].msg_hdr.msg_namelen = sizeof d->from[i].address;
    d->in[i].msg_hdr.msg_control = d->control[i];
    d->in[i].msg_hdr.msg_controllen = CONTROL_BYTES;
  }
  for (int i = 0; i < SEND_FRAMES; i++) {
    d->out[i].msg_hdr.msg_iov = &d->out_places[i];
    d->out[i].msg_hdr.msg_iovlen = 1;
    d->out[i].msg_hdr.msg_name = &d->to[i].address;
    d->out[i].msg_hdr.msg_control = d->out_control[i];
  }
}

/* The kernel says of each datagram at which address it came. */
static void tell_asked(int fd, sa_family_t family) {
  int on = 1;
  if (family == AF_INET) setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
  else setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on);
}

bool datagrams_open(struct datagrams *d, struct endpoint *own, struct fault *fault) {
  char text[ENDPOINT_TEXT_BYTES];
  endpoint_write(own, text);
  lay_out(d);
  d->fd = socket(own->address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (d->fd < 0) {
    return fault_set(fault, "cannot make a UDP socket for %s: %s", text, strerror(errno));
  }
  int on = 1;
  setsockopt(d->fd, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof on);
  /* Only where there is a choice: it costs a look at each datagram. */
  if (endpoint_is_any(own)) tell_asked(d->fd, own->address.any.sa_family);
  make_room(d->fd, SO_RCVBUFFORCE, SO_RCVBUF);
  make_room(d->fd, SO_SNDBUFFORCE, SO_SNDBUF);
  socklen_t length = sizeof own->address;
  if (bind(d->fd, &own->address.any, own->length) == 0 &&
      getsockname(d->fd, &own->address.any, &length) == 0) {
    return true;
  }
  int reason = errno;
  close(d->fd);
  return fault_set(fault, "cannot listen on UDP %s: %s", text, strerror(reason));
}

/* Adds what the kernel dropped since it last told so; it tells with the next datagram. */
static void count_kernel_drops(struct datagrams *d, struct link *link, struct cmsghdr *part) {
  uint32_t dropped;
  memcpy(&dropped, CMSG_DATA(part), sizeof dropped);
  link->counters.receive_dropped += (uint32_t)(dropped - d->kernel_dropped);
  d->kernel_dropped = dropped;
}

/* What the kernel says beside a datagram. */
static void take_control(struct datagrams *d, struct link *link, int i) {
  struct msghdr *message = &d->in[i].msg_hdr;
  for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part != NULL;
       part = CMSG_NXTHDR(message, part)) {
    if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SO_RXQ_OVFL) {
      count_kernel_drops(d, link, part);
    } else {
      endpoint_hear(&d->from[i], part);
    }
  }
}

int datagrams_receive(struct datagrams *d, struct link *link, uint8_t *packets,
                      datagrams_heard *heard, void *whom) {
  for (int i = 0; i < HAL_BURST_FRAMES; i++) d->in_places[i].iov_base = receive_place(packets, i);
  int came = recvmmsg(d->fd, d->in, HAL_BURST_FRAMES, MSG_DONTWAIT, NULL);
  int kept = 0;
  /* An earlier frame found nobody: told once, by whichever call comes next. */
  if (came < 0 && errno == ECONNREFUSED) link->counters.send_dropped++;
  for (int i = 0; i < came; i++) {
    struct msghdr *message = &d->in[i].msg_hdr;
    uint8_t *frame = receive_place(packets, i);
    uint32_t length = d->in[i].msg_len;
    bool fits = frame_fits(length) && (message->msg_flags & MSG_TRUNC) == 0;
    memset(&d->from[i].asked, 0, sizeof d->from[i].asked);
    if (message->msg_controllen > 0) take_control(d, link, i);
    message->msg_controllen = CONTROL_BYTES;
    d->from[i].length = message->msg_namelen;
    message->msg_namelen = sizeof d->from[i].address;
    uint32_t there = length < HAL_FRAME_BYTES_MAX ? length : HAL_FRAME_BYTES_MAX;
    bool is_claimed = heard != NULL && !heard(whom, frame, there, &d->from[i]);
    if (is_claimed) link->counters.receive_claimed++;
    if (!fits || is_claimed) {
      link->counters.receive_dropped++;
      continue;
    }
    if (kept != i) memcpy(receive_place(packets, kept), frame, length);
    receive_tell(link, packets, kept++, length);
  }
  return kept;
}

/* Sends what is queued. A message that is refused is skipped; a full socket drops the rest. */
static void send_queued(struct datagrams *d, struct link *link) {
  unsigned at = 0;
  while (at < d->waiting) {
    int sent = sendmmsg(d->fd, d->out + at, d->waiting - at, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) {
      link->counters.sent += (unsigned)sent;
      for (; sent > 0; sent--) link->counters.sent_bytes += d->out_places[at++].iov_len;
    } else if (errno == EAGAIN || errno == ENOBUFS) {
      link->counters.send_dropped += d->waiting - at;
      at = d->waiting;
    } else if (errno != EINTR) {
      link->counters.send_dropped++;
      at++;
    }
  }
  d->waiting = 0;
}

void datagrams_flush(struct datagrams *d, struct link *link) {
  if (d->waiting > 0) send_queued(d, link);
  d->stored = 0;
}

const uint8_t *datagrams_keep(struct datagrams *d, struct link *link, const uint8_t *frame,
                              uint32_t length) {
  if (!frame_fits(length)) {
    link->counters.send_dropped++;
    return NULL;
  }
  if (d->stored == SEND_FRAMES) datagrams_flush(d, link);
  return memcpy(d->frames[d->stored++], frame, length);
}

void datagrams_send(struct datagrams *d, struct link *link, const uint8_t *kept, uint32_t length,
                    const struct endpoint *to) {
  /* Not datagrams_flush: `kept` has to stay for the receivers behind this one. */
  if (d->waiting == SEND_FRAMES) send_queued(d, link);
  unsigned i = d->waiting++;
  d->to[i] = *to;
  d->out_places[i].iov_base = (void *)(uintptr_t)kept;
  d->out_places[i].iov_len = length;
  d->out[i].msg_hdr.msg_namelen = to->length;
  d->out[i].msg_hdr.msg_controllen = 0;
  endpoint_answer(&d->to[i], &d->out[i].msg_hdr);
}

void datagrams_close(struct datagrams *d) { close(d->fd); }
