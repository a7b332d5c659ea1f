/* See endpoint.h. */

#include "endpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* How long a completion may take. A retransmission by Linux takes half a second. */
#define WAIT_MS 15000
#define POLL_US 100
#define RESOLVE_MS 15000

/* Requests that may wait in our queue. */
#define REQUESTS 256

/* The private data of librpma's examples: two lengths around two descriptors. */
#define PRIVATE_BYTES 28
#define AT_OFFSET 0
#define AT_REGION_BYTES 2
#define AT_CONFIG_BYTES 3
#define AT_ADDRESS 4
#define AT_SIZE 12
#define AT_KEY 20
#define AT_USAGE 24
#define AT_CONFIG 25

static uint64_t little(const uint8_t *bytes, int count)
{
	uint64_t value = 0;

	while (count-- > 0)
		value = value << 8 | bytes[count];
	return value;
}

static const char *read_region(struct region *region, const struct rdma_conn_param *param)
{
	const uint8_t *bytes = param->private_data;

	if (bytes == NULL || param->private_data_len < PRIVATE_BYTES)
		return "the REP has no descriptor";
	if (bytes[AT_REGION_BYTES] != 21 || bytes[AT_CONFIG_BYTES] != 1)
		return "the descriptor is not one of librpma's examples";
	if (little(bytes + AT_OFFSET, 2) != 0)
		return "the data offset is not 0";
	region->address = little(bytes + AT_ADDRESS, 8);
	region->size = little(bytes + AT_SIZE, 8);
	region->key = (uint32_t)little(bytes + AT_KEY, 4);
	region->usage = bytes[AT_USAGE];
	region->direct_write_to_pmem = bytes[AT_CONFIG] == 1;
	return NULL;
}

static const char *make_queue(struct endpoint *endpoint)
{
	struct rdma_cm_id *id = endpoint->id;
	struct ibv_qp_init_attr_ex attributes = {
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
				  IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
				  IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_READ |
				  IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
				  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_FLUSH |
				  IBV_QP_EX_WITH_ATOMIC_WRITE,
		.cap = { .max_send_wr = REQUESTS,
			 .max_recv_wr = RECEIVES,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};

	id->pd = ibv_alloc_pd(id->verbs);
	endpoint->sends = ibv_create_cq(id->verbs, REQUESTS, NULL, NULL, 0);
	endpoint->receives = ibv_create_cq(id->verbs, RECEIVES, NULL, NULL, 0);
	if (id->pd == NULL || endpoint->sends == NULL || endpoint->receives == NULL)
		return "no completion queue";
	attributes.pd = id->pd;
	attributes.send_cq = endpoint->sends;
	attributes.recv_cq = endpoint->receives;
	if (rdma_create_qp_ex(id, &attributes) != 0)
		return strerror(errno);
	endpoint->queue = ibv_qp_to_qp_ex(id->qp);
	return NULL;
}

static int post_receive(struct endpoint *endpoint, uint64_t place)
{
	struct ibv_sge piece = { .addr = (uintptr_t)endpoint->received + place * RECEIVE_BYTES,
				 .length = RECEIVE_BYTES,
				 .lkey = endpoint->mr->lkey };
	struct ibv_recv_wr receive = { .wr_id = place, .sg_list = &piece, .num_sge = 1 };
	struct ibv_recv_wr *refused;

	return ibv_post_recv(endpoint->id->qp, &receive, &refused);
}

static const char *make_memory(struct endpoint *endpoint)
{
	uint8_t *memory = NULL;

	if (posix_memalign((void **)&memory, 4096, 3 * PART_BYTES) != 0)
		return "no memory";
	memset(memory, 0, 3 * PART_BYTES);
	endpoint->source = memory;
	endpoint->sink = memory + PART_BYTES;
	endpoint->received = memory + 2 * PART_BYTES;
	endpoint->mr = ibv_reg_mr(endpoint->id->pd, memory, 3 * PART_BYTES, IBV_ACCESS_LOCAL_WRITE);
	if (endpoint->mr == NULL)
		return strerror(errno);
	for (uint64_t place = 0; place < RECEIVES; place++)
		if (post_receive(endpoint, place) != 0)
			return "no receive could be posted";
	return NULL;
}

static const char *find(struct endpoint *endpoint, const char *address, const char *port)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP };
	struct rdma_addrinfo *found = NULL;
	const char *why = NULL;

	if (rdma_getaddrinfo(address, port, &hints, &found) != 0)
		return "no such address";
	if (rdma_create_id(NULL, &endpoint->id, NULL, RDMA_PS_TCP) != 0)
		why = strerror(errno);
	else if (rdma_resolve_addr(endpoint->id, NULL, found->ai_dst_addr, RESOLVE_MS) != 0)
		why = "the address was not resolved (ARP, neighbour discovery)";
	else if (rdma_resolve_route(endpoint->id, RESOLVE_MS) != 0)
		why = "the route was not resolved";
	rdma_freeaddrinfo(found);
	return why;
}

const char *endpoint_connect(struct endpoint *endpoint, const char *address, const char *port,
			     int *refused)
{
	struct rdma_conn_param wanted = { .responder_resources = 16,
					  .initiator_depth = 16,
					  .retry_count = 6,
					  .rnr_retry_count = 6 };
	const char *why;

	memset(endpoint, 0, sizeof(*endpoint));
	*refused = 0;
	why = find(endpoint, address, port);
	if (why == NULL)
		why = make_queue(endpoint);
	if (why == NULL)
		why = make_memory(endpoint);
	if (why != NULL)
		return why;
	if (rdma_connect(endpoint->id, &wanted) != 0) {
		const struct rdma_cm_event *event = endpoint->id->event;

		if (event == NULL || event->event != RDMA_CM_EVENT_REJECTED)
			return event == NULL ? strerror(errno) : rdma_event_str(event->event);
		*refused = event->status;
		return "the DPU rejected the connection";
	}
	endpoint->connected = true;
	return NULL;
}

