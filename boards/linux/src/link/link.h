/*
 * The port: bursts of frames in, bursts of frames out, over whatever carries them.
 *
 * Invariants:
 * - `receive` puts up to BURST_FRAMES frames straight into the receive places of packet memory,
 *   writes each one's length and ICRC flags, and returns how many; it never waits. Tags are judged
 *   behind it (card/tags.h): a frame that a link drops must not use up its counter.
 * - `transmit` takes the frame's bytes before it returns: the place is the firmware's again. What
 *   it took leaves at the latest at `flush`, which the loop calls behind every call of the
 *   firmware: one system call per burst where the carrier allows it.
 * - A frame that cannot leave is counted and dropped, as on any wire. A frame too long or too short
 *   for a place is counted and never reaches the firmware.
 */
#ifndef PERDURE_LINK_H
#define PERDURE_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "service/fault.h"

struct link_counters {
  uint64_t received, received_bytes, sent, sent_bytes;
  uint64_t receive_dropped; /* by us or by the kernel before us */
  uint64_t receive_claimed; /* of these: came from an address that is another's */
  uint64_t send_dropped;
  uint64_t floods; /* of strangers, that have begun (strangers.h) */
};

struct link {
  const char *name; /* as in the configuration, "packet:eth0" */
  bool down;        /* the interface is down: `descriptor` wants to be asked now and then */
  bool gone;        /* it was deleted, for good: nothing comes or leaves any more */
  bool flooded;     /* strangers are kept out: `receive` wants to be asked now and then */
  struct link_counters counters;
  int (*receive)(struct link *link, uint8_t *packets);
  void (*transmit)(struct link *link, const uint8_t *frame, uint32_t length);
  void (*flush)(struct link *link);
  /* A descriptor that polls readable when a frame waits. It may change when `receive` ran. */
  int (*descriptor)(struct link *link);
  void (*close)(struct link *link);
  /*
   * `listen_as` says what the card's own address is: frames for it, and for no other station, come
   * in from then on. NULL where the carrier leaves that to the firmware. `mac` is the interface's;
   * NULL where there is none.
   */
  bool (*listen_as)(struct link *link, const uint8_t mac[6], struct fault *fault);
  const uint8_t *mac;
  void *internal;
};

/*
 * Opens what `where` names:
 *   packet:INTERFACE      raw Ethernet, mapped rings
 *   udp:ADDRESS:PORT      one datagram is one frame; the peer of an address is learned, as
 *                         `boards/emulator/network/tunnel.ts` does it. Port 0: `name` says the real
 *                         one
 *   stream:unix:PATH      QEMU's stream backend, we listen
 *   dgram:ADDR:PORT,ADDR:PORT   QEMU's dgram backend: own, then the other's
 */
bool link_open(struct link *link, const char *where, struct fault *fault);

#endif
