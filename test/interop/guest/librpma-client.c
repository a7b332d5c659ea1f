/*
 * A client on librpma, for a machine whose Debian mirror has no source packages: it makes the calls
 * of librpma's own examples 05 (flush to persistent) and 07 (atomic write), in their order, and
 * checks every result.
 *
 *   librpma-client flush ADDRESS PORT
 *   librpma-client log ADDRESS PORT WORD...
 *
 * Exit code: 0 if everything went well, 1 if not, 2 for a wrong command line.
 */

#include <librpma.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_BYTES 4096
#define TEXT_BYTES 1024
#define MARK ((void *)0x70657264)

/* The private data of librpma's examples. */
struct offered {
	uint16_t data_offset;
	uint8_t region_bytes;
	uint8_t config_bytes;
	uint8_t descriptors[];
};

struct client {
	struct rpma_peer *peer;
	struct rpma_conn *connection;
	struct rpma_mr_local *local;
	struct rpma_mr_remote *remote;
	struct rpma_cq *completions;
	char *memory;
	size_t offset;
	size_t size;
	bool direct;
};

/* Ends the program where a call of librpma fails. */
static void must(int result, const char *what)
{
	if (result == 0)
		return;
	fprintf(stderr, "%s: %s\n", what, rpma_err_2str(result));
	exit(1);
}

static void wait_for(struct client *client, const void *mark, const char *what)
{
	struct ibv_wc completion;

	must(rpma_cq_wait(client->completions), "rpma_cq_wait");
	must(rpma_cq_get_wc(client->completions, 1, &completion, NULL), "rpma_cq_get_wc");
	if (completion.status == IBV_WC_SUCCESS && completion.wr_id == (uintptr_t)mark)
		return;
	fprintf(stderr, "%s: %s\n", what, ibv_wc_status_str(completion.status));
	exit(1);
}

static void connect_to(struct client *client, const char *address, const char *port)
{
	struct ibv_context *device = NULL;
	struct rpma_conn_req *request = NULL;
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;

	must(rpma_utils_get_ibv_context(address, RPMA_UTIL_IBV_CONTEXT_REMOTE, &device),
	     "rpma_utils_get_ibv_context");
	must(rpma_peer_new(device, &client->peer), "rpma_peer_new");
	must(rpma_conn_req_new(client->peer, address, port, NULL, &request), "rpma_conn_req_new");
	must(rpma_conn_req_connect(&request, NULL, &client->connection), "rpma_conn_req_connect");
	must(rpma_conn_next_event(client->connection, &event), "rpma_conn_next_event");
	if (event != RPMA_CONN_ESTABLISHED) {
		fprintf(stderr, "not connected: %s\n", rpma_utils_conn_event_2str(event));
		exit(1);
	}
	must(rpma_conn_get_cq(client->connection, &client->completions), "rpma_conn_get_cq");
}

static void take_offer(struct client *client)
{
	struct rpma_conn_private_data data = { 0 };
	struct rpma_peer_cfg *config = NULL;
	const struct offered *offered;

	must(rpma_conn_get_private_data(client->connection, &data), "rpma_conn_get_private_data");
	offered = data.ptr;
	if (offered == NULL || data.len < sizeof(*offered) ||
	    data.len < sizeof(*offered) + offered->region_bytes + offered->config_bytes) {
		fprintf(stderr, "no descriptor in the private data\n");
		exit(1);
	}
	client->offset = offered->data_offset;
	must(rpma_peer_cfg_from_descriptor(offered->descriptors + offered->region_bytes,
					   offered->config_bytes, &config),
	     "rpma_peer_cfg_from_descriptor");
	must(rpma_peer_cfg_get_direct_write_to_pmem(config, &client->direct),
	     "rpma_peer_cfg_get_direct_write_to_pmem");
	must(rpma_conn_apply_remote_peer_cfg(client->connection, config),
	     "rpma_conn_apply_remote_peer_cfg");
	must(rpma_peer_cfg_delete(&config), "rpma_peer_cfg_delete");
	must(rpma_mr_remote_from_descriptor(offered->descriptors, offered->region_bytes,
					    &client->remote),
	     "rpma_mr_remote_from_descriptor");
	must(rpma_mr_remote_get_size(client->remote, &client->size), "rpma_mr_remote_get_size");
	printf("%zu bytes, direct write to persistent memory: %s\n", client->size,
	       client->direct ? "yes" : "no");
}

