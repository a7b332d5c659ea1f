/*
 * Raw Ethernet: a packet socket with mapped rings both ways.
 *
 * Invariants:
 * - Taking frames costs no system call while there are any, and sending a burst costs one.
 * - Only frames for us come in, and groups: a filter in the kernel sees to it before the ring.
 * - A VLAN tag that the kernel took out of a frame stands in it again.
 * - Frames that the kernel drops, because the ring is full, are counted.
 * - An interface that is deleted is noticed: `gone`.
 *
 * The rings are of TPACKET_V2, whose unit is a frame. TPACKET_V3 hands over blocks, when one is
 * full or when its timer has run, which is a jiffy at best: with it every answer would wait for
 * that.
 *
 *     ring:  [slot][slot][slot] ...            RING_SLOTS, then the same for sending
 *     slot:  tpacket2_hdr, room, frame         the kernel says in tp_mac where the frame starts
 */

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link/clock.h"
#include "link/link-kinds.h"
#include "link/known/strangers.h"

enum {
  SLOT_BYTES = 4384, /* a frame, and at most 94 bytes that the kernel puts before it */
  BLOCK_BYTES = 128 << 10, /* a multiple of every kernel's page, which is 64 KiB at the most */
  SLOTS_EACH = BLOCK_BYTES / SLOT_BYTES,
  BLOCKS = 36,
  RING_SLOTS = BLOCKS * SLOTS_EACH,
  RING_BYTES = BLOCKS * BLOCK_BYTES,
  SEND_AT = 32, /* where the kernel expects a frame that is to be sent */
  TAG_BYTES = 4,
  MACS_BYTES = 12,
};

_Static_assert(SEND_AT == sizeof(struct tpacket2_hdr), "the frame follows the header");
_Static_assert(SLOT_BYTES % TPACKET_ALIGNMENT == 0, "the kernel wants slots aligned");
_Static_assert(SLOT_BYTES >= 94 + HAL_FRAME_BYTES_MAX, "a frame must fit");

struct packet {
  int fd, interface;
  uint8_t *rings; /* the received, then the sent */
  unsigned take, put;
  unsigned queued; /* frames in the ring that the kernel was not told of */
  uint32_t frame_bytes_max;
  struct strangers strangers;
  uint64_t now_us; /* of the burst */
  uint8_t mac[6];
  char name[sizeof "packet:" + IFNAMSIZ];
};

static struct tpacket2_hdr *slot(const struct packet *packet, unsigned ring, unsigned i) {
  size_t at = (size_t)(i / SLOTS_EACH) * BLOCK_BYTES + (size_t)(i % SLOTS_EACH) * SLOT_BYTES;
  return (struct tpacket2_hdr *)(void *)(packet->rings + (size_t)ring * RING_BYTES + at);
}

enum { RECEIVED, SENT };

static unsigned after(unsigned i) { return i + 1 == RING_SLOTS ? 0 : i + 1; }

/* Copies the frame of a slot to `place` with the tag that was taken out; 0 if it does not fit. */
static uint32_t copy_frame(const struct tpacket2_hdr *header, uint32_t status, uint8_t *place) {
  const uint8_t *frame = (const uint8_t *)header + header->tp_mac;
  uint32_t length = header->tp_len;
  bool tagged = (status & TP_STATUS_VLAN_VALID) != 0;
  if (header->tp_snaplen < length || !frame_fits(length)) return 0;
  if (!tagged) {
    memcpy(place, frame, length);
    return length;
  }
  if (!frame_fits((uint64_t)length + TAG_BYTES)) return 0;
  uint16_t type = (status & TP_STATUS_VLAN_TPID_VALID) != 0 ? header->tp_vlan_tpid : ETH_P_8021Q;
  const uint8_t tag[TAG_BYTES] = {(uint8_t)(type >> 8), (uint8_t)type,
                                  (uint8_t)(header->tp_vlan_tci >> 8),
                                  (uint8_t)header->tp_vlan_tci};
  memcpy(place, frame, MACS_BYTES);
  memcpy(place + MACS_BYTES, tag, TAG_BYTES);
  memcpy(place + MACS_BYTES + TAG_BYTES, frame + MACS_BYTES, length - MACS_BYTES);
  return length + TAG_BYTES;
}

/* Adds what the ring had no room for. Reading the kernel's counter clears it. */
static void count_kernel_drops(struct link *link) {
  const struct packet *packet = link->internal;
  struct tpacket_stats stats;
  socklen_t length = sizeof stats;
  if (getsockopt(packet->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &length) != 0) return;
  link->counters.receive_dropped += stats.tp_drops;
}

/* The key of who sent the frame (`at` 0), or of who gets it (1), among clients and strangers. */
static uint32_t key_of(const struct packet *packet, const uint8_t *frame, uint32_t length, int at) {
  const uint8_t *address = NULL;
  unsigned bytes = strangers_address(frame, length, at, &address);
  return strangers_key(&packet->strangers, address, bytes, 0);
}

