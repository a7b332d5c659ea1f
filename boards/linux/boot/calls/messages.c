#include "calls/messages.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "calls/children.h"
#include "calls/descriptors.h"
#include "link/endpoint.h"

/* The longest datagram, and a peer as text: ADDRESS:PORT, or ADDRESS:PORT/ASKED. */
enum { DATAGRAM_BYTES = 64 << 10, PEER_BYTES = ENDPOINT_TEXT_BYTES + 1 + INET6_ADDRSTRLEN };

struct message {
  uint8_t bytes[DATAGRAM_BYTES];
  size_t length;
  struct endpoint from;
  pid_t sender; /* 0: not said */
};

/* At which of our addresses it came, or which process sent it. */
static void take_control(struct message *message, struct cmsghdr *part) {
  struct ucred who;
  endpoint_hear(&message->from, part);
  if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_CREDENTIALS) return;
  memcpy(&who, CMSG_DATA(part), sizeof who);
  message->sender = who.pid;
}

/* False: none waits, or errno says why. */
static bool receive(int fd, struct message *message) {
  /* No room for descriptors beside it: the kernel closes them. */
  _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(struct in6_pktinfo))];
  struct iovec place = {message->bytes, sizeof message->bytes};
  struct msghdr head = {
      .msg_name = &message->from.address,
      .msg_namelen = sizeof message->from.address,
      .msg_iov = &place,
      .msg_iovlen = 1,
      .msg_control = control,
      .msg_controllen = sizeof control,
  };
  message->sender = 0;
  memset(&message->from, 0, sizeof message->from);
  ssize_t length = recvmsg(fd, &head, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (length < 0) return false;
  message->length = (size_t)length;
  for (struct cmsghdr *part = CMSG_FIRSTHDR(&head); part != NULL; part = CMSG_NXTHDR(&head, part)) {
    take_control(message, part);
  }
  return true;
}

static void write_peer(const struct message *message, char text[PEER_BYTES]) {
  const struct endpoint *from = &message->from;
  if (message->sender != 0) {
    snprintf(text, PEER_BYTES, "%d", (int)message->sender);
    return;
  }
  endpoint_write(from, text);
  if (IN6_IS_ADDR_UNSPECIFIED(&from->asked)) return;
  size_t length = strlen(text);
  text[length++] = '/';
  inet_ntop(AF_INET6, &from->asked, text + length, (socklen_t)(PEER_BYTES - length));
}

HOST_FUNCTION(host_receive_from) {
  static struct message message;
  char peer[PEER_BYTES];
  int fd, domain = 0;
  socklen_t size = sizeof domain;
  if (!take_descriptor(context, arguments[0], "descriptor", &fd)) return JS_EXCEPTION;
  getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
  bool came;
  do {
    came = receive(fd, &message);
  } while (came && domain == AF_UNIX && !children_has(message.sender));
  if (!came) {
    if (errno == EAGAIN || errno == EINTR || errno == ECONNREFUSED) return JS_NULL;
    return throw_system(context, errno, "descriptor %d: no datagram can be received", fd);
  }
  write_peer(&message, peer);
  JSValue result = JS_NewObject(context);
  give(context, result, "bytes", JS_NewArrayBufferCopy(context, message.bytes, message.length));
  give(context, result, "peer", JS_NewString(context, peer));
  return result;
}

/* Reads what write_peer wrote of a peer over UDP. */
static bool read_peer(struct endpoint *to, const char *text) {
  char address[PEER_BYTES];
  struct fault fault;
  const char *slash = strchr(text, '/');
  size_t length = slash == NULL ? strlen(text) : (size_t)(slash - text);
  if (length >= sizeof address) return false;
  memcpy(address, text, length);
  address[length] = '\0';
  return endpoint_parse(to, address, &fault) &&
         (slash == NULL || inet_pton(AF_INET6, slash + 1, &to->asked) == 1);
}

static void send_message(int fd, struct endpoint *to, struct bytes bytes) {
  _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(struct in6_pktinfo))] = {0};
  struct iovec place = {(void *)(uintptr_t)bytes.at, bytes.length};
  struct msghdr head = {
      .msg_name = &to->address,
      .msg_namelen = to->length,
      .msg_iov = &place,
      .msg_iovlen = 1,
      .msg_control = control,
  };
  endpoint_answer(to, &head);
  ssize_t sent = sendmsg(fd, &head, MSG_DONTWAIT | MSG_NOSIGNAL);
  (void)sent;
}

HOST_FUNCTION(host_send_to) {
  int fd;
  struct bytes bytes;
  struct endpoint to;
  if (!take_descriptor(context, arguments[0], "descriptor", &fd)) return JS_EXCEPTION;
  if (!take_bytes(context, arguments[2], "bytes", &bytes)) return JS_EXCEPTION;
  const char *peer = take_string(context, arguments[1], "peer");
  if (peer == NULL) return JS_EXCEPTION;
  bool is_peer = read_peer(&to, peer);
  if (is_peer) send_message(fd, &to, bytes);
  else throw_error(context, "EINVAL", "'%s' is no peer that a datagram came from", peer);
  JS_FreeCString(context, peer);
  return is_peer ? JS_UNDEFINED : JS_EXCEPTION;
}