const char *endpoint_open(struct endpoint *endpoint, const char *address, const char *port,
			  int *refused)
{
	const char *why = endpoint_connect(endpoint, address, port, refused);

	if (why != NULL)
		return why;
	return read_region(&endpoint->region, &endpoint->id->event->param.conn);
}

void endpoint_close(struct endpoint *endpoint)
{
	struct rdma_cm_id *id = endpoint->id;
	struct ibv_pd *pd;

	if (id == NULL)
		return;
	pd = id->pd;
	/* Waits for the DPU's goodbye, so it must not be called where there was no connection. */
	if (endpoint->connected)
		rdma_disconnect(id);
	if (id->qp != NULL)
		rdma_destroy_qp(id);
	if (endpoint->mr != NULL)
		ibv_dereg_mr(endpoint->mr);
	if (endpoint->sends != NULL)
		ibv_destroy_cq(endpoint->sends);
	if (endpoint->receives != NULL)
		ibv_destroy_cq(endpoint->receives);
	if (pd != NULL)
		ibv_dealloc_pd(pd);
	rdma_destroy_id(id);
	free(endpoint->source);
	memset(endpoint, 0, sizeof(*endpoint));
}

/* Our own bytes of a request: those that leave, or where those that come are put. */
static void set_bytes(struct endpoint *endpoint, const struct request *request)
{
	bool comes = request->operation == READ || request->operation == FETCH_ADD ||
		     request->operation == COMPARE_SWAP;
	uint8_t *part = comes ? endpoint->sink : endpoint->source;

	if (request->length == 0)
		ibv_wr_set_sge_list(endpoint->queue, 0, NULL);
	else
		ibv_wr_set_sge(endpoint->queue, endpoint->mr->lkey, (uintptr_t)part + request->at,
			       request->length);
}

int endpoint_post(struct endpoint *endpoint, const struct request *request)
{
	struct ibv_qp_ex *queue = endpoint->queue;
	uint32_t key = request->key != 0 ? request->key : endpoint->region.key;
	uint64_t address = endpoint->region.address + request->offset;

	ibv_wr_start(queue);
	queue->wr_id = request->operation;
	queue->wr_flags = IBV_SEND_SIGNALED | (request->solicited ? IBV_SEND_SOLICITED : 0);
	switch (request->operation) {
	case WRITE:
		ibv_wr_rdma_write(queue, key, address);
		break;
	case WRITE_IMM:
		ibv_wr_rdma_write_imm(queue, key, address, htobe32(request->immediate));
		break;
	case SEND:
		ibv_wr_send(queue);
		break;
	case SEND_IMM:
		ibv_wr_send_imm(queue, htobe32(request->immediate));
		break;
	case SEND_INVALIDATE:
		ibv_wr_send_inv(queue, key);
		break;
	case READ:
		ibv_wr_rdma_read(queue, key, address);
		break;
	case FETCH_ADD:
		ibv_wr_atomic_fetch_add(queue, key, address, request->add_or_compare);
		break;
	case COMPARE_SWAP:
		ibv_wr_atomic_cmp_swp(queue, key, address, request->add_or_compare, request->swap);
		break;
	case ATOMIC_WRITE:
		ibv_wr_atomic_write(queue, key, address, endpoint->source + request->at);
		break;
	case FLUSH:
		ibv_wr_flush(queue, key, address, request->length, request->flush_type,
			     request->flush_level);
		break;
	}
	if (request->operation != ATOMIC_WRITE && request->operation != FLUSH)
		set_bytes(endpoint, request);
	return ibv_wr_complete(queue);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static bool wait_on(struct ibv_cq *completions, struct ibv_wc *completion, int wait_ms)
{
	uint64_t end_ms = now_ms() + (uint64_t)wait_ms;

	for (;;) {
		int count = ibv_poll_cq(completions, 1, completion);

		if (count != 0)
			return count == 1;
		if (now_ms() > end_ms)
			return false;
		/* One processor serves us and the network: who polls without rest starves it. */
		usleep(POLL_US);
	}
}

bool endpoint_wait_for(struct endpoint *endpoint, struct ibv_wc *completion, int wait_ms)
{
	return wait_on(endpoint->sends, completion, wait_ms);
}

bool endpoint_wait(struct endpoint *endpoint, struct ibv_wc *completion)
{
	return endpoint_wait_for(endpoint, completion, WAIT_MS);
}

bool endpoint_receive(struct endpoint *endpoint, struct ibv_wc *completion)
{
	if (!wait_on(endpoint->receives, completion, WAIT_MS))
		return false;
	return completion->status != IBV_WC_SUCCESS ||
	       post_receive(endpoint, completion->wr_id) == 0;
}

int endpoint_do(struct endpoint *endpoint, const struct request *request)
{
	struct ibv_wc completion;

	if (endpoint_post(endpoint, request) != 0)
		return -1;
	return endpoint_wait(endpoint, &completion) ? (int)completion.status : -2;
}

const char *status_name(int status)
{
	if (status == -1)
		return "it could not be posted";
	if (status == -2)
		return "no completion came";
	return ibv_wc_status_str((enum ibv_wc_status)status);
}