static void hear(struct packet *packet, const uint8_t *frame, uint32_t length) {
  strangers_hear(&packet->strangers, key_of(packet, frame, length, 0), frame, length);
}

static int packet_receive(struct link *link, uint8_t *packets) {
  struct packet *packet = link->internal;
  bool losing = false;
  int burst = 0;
  packet->now_us = link_now_us();
  strangers_look(&packet->strangers, link, packet->now_us);
  while (burst < HAL_BURST_FRAMES) {
    struct tpacket2_hdr *header = slot(packet, RECEIVED, packet->take);
    uint32_t status = __atomic_load_n(&header->tp_status, __ATOMIC_ACQUIRE);
    if ((status & TP_STATUS_USER) == 0) break;
    uint32_t length = copy_frame(header, status, receive_place(packets, burst));
    __atomic_store_n(&header->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
    packet->take = after(packet->take);
    losing |= (status & TP_STATUS_LOSING) != 0;
    if (length > 0) {
      hear(packet, receive_place(packets, burst), length);
      receive_tell(link, packets, burst++, length);
    } else {
      link->counters.receive_dropped++;
    }
  }
  if (losing) count_kernel_drops(link);
  return burst;
}

/*
 * Is the interface up, down, or deleted? One that is down comes back, and the socket is still bound
 * to it. One that is deleted never does: another of the same name is another interface.
 */
static void look_for_interface(struct link *link) {
  const struct packet *packet = link->internal;
  struct sockaddr_ll at = {0};
  struct ifreq request = {0};
  socklen_t length = sizeof at;
  bool asked = getsockname(packet->fd, (struct sockaddr *)&at, &length) == 0;
  link->gone = asked && at.sll_ifindex != packet->interface;
  request.ifr_ifindex = packet->interface;
  bool is_up = ioctl(packet->fd, SIOCGIFNAME, &request) == 0 &&
               ioctl(packet->fd, SIOCGIFFLAGS, &request) == 0 &&
               ((unsigned)request.ifr_flags & IFF_UP) != 0;
  link->down = !is_up;
}

static void packet_flush(struct link *link) {
  struct packet *packet = link->internal;
  if (packet->queued == 0) return;
  /* What it says about single frames is in their slots; what it could not take stays queued. */
  ssize_t sent;
  do {
    sent = send(packet->fd, NULL, 0, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0 && errno != EAGAIN) look_for_interface(link);
  packet->queued = 0;
}

static void packet_transmit(struct link *link, const uint8_t *frame, uint32_t length) {
  struct packet *packet = link->internal;
  struct tpacket2_hdr *header = slot(packet, SENT, packet->put);
  if (!frame_fits(length) || length > packet->frame_bytes_max) {
    link->counters.send_dropped++;
    return;
  }
  if (__atomic_load_n(&header->tp_status, __ATOMIC_ACQUIRE) != TP_STATUS_AVAILABLE) {
    packet->queued = 1;
    packet_flush(link);
    if (__atomic_load_n(&header->tp_status, __ATOMIC_ACQUIRE) != TP_STATUS_AVAILABLE) {
      link->counters.send_dropped++;
      return;
    }
  }
  uint32_t key = key_of(packet, frame, length, 1);
  strangers_speak(&packet->strangers, key, frame, length, packet->now_us);
  memcpy((uint8_t *)header + SEND_AT, frame, length);
  header->tp_len = length;
  __atomic_store_n(&header->tp_status, TP_STATUS_SEND_REQUEST, __ATOMIC_RELEASE);
  packet->put = after(packet->put);
  packet->queued++;
  link->counters.sent++;
  link->counters.sent_bytes += length;
}

/*
 * Also takes the error that the kernel notes when the interface goes down: polling would spin. Of
 * one that is deleted there is no other: it goes down first, so one that is down is asked again.
 */
static int packet_descriptor(struct link *link) {
  const struct packet *packet = link->internal;
  int error = 0;
  socklen_t length = sizeof error;
  bool asked = getsockopt(packet->fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0;
  if (link->down || (asked && error != 0)) look_for_interface(link);
  return packet->fd;
}

static void packet_close(struct link *link) {
  struct packet *packet = link->internal;
  munmap(packet->rings, 2 * (size_t)RING_BYTES);
  close(packet->fd);
  free(packet);
  link->internal = NULL;
}

/* Lets frames come to its end whose destination is a group or `mac`, and none that leave. */
static bool filter_for(struct packet *packet, const uint8_t *mac) {
  uint32_t upper = (uint32_t)mac[0] << 24 | (uint32_t)mac[1] << 16 | (uint32_t)mac[2] << 8 | mac[3];
  uint32_t lower = (uint32_t)mac[4] << 8 | mac[5];
  const struct sock_filter lines[] = {
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 6, 0),
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 1, 5, 0),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, upper, 0, 2),
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 4),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, lower, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, 0),
  };
  strangers_init(&packet->strangers, packet->fd, false, lines, sizeof lines / sizeof lines[0]);
  return strangers_attach(&packet->strangers, link_now_us());
}

