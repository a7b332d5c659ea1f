/*
 * Floods: while one is on, the kernel keeps most of it out before it takes room in the socket.
 *
 * A client is whoever the card speaks with: it has sent there a packet of a queue pair, an answer
 * that is sealed, or one that connects. Anybody else is a stranger. A client is known by his
 * address, and in a tunnel by his port, too.
 *
 * Invariants:
 * - No client is kept out of anything: the filter lets in whatever comes from his address. Where
 *   there are more clients than it can name, there is no filter.
 * - There is a filter only while strangers send more than STRANGERS_MAX frames of a kind in
 *   STRANGERS_WINDOW_US. Of the frames of that kind it lets one of so many in, drawn by the kernel:
 *   so whoever asks again becomes a client in the end.
 * - Nothing is kept of a stranger: whose address he forges does not come to harm by it.
 * - Nothing is allocated; a frame that comes or leaves costs a look at its head and into a table.
 */
#ifndef PERDURE_STRANGERS_H
#define PERDURE_STRANGERS_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>

#include "link/link.h"

enum {
  CLIENTS_MAX = 512, /* two lines of a program each: the kernel has room for two such programs */
  CLIENT_PLACES = 2 * CLIENTS_MAX,
  STRANGERS_MAX = 4096, /* more than a crowd asks; they take a tenth of a core */
  FIRST_LINES_MAX = 16,
};

#define STRANGERS_WINDOW_US UINT64_C(100000)

/* Of a full table the client makes room with whom the card has not spoken for so long. */
#define CLIENT_SILENT_US UINT64_C(60000000)

/* How strangers are told from each other: calls, which everybody begins with, and all else. */
enum stranger_kind { STRANGER_CALLS, STRANGER_PACKETS, STRANGER_KINDS };

struct client {
  uint32_t key;
  uint64_t spoken_us;
};

struct strangers {
  int fd;
  bool is_on;     /* false: the link is of no card, and everybody is let in */
  bool is_tunnel; /* frames come in datagrams of UDP, else as they are */
  /* What is filtered in any case; it goes on behind its end with what may come in. */
  struct sock_filter first[FIRST_LINES_MAX];
  unsigned first_count;
  uint32_t factor; /* drawn: nobody can choose an address that has the key of another */
  struct client clients[CLIENTS_MAX];
  uint16_t places[CLIENT_PLACES]; /* of clients by their key, plus one */
  unsigned count;
  bool is_full; /* there are clients who are not named */
  uint16_t last;
  unsigned came[STRANGER_KINDS]; /* since the window began */
  bool thins[STRANGER_KINDS];
  bool is_stale; /* the filter does not name the newest client */
  uint64_t since_us, attached_us, swept_us;
};

/*
 * Begins with nobody, for the frames of that socket; it is not on yet. `first`, of a packet socket,
 * lets frames in that come to its end.
 */
void strangers_init(struct strangers *strangers, int fd, bool is_tunnel,
                    const struct sock_filter *first, unsigned first_count);

/* Attaches the filter that holds now; false, with errno, where the kernel does not take it. */
bool strangers_attach(struct strangers *strangers, uint64_t now_us);

/* The key of an address of 4 or 16 bytes, IPv4 also as ::ffff:a.b.c.d, and of a port, or 0. */
uint32_t strangers_key(const struct strangers *strangers, const void *address, unsigned bytes,
                       uint16_t port);

/* A frame of any content came from there. */
void strangers_hear(struct strangers *strangers, uint32_t key, const uint8_t *frame,
                    uint32_t length);

/* The card sends that frame there. */
void strangers_speak(struct strangers *strangers, uint32_t key, const uint8_t *frame,
                     uint32_t length, uint64_t now_us);

/* Begins and ends floods of the link; to be called before every burst. */
void strangers_look(struct strangers *strangers, struct link *link, uint64_t now_us);

/* The address that the frame comes from (`at` 0) or goes to (1), and its bytes; 0: none. */
unsigned strangers_address(const uint8_t *frame, uint32_t length, int at, const uint8_t **address);

#endif
