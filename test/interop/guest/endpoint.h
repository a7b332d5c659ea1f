/*
 * One RDMA-CM connection to a DPU that publishes a region, and requests on it.
 *
 * Invariants:
 * - Nothing is awaited permanently: the retry counts that are asked for end, and each wait for a
 *   completion has a limit. Linux takes a retry count of 7 to mean "forever", so this asks for 6.
 * - One request is on its way unless the caller posts more; each is signalled.
 * - Offsets count from the first byte of the published region.
 */

#ifndef ENDPOINT_H
#define ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

/* Bytes of each of the three parts of our own memory. */
#define PART_BYTES 16384

/* Receives that are posted from the start, and the bytes of each. */
#define RECEIVES 8
#define RECEIVE_BYTES 2048

/* What the DPU says about its region in the private data of REP (28 bytes, little-endian). */
struct region {
	uint64_t address;
	uint64_t size;
	uint32_t key;
	uint8_t usage;
	bool direct_write_to_pmem;
};

struct endpoint {
	struct rdma_cm_id *id;
	struct ibv_cq *sends;
	struct ibv_cq *receives;
	struct ibv_qp_ex *queue;
	struct ibv_mr *mr;
	struct region region;
	bool connected;
	uint8_t *source;   /* what is written or sent */
	uint8_t *sink;     /* what is read lands here */
	uint8_t *received; /* what is received lands here */
};

enum operation {
	WRITE,
	WRITE_IMM,
	SEND,
	SEND_IMM,
	SEND_INVALIDATE,
	READ,
	FETCH_ADD,
	COMPARE_SWAP,
	ATOMIC_WRITE,
	FLUSH,
};

struct request {
	enum operation operation;
	uint64_t offset; /* in the region */
	uint32_t length; /* bytes; for FLUSH of the region as well */
	uint32_t key;    /* 0: the region's own; for SEND_INVALIDATE the key to invalidate */
	uint32_t immediate;
	uint64_t add_or_compare;
	uint64_t swap;
	uint8_t flush_type;  /* IBV_FLUSH_GLOBAL, IBV_FLUSH_PERSISTENT */
	uint8_t flush_level; /* IBV_FLUSH_RANGE, IBV_FLUSH_MR */
	bool solicited;
	uint32_t at; /* in our own memory: where the bytes are, or where they go */
};

/* Connects. Returns NULL, or why it could not; `refused` gets the reason of a REJ, or 0. */
const char *endpoint_open(struct endpoint *endpoint, const char *address, const char *port,
			  int *refused);

/* Likewise, to a port whose answer says nothing of the region that this client would know. */
const char *endpoint_connect(struct endpoint *endpoint, const char *address, const char *port,
			     int *refused);

/* Says goodbye and frees everything. Harmless on one that was never opened. */
void endpoint_close(struct endpoint *endpoint);

/* Posts a request without waiting. Returns 0 or an errno. */
int endpoint_post(struct endpoint *endpoint, const struct request *request);

/* Waits for the completion of a request. Returns false if none came in time. */
bool endpoint_wait(struct endpoint *endpoint, struct ibv_wc *completion);

/* Likewise, for so many milliseconds at most. */
bool endpoint_wait_for(struct endpoint *endpoint, struct ibv_wc *completion, int wait_ms);

/* Waits for a message of the DPU; its bytes are `received` + wr_id * RECEIVE_BYTES. */
bool endpoint_receive(struct endpoint *endpoint, struct ibv_wc *completion);

/* Posts and waits. Returns the status, or -1 where it could not be posted, -2 where none came. */
int endpoint_do(struct endpoint *endpoint, const struct request *request);

/* A name for what endpoint_do returned. */
const char *status_name(int status);

#endif