static bool join(const struct packet *packet, unsigned short kind, const uint8_t *mac) {
  struct packet_mreq request = {.mr_ifindex = packet->interface, .mr_type = kind};
  if (mac != NULL) {
    request.mr_alen = 6;
    memcpy(request.mr_address, mac, 6);
  }
  return setsockopt(packet->fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &request, sizeof request) == 0;
}

/* An address that is not the interface's has to be asked for. */
static bool packet_listen_as(struct link *link, const uint8_t mac[6], struct fault *fault) {
  struct packet *packet = link->internal;
  bool is_own = memcmp(mac, packet->mac, 6) == 0;
  if (filter_for(packet, mac) && (is_own || join(packet, PACKET_MR_UNICAST, mac))) {
    packet->strangers.is_on = true;
    return true;
  }
  return fault_set(fault, "%s cannot listen as %02x:%02x:%02x:%02x:%02x:%02x: %s", packet->name,
                   mac[0], mac[1], mac[2], mac[3], mac[4], mac[5], strerror(errno));
}

/* Reads number, address and MTU of the interface. */
static bool ask_interface(struct packet *packet, const char *interface) {
  struct ifreq request = {0};
  memcpy(request.ifr_name, interface, strlen(interface));
  if (ioctl(packet->fd, SIOCGIFINDEX, &request) != 0) return false;
  packet->interface = request.ifr_ifindex;
  if (ioctl(packet->fd, SIOCGIFHWADDR, &request) != 0) return false;
  memcpy(packet->mac, request.ifr_hwaddr.sa_data, 6);
  if (ioctl(packet->fd, SIOCGIFMTU, &request) != 0) return false;
  packet->frame_bytes_max = (uint32_t)request.ifr_mtu + ETHERNET_HEADER_BYTES + TAG_BYTES;
  return true;
}

static bool map_rings(struct packet *packet) {
  int version = TPACKET_V2, on = 1;
  struct tpacket_req ring = {.tp_block_size = BLOCK_BYTES,
                             .tp_block_nr = BLOCKS,
                             .tp_frame_size = SLOT_BYTES,
                             .tp_frame_nr = RING_SLOTS};
  int fd = packet->fd;
  if (setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version) != 0) return false;
  /* A frame that the kernel refuses is skipped; else it would stop all behind it. */
  if (setsockopt(fd, SOL_PACKET, PACKET_LOSS, &on, sizeof on) != 0) return false;
  if (setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &ring, sizeof ring) != 0) return false;
  if (setsockopt(fd, SOL_PACKET, PACKET_TX_RING, &ring, sizeof ring) != 0) return false;
  /* Answers wait for nobody: past the queueing discipline, where the kernel can. */
  setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on);
  void *rings =
      mmap(NULL, 2 * (size_t)RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (rings == MAP_FAILED) return false;
  packet->rings = rings;
  return true;
}

/* The filter comes first, and the protocol last: not one frame slips in before all is ready. */
static bool set_up(struct packet *packet, const char *interface) {
  packet->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (packet->fd < 0) return false;
  if (!ask_interface(packet, interface) || !filter_for(packet, packet->mac)) return false;
  if (!map_rings(packet) || !join(packet, PACKET_MR_ALLMULTI, NULL)) return false;
  struct sockaddr_ll at = {.sll_family = AF_PACKET,
                           .sll_protocol = htons(ETH_P_ALL),
                           .sll_ifindex = packet->interface};
  return bind(packet->fd, (const struct sockaddr *)&at, sizeof at) == 0;
}

bool link_open_packet(struct link *link, const char *where, struct fault *fault) {
  if (where[0] == '\0' || strlen(where) >= IFNAMSIZ) {
    return fault_set(fault, "'packet:%s' names no interface: give packet:eth0", where);
  }
  struct packet *packet = calloc(1, sizeof *packet);
  if (packet == NULL) return fault_set(fault, "no memory for the link packet:%s", where);
  if (!set_up(packet, where)) {
    const char *hint = errno == EPERM ? "; packet sockets need CAP_NET_RAW" : "";
    fault_set(fault, "cannot open the interface %s: %s%s", where, strerror(errno), hint);
    if (packet->rings != NULL) munmap(packet->rings, 2 * (size_t)RING_BYTES);
    if (packet->fd >= 0) close(packet->fd);
    free(packet);
    return false;
  }
  snprintf(packet->name, sizeof packet->name, "packet:%s", where);
  *link = (struct link){
      .name = packet->name,
      .receive = packet_receive,
      .transmit = packet_transmit,
      .flush = packet_flush,
      .descriptor = packet_descriptor,
      .close = packet_close,
      .listen_as = packet_listen_as,
      .mac = packet->mac,
      .internal = packet,
  };
  return true;
}