static void open_client(struct client *client, const char *address, const char *port, int usage)
{
	connect_to(client, address, port);
	client->memory = aligned_alloc(MEMORY_BYTES, MEMORY_BYTES);
	if (client->memory == NULL)
		exit(1);
	memset(client->memory, 0, MEMORY_BYTES);
	must(rpma_mr_reg(client->peer, client->memory, MEMORY_BYTES, usage, &client->local),
	     "rpma_mr_reg");
	take_offer(client);
}

static void close_client(struct client *client)
{
	enum rpma_conn_event event = RPMA_CONN_UNDEFINED;

	must(rpma_mr_remote_delete(&client->remote), "rpma_mr_remote_delete");
	must(rpma_mr_dereg(&client->local), "rpma_mr_dereg");
	must(rpma_conn_disconnect(client->connection), "rpma_conn_disconnect");
	must(rpma_conn_next_event(client->connection, &event), "rpma_conn_next_event");
	must(rpma_conn_delete(&client->connection), "rpma_conn_delete");
	must(rpma_peer_delete(&client->peer), "rpma_peer_delete");
	free(client->memory);
}

/* Example 05: one text, written and flushed to persistence. */
static void flush(struct client *client)
{
	enum rpma_flush_type type =
		client->direct ? RPMA_FLUSH_TYPE_PERSISTENT : RPMA_FLUSH_TYPE_VISIBILITY;

	if (!client->direct) {
		fprintf(stderr, "a flush to persistence is not offered\n");
		exit(1);
	}
	strcpy(client->memory, "Hello, persistent world!");
	printf("Next value: %s\n", client->memory);
	must(rpma_write(client->connection, client->remote, client->offset, client->local, 0,
			TEXT_BYTES, RPMA_F_COMPLETION_ON_ERROR, NULL),
	     "rpma_write");
	must(rpma_flush(client->connection, client->remote, client->offset, TEXT_BYTES, type,
			RPMA_F_COMPLETION_ALWAYS, MARK),
	     "rpma_flush");
	wait_for(client, MARK, "rpma_flush");
}

/* Example 07: a log; the first word says how much of it is used, and is written atomically. */
static void append(struct client *client, int count, char *const *words)
{
	uint64_t *used = (uint64_t *)client->memory;
	uint64_t end;

	must(rpma_read(client->connection, client->local, 0, client->remote, client->offset,
		       sizeof(*used), RPMA_F_COMPLETION_ALWAYS, MARK),
	     "rpma_read");
	wait_for(client, MARK, "rpma_read");
	end = *used;
	for (int i = 0; i < count; i++) {
		size_t length = strlen(words[i]) + 1;

		if (length > MEMORY_BYTES || end + length > client->size) {
			fprintf(stderr, "the log is full\n");
			exit(1);
		}
		strcpy(client->memory, words[i]);
		must(rpma_write(client->connection, client->remote, end, client->local, 0, length,
				RPMA_F_COMPLETION_ON_ERROR, NULL),
		     "rpma_write");
		must(rpma_flush(client->connection, client->remote, end, length,
				RPMA_FLUSH_TYPE_PERSISTENT, RPMA_F_COMPLETION_ALWAYS, MARK),
		     "rpma_flush");
		wait_for(client, MARK, "rpma_flush of the entry");
		end += length;
		*used = end;
		must(rpma_atomic_write(client->connection, client->remote, client->offset,
				       client->memory, RPMA_F_COMPLETION_ON_ERROR, NULL),
		     "rpma_atomic_write");
		must(rpma_flush(client->connection, client->remote, client->offset, sizeof(*used),
				RPMA_FLUSH_TYPE_PERSISTENT, RPMA_F_COMPLETION_ALWAYS, MARK),
		     "rpma_flush");
		wait_for(client, MARK, "rpma_flush of the used length");
	}
}

int main(int count, char **arguments)
{
	struct client client = { 0 };
	bool isLog = count > 4 && strcmp(arguments[1], "log") == 0;

	if (!isLog && (count != 4 || strcmp(arguments[1], "flush") != 0))
		return 2;
	rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_INFO);
	rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_INFO);
	open_client(&client, arguments[2], arguments[3],
		    RPMA_MR_USAGE_WRITE_SRC | (isLog ? RPMA_MR_USAGE_READ_DST : 0));
	if (isLog)
		append(&client, count - 4, arguments + 4);
	else
		flush(&client);
	close_client(&client);
	return 0;
}
