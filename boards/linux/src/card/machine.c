#include "card/machine.h"

#include <endian.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "card/crc32c.h"
#include "card/icrc.h"
#include "card/noise.h"
#include "memory/guard.h"

enum {
  ATOMIC_BYTES = 8,
  OPERAND_BYTES = 16,
  CODE_BYTES = crypto_shorthash_siphashx24_BYTES,
  KEY_BYTES = crypto_shorthash_siphashx24_KEYBYTES,
  PIECE_BYTES = 2 * (int)sizeof(uint32_t),
  SPACE_SHIFT = 48,
  COMMAND_BYTES = HAL_COMMAND_WORDS * (int)sizeof(double),
};

_Static_assert(HAL_SPACE_BYTES == 1ull << SPACE_SHIFT, "an address is space and offset");
_Static_assert(HAL_NVDIMM_SPACE == 1ull << SPACE_SHIFT, "spaces are counted");
_Static_assert(HAL_HOST_SPACE == 2ull << SPACE_SHIFT, "spaces are counted");
_Static_assert(HAL_OP == 0 && HAL_FROM == 1 && HAL_TO == 2 && HAL_LENGTH == 3 && HAL_AUX == 4,
               "the words of struct command are those of the ring");
_Static_assert(HAL_DMA_SPACE == 3ull << SPACE_SHIFT, "spaces are counted");

enum space { PACKETS, PART, HOST, DMA, SPACES };

/* A range that is wholly inside its space. */
struct place {
  enum space space;
  uint64_t offset;
  uint8_t *at;
};

/* A length that a command may have: a whole number that fits 31 bits. */
static bool is_length(double number, uint32_t *length) {
  if (!(number >= 0 && number <= INT32_MAX)) return false;
  int32_t whole = (int32_t)number;
  *length = (uint32_t)whole;
  return (double)whole == number;
}

/* Where [address, address + length) lies; false if that is not wholly inside one space. */
static bool find(struct machine *machine, double address, uint32_t length, struct place *place) {
  if (!(address >= 0 && address < (double)(SPACES * HAL_SPACE_BYTES))) return false;
  int64_t whole = (int64_t)address;
  if ((double)whole != address) return false;
  place->space = (enum space)(whole >> SPACE_SHIFT);
  place->offset = (uint64_t)whole & (HAL_SPACE_BYTES - 1);
  uint8_t *base = machine->packets;
  uint64_t bytes = HAL_MEMORY_BYTES;
  if (place->space == PART) {
    base = machine->memory->live;
    bytes = machine->memory->bytes;
  } else if (place->space != PACKETS) {
    const struct window *window = place->space == HOST ? &machine->host : &machine->dma;
    base = window->live;
    bytes = window->bytes;
  }
  if (base == NULL || length > bytes || place->offset > bytes - length) return false;
  place->at = base + place->offset;
  return true;
}

/* Likewise in packet memory alone: where it lies, or NULL. */
static uint8_t *find_packets(struct machine *machine, double address, uint32_t length) {
  struct place place;
  bool found = find(machine, address, length, &place) && place.space == PACKETS;
  return found ? place.at : NULL;
}

static struct window *window_of(struct machine *machine, enum space space) {
  return space == HOST ? &machine->host : &machine->dma;
}

/* Makes ready what is about to be read; a device's bytes then stand elsewhere. */
static int load(struct machine *machine, const struct place *place, uint32_t length,
                const uint8_t **bytes) {
  *bytes = place->at;
  if (place->space == PACKETS) return HAL_DONE;
  if (place->space == PART) {
    struct memory *memory = machine->memory;
    if (memory->bad_lines == 0 || memory_readable(memory, place->offset, length)) return HAL_DONE;
    machine->counters.media_errors++;
    return HAL_MEDIA_ERROR;
  }
  *bytes = window_load(window_of(machine, place->space), place->offset, length);
  if (*bytes != NULL) return HAL_DONE;
  machine->counters.host_failures++;
  return HAL_DMA_FAILED;
}

/* A line at once, the usual case, loads before it stores: the ranges may overlap. */
static void move(uint8_t *to, const uint8_t *from, uint32_t length) {
  if (length == HAL_LINE_BYTES) {
    uint64_t words[HAL_LINE_BYTES / sizeof(uint64_t)];
    memcpy(words, from, sizeof words);
    memcpy(to, words, sizeof words);
  } else {
    memmove(to, from, length);
  }
}

static void clean(struct machine *machine, uint64_t offset, uint32_t length) {
  if (length == 0) return;
  memory_clean(machine->memory, offset, length);
  trace_cleaned(&machine->trace, offset, length);
  uint64_t last = (offset + length - 1) / HAL_LINE_BYTES;
  machine->counters.lines_cleaned += last - offset / HAL_LINE_BYTES + 1;
}

/* What is there now may be what nobody can read, and must not fail the store. */
static void trace_before(struct machine *machine, const struct place *to, uint32_t length) {
  struct memory *memory = machine->memory;
  bool readable = !machine->blind &&
                  (memory->bad_lines == 0 || memory_readable(memory, to->offset, length));
  machine->peeking = true;
  atomic_signal_fence(memory_order_seq_cst);
  trace_storing(&machine->trace, to->offset, readable ? to->at : NULL, length);
  atomic_signal_fence(memory_order_seq_cst);
  machine->peeking = false;
}

static void store(struct machine *machine, const struct place *to, const uint8_t *from,
                  uint32_t length) {
  if (to->space == HOST || to->space == DMA) {
    window_store(window_of(machine, to->space), to->offset, from, length);
    return;
  }
  bool traced = to->space == PART && machine->trace.head != NULL;
  if (traced) trace_before(machine, to, length);
  move(to->at, from, length);
  if (to->space == PART) machine->counters.bytes_stored += length;
  if (traced) trace_stored(&machine->trace, to->at);
}

static int copy(struct machine *machine, const struct command *command, bool cleaning) {
  struct place from, to;
  uint32_t length;
  const uint8_t *bytes;
  if (!is_length(command->length, &length)) return HAL_BAD_COMMAND;
  if (!find(machine, command->from, length, &from)) return HAL_BAD_COMMAND;
  if (!find(machine, command->to, length, &to)) return HAL_BAD_COMMAND;
  int fault = load(machine, &from, length, &bytes);
  if (fault != HAL_DONE) return fault;
  cleaning = cleaning && to.space == PART;
  if (cleaning && machine->memory->bad_lines != 0) {
    memory_heal(machine->memory, to.offset, length);
  }
  store(machine, &to, bytes, length);
  if (cleaning) clean(machine, to.offset, length);
  return HAL_DONE;
}

static int check(struct machine *machine, const struct command *command) {
  struct place from, to, key;
  uint32_t length;
  const uint8_t *bytes, *key_bytes;
  uint8_t code[CODE_BYTES];
  if (!is_length(command->length, &length)) return HAL_BAD_COMMAND;
  if (!find(machine, command->from, length, &from)) return HAL_BAD_COMMAND;
  if (!find(machine, command->to, CODE_BYTES, &to)) return HAL_BAD_COMMAND;
  if (!find(machine, command->aux, KEY_BYTES, &key)) return HAL_BAD_COMMAND;
  int fault = load(machine, &from, length, &bytes);
  if (fault == HAL_DONE) fault = load(machine, &key, KEY_BYTES, &key_bytes);
  if (fault != HAL_DONE) return fault;
  crypto_shorthash_siphashx24(code, bytes, length, key_bytes);
  store(machine, &to, code, CODE_BYTES);
  return HAL_DONE;
}

static int compare(struct machine *machine, const struct command *command) {
  struct place left, right;
  uint32_t length;
  const uint8_t *a, *b;
  if (!is_length(command->length, &length)) return HAL_BAD_COMMAND;
  if (!find(machine, command->from, length, &left)) return HAL_BAD_COMMAND;
  if (!find(machine, command->to, length, &right)) return HAL_BAD_COMMAND;
  int fault = load(machine, &left, length, &a);
  if (fault == HAL_DONE) fault = load(machine, &right, length, &b);
  if (fault != HAL_DONE) return fault;
  return memcmp(a, b, length) == 0 ? HAL_EQUAL : HAL_DIFFERENT;
}

/* A guard is never 0: that says that there is none. */
static int guard(struct machine *machine, const struct command *command) {
  struct place from;
  uint32_t length;
  const uint8_t *bytes;
  if (!is_length(command->length, &length)) return HAL_BAD_COMMAND;
  if (!(command->aux >= 1 && command->aux <= UINT32_MAX)) return HAL_BAD_COMMAND;
  uint32_t expected = (uint32_t)command->aux;
  if ((double)expected != command->aux) return HAL_BAD_COMMAND;
  if (!find(machine, command->from, length, &from)) return HAL_BAD_COMMAND;
  int fault = load(machine, &from, length, &bytes);
  if (fault != HAL_DONE) return fault;
  uint32_t crc = crc32c(bytes, length);
  return (crc == 0 ? UINT32_MAX : crc) == expected ? HAL_DONE : HAL_GUARD_FAILED;
}

/*
 * The key is read before anything is written: the stream may go over it, and no copy is left. The
 * nonce is 0, as each key makes one stream.
 */
static int keystream(struct machine *machine, const struct command *command) {
  static const uint8_t NONCE[crypto_stream_chacha20_ietf_NONCEBYTES];
  uint32_t length;
  uint8_t key[crypto_stream_chacha20_ietf_KEYBYTES];
  if (!is_length(command->length, &length) || length % 4 != 0) return HAL_BAD_COMMAND;
  const uint8_t *from = find_packets(machine, command->from, sizeof key);
  uint8_t *to = find_packets(machine, command->to, length);
  if (from == NULL || to == NULL) return HAL_BAD_COMMAND;
  memcpy(key, from, sizeof key);
  crypto_stream_chacha20_ietf(to, length, NONCE, key);
  sodium_memzero(key, sizeof key);
  return HAL_DONE;
}

static int agree(struct machine *machine, const struct command *command) {
  if (command->length != NOISE_BYTES) return HAL_BAD_COMMAND;
  const uint8_t *scalar = find_packets(machine, command->from, NOISE_BYTES);
  const uint8_t *point = find_packets(machine, command->aux, NOISE_BYTES);
  uint8_t *to = find_packets(machine, command->to, NOISE_BYTES);
  if (scalar == NULL || point == NULL || to == NULL) return HAL_BAD_COMMAND;
  return noise_agree(to, scalar, point);
}

static int hash(struct machine *machine, const struct command *command) {
  uint32_t length;
  if (!is_length(command->length, &length)) return HAL_BAD_COMMAND;
  const uint8_t *from = find_packets(machine, command->from, length);
  uint8_t *to = find_packets(machine, command->to, NOISE_BYTES);
  if (from == NULL || to == NULL) return HAL_BAD_COMMAND;
  return noise_hash(to, from, length);
}

/* Takes what lies at `aux`; false, and nothing is taken, where it is not all in packet memory. */
static bool take_sealing(struct machine *machine, double address, struct noise_sealing *sealing) {
  uint32_t data_bytes, bytes = offsetof(struct noise_sealing, data);
  const uint8_t *at = find_packets(machine, address, bytes);
  if (at == NULL) return false;
  memcpy(&data_bytes, at + offsetof(struct noise_sealing, data_bytes), sizeof data_bytes);
  if (data_bytes > HAL_SEAL_DATA_BYTES) return false;
  bytes += data_bytes;
  if (find_packets(machine, address, bytes) == NULL) return false;
  memcpy(sealing, at, bytes);
  return true;
}

/* Whether ranges share a byte without beginning at the same one. */
static bool cross(const uint8_t *one, uint32_t one_bytes, const uint8_t *other,
                  uint32_t other_bytes) {
  const uint8_t *end = one + one_bytes < other + other_bytes ? one + one_bytes
                                                             : other + other_bytes;
  return one != other && (one > other ? one : other) < end;
}

/* SEAL and UNSEAL. What lies at `aux` is copied, as the command may write over it. */
static int seal(struct machine *machine, const struct command *command) {
  struct noise_sealing sealing;
  uint32_t length, made;
  bool seals = command->op == HAL_SEAL;
  if (!is_length(command->length, &length)) return HAL_BAD_COMMAND;
  if (!seals && length < HAL_SEAL_TAG_BYTES) return HAL_BAD_COMMAND;
  made = seals ? length + HAL_SEAL_TAG_BYTES : length - HAL_SEAL_TAG_BYTES;
  const uint8_t *from = find_packets(machine, command->from, length);
  uint8_t *to = find_packets(machine, command->to, made);
  if (from == NULL || to == NULL || cross(from, length, to, made)) return HAL_BAD_COMMAND;
  if (!take_sealing(machine, command->aux, &sealing)) return HAL_BAD_COMMAND;
  int result = (seals ? noise_seal : noise_unseal)(to, from, length, &sealing);
  sodium_memzero(&sealing, sizeof sealing);
  return result;
}

static uint64_t big_endian(const uint8_t *at) {
  uint64_t number;
  memcpy(&number, at, sizeof number);
  return be64toh(number);
}

/*
 * Changes the word in one step and returns what it was. A file that the host shares is changed by
 * the CPU's atomic operation, which holds towards the host's CPUs, too; a device is not promised
 * to take those.
 */
static uint64_t change(uint64_t *word, uint64_t operand, const uint64_t *expected, bool shared) {
  if (shared && expected == NULL) return __atomic_fetch_add(word, operand, __ATOMIC_SEQ_CST);
  if (shared) {
    uint64_t original = *expected;
    __atomic_compare_exchange_n(word, &original, operand, false, __ATOMIC_SEQ_CST,
                                __ATOMIC_SEQ_CST);
    return original;
  }
  uint64_t original = __atomic_load_n(word, __ATOMIC_RELAXED);
  if (expected == NULL) operand += original;
  if (expected == NULL || original == *expected) {
    __atomic_store_n(word, operand, __ATOMIC_RELAXED);
  }
  return original;
}

/* A word that compared unequal is not stored. The original is told of a command done. */
static int atomic(struct machine *machine, const struct command *command) {
  struct place to, operands, told;
  const uint8_t *ready;
  if (command->length != ATOMIC_BYTES) return HAL_BAD_COMMAND;
  if (!find(machine, command->to, ATOMIC_BYTES, &to)) return HAL_BAD_COMMAND;
  if (to.offset % ATOMIC_BYTES != 0 || to.space == DMA) return HAL_BAD_COMMAND;
  if (!find(machine, command->from, OPERAND_BYTES, &operands)) return HAL_BAD_COMMAND;
  if (!find(machine, command->aux, ATOMIC_BYTES, &told)) return HAL_BAD_COMMAND;
  if (operands.space != PACKETS || told.space != PACKETS) return HAL_BAD_COMMAND;
  int fault = load(machine, &to, ATOMIC_BYTES, &ready);
  if (fault != HAL_DONE) return fault;
  uint64_t operand = big_endian(operands.at);
  uint64_t wanted = big_endian(operands.at + ATOMIC_BYTES);
  const uint64_t *expected = command->op == HAL_COMPARE_SWAP ? &wanted : NULL;
  bool shared = to.space == HOST && !machine->host.device;
  uint64_t original = change((uint64_t *)(void *)to.at, operand, expected, shared);
  if (to.space == HOST) machine->host.written = true;
  if (to.space == PART && (expected == NULL || original == wanted)) {
    machine->counters.bytes_stored += ATOMIC_BYTES;
    trace_storing(&machine->trace, to.offset, (const uint8_t *)&original, ATOMIC_BYTES);
    trace_stored(&machine->trace, to.at);
    clean(machine, to.offset, ATOMIC_BYTES);
  }
  uint64_t big = htobe64(original);
  memcpy(told.at, &big, sizeof big);
  return HAL_DONE;
}

static int secure(struct machine *machine, const struct command *command) {
  uint32_t length;
  if (!is_length(command->length, &length)) return HAL_BAD_COMMAND;
  const uint8_t *from = find_packets(machine, command->from, length);
  if (from == NULL) return HAL_BAD_COMMAND;
  return tags_secure(&machine->tags, command->aux, from, length);
}

static int keep_peer(struct machine *machine, const struct command *command) {
  uint32_t length;
  if (!is_length(command->length, &length) || length > HAL_PEER_LINE_BYTES) return HAL_BAD_COMMAND;
  const uint8_t *from = find_packets(machine, command->from, length);
  if (from == NULL || (command->aux != 0 && command->aux != 1)) return HAL_BAD_COMMAND;
  if (machine->peers == NULL) return HAL_NOT_KEPT;
  machine->kept++;
  return peers_keeper_keep(machine->peers, (const char *)from, length, command->aux != 0);
}

/* Frames leave from packet memory only. What is filled in is not seen there afterwards. */
static int transmit(struct machine *machine, const struct command *command) {
  uint32_t length, aux;
  if (!is_length(command->length, &length) || length > HAL_FRAME_BYTES_MAX) return HAL_BAD_COMMAND;
  if (!is_length(command->aux, &aux) || aux >= (HAL_QUEUE_PAIRS + 1) * HAL_TAGGED) {
    return HAL_BAD_COMMAND;
  }
  const uint8_t *frame = find_packets(machine, command->from, length);
  if (frame == NULL) return HAL_BAD_COMMAND;
  uint32_t icrc = aux % HAL_TAGGED, place = aux / HAL_TAGGED;
  if (aux != HAL_ICRC_NONE) frame = memcpy(machine->frame, frame, length);
  if (place > 0 && !tags_fill(&machine->tags, place - 1, machine->frame, length)) {
    return HAL_BAD_COMMAND;
  }
  uint32_t kind = icrc == HAL_ICRC_LINUX_FLUSH ? HAL_ICRC_LINUX_FLUSH : HAL_ICRC_STANDARD;
  if (icrc != HAL_ICRC_NONE && !icrc_fill(machine->frame, length, kind)) return HAL_BAD_COMMAND;
  trace_sent(&machine->trace, frame, length);
  links_transmit(machine->links, frame, length);
  return HAL_DONE;
}

static int fence(struct machine *machine) {
  int result = memory_fence(machine->memory);
  if (result == HAL_DONE) machine->counters.fences++;
  trace_fenced(&machine->trace, result);
  return result;
}

static int flush(struct machine *machine, const struct command *command) {
  struct place to;
  uint32_t length;
  if (!is_length(command->length, &length)) return HAL_BAD_COMMAND;
  if (!find(machine, command->to, length, &to) || to.space != PART) return HAL_BAD_COMMAND;
  clean(machine, to.offset, length);
  return HAL_DONE;
}

/* The table is taken as it stands; nothing looks at it later. */
static int arrange(struct machine *machine, const struct command *command) {
  uint32_t table[2 * HAL_HOST_PIECES], length;
  struct place from;
  if (!is_length(command->length, &length) || length % PIECE_BYTES != 0) return HAL_BAD_COMMAND;
  if (length > sizeof table) return HAL_BAD_COMMAND;
  if (!find(machine, command->from, length, &from) || from.space != PACKETS) {
    return HAL_BAD_COMMAND;
  }
  if (from.offset % PIECE_BYTES != 0) return HAL_BAD_COMMAND;
  memcpy(table, from.at, length);
  bool shown = window_arrange(&machine->host, table, length / PIECE_BYTES);
  return shown ? HAL_DONE : HAL_BAD_COMMAND;
}

static int execute(struct machine *machine, const struct command *command) {
  double op = command->op;
  if (!(op >= HAL_COPY && op <= HAL_KEEP_PEER) || (double)(int)op != op) return HAL_BAD_COMMAND;
  switch ((int)op) {
    case HAL_COPY: return copy(machine, command, false);
    case HAL_COPY_CLEAN: return copy(machine, command, true);
    case HAL_FLUSH: return flush(machine, command);
    case HAL_FENCE: return fence(machine);
    case HAL_CHECK: return check(machine, command);
    case HAL_COMPARE: return compare(machine, command);
    case HAL_TRANSMIT: return transmit(machine, command);
    case HAL_FETCH_ADD:
    case HAL_COMPARE_SWAP: return atomic(machine, command);
    case HAL_GUARD: return guard(machine, command);
    case HAL_ARRANGE: return arrange(machine, command);
    case HAL_KEYSTREAM: return keystream(machine, command);
    case HAL_AGREE: return agree(machine, command);
    case HAL_HASH: return hash(machine, command);
    case HAL_SEAL:
    case HAL_UNSEAL: return seal(machine, command);
    case HAL_SECURE: return secure(machine, command);
    case HAL_KEEP_PEER: return keep_peer(machine, command);
    default: return HAL_DONE; /* SKIP */
  }
}

static uint8_t *command_at(struct machine *machine, uint32_t index) {
  return machine->packets + HAL_COMMANDS_AT + (size_t)index * COMMAND_BYTES;
}

static void put_result(struct machine *machine, int result) {
  double number = result;
  uint8_t *word = command_at(machine, machine->at) + HAL_RESULT * sizeof(double);
  memcpy(word, &number, sizeof number);
}

/* Keeps the result; false if it ends the list. */
static bool go_on(struct machine *machine, int result) {
  put_result(machine, result);
  machine->blind = false;
  if (result > HAL_DIFFERENT) {
    if (result == HAL_BAD_COMMAND) machine->counters.bad_commands++;
    return false;
  }
  machine->at++;
  return true;
}

static void run_list(struct machine *machine) {
  while (machine->at < machine->until) {
    memcpy(&machine->command, command_at(machine, machine->at), sizeof machine->command);
    machine->counters.commands++;
    /* Whoever comes back from a fault finds in memory where the list stands. */
    atomic_signal_fence(memory_order_seq_cst);
    if (!go_on(machine, execute(machine, &machine->command))) return;
  }
}

static bool is_inside(const uint8_t *address, const uint8_t *from, uint64_t bytes) {
  return from != NULL && address >= from && (uint64_t)(address - from) < bytes;
}

/* Whether the address is one that the command stores to, and none that it loads from. */
static bool is_stored(struct machine *machine, const uint8_t *address) {
  const struct command *command = &machine->command;
  struct place from, to;
  uint32_t length, stored;
  if (!is_length(command->length, &length)) return false;
  if (command->op != HAL_COPY && command->op != HAL_COPY_CLEAN && command->op != HAL_CHECK) {
    return false;
  }
  stored = command->op == HAL_CHECK ? CODE_BYTES : length;
  if (!find(machine, command->from, length, &from)) return false;
  if (!find(machine, command->to, stored, &to)) return false;
  return is_inside(address, to.at, stored) && !is_inside(address, from.at, length);
}

/* The result of a command in which memory did not answer at `address`. */
static int result_of_fault(struct machine *machine, const uint8_t *address) {
  struct window *windows[] = {&machine->host, &machine->dma};
  for (int i = 0; i < 2; i++) {
    if (!is_inside(address, windows[i]->live, windows[i]->bytes)) continue;
    machine->counters.host_failures++;
    if (!is_stored(machine, address)) return HAL_DMA_FAILED;
    /* A posted write: nobody is told but whoever reads persistent memory behind it. */
    windows[i]->lost = windows[i] == &machine->host;
    return HAL_DONE;
  }
  machine->counters.media_errors++;
  if (machine->command.op != HAL_FENCE) return HAL_MEDIA_ERROR;
  memory_fence_failed(machine->memory);
  return HAL_FLUSH_FAILED;
}

/* Memory did not answer. False if that ends the list. */
static bool take_fault(struct machine *machine) {
  if (!machine->peeking) return go_on(machine, result_of_fault(machine, guard_fault));
  /* The command has done nothing yet, and is tried again. */
  machine->peeking = false;
  if (machine->blind) trace_close(&machine->trace);
  machine->blind = true;
  return true;
}

uint32_t machine_run(struct machine *machine, double count) {
  machine->at = 0;
  if (!(count >= 0 && count <= HAL_COMMANDS_MAX) || (double)(uint32_t)count != count) {
    machine->counters.bad_commands++;
    put_result(machine, HAL_BAD_COMMAND);
    return 0;
  }
  machine->until = (uint32_t)count;
  machine->counters.runs++;
  machine_tell_health(machine);
  /* Each time round, a command has met memory that did not answer. */
  while (sigsetjmp(guard_mark, 0) != 0) {
    if (!take_fault(machine)) return machine->at;
  }
  guard_armed = 1;
  run_list(machine);
  guard_armed = 0;
  return machine->at;
}

void machine_tell_health(struct machine *machine) {
  const struct memory *memory = machine->memory;
  int32_t health = (memory->armed ? HAL_ARMED : 0) | (memory->save_failed ? HAL_SAVE_FAILED : 0) |
                   (memory->forgets_because != NULL ? HAL_VOLATILE : 0) |
                   (machine->on_trial ? HAL_ON_TRIAL : 0);
  memcpy(machine->packets + HAL_HEALTH_AT, &health, sizeof health);
}

void machine_tell_end(struct machine *machine, double now_us) {
  memcpy(machine->packets + HAL_CALL_ENDED_AT, &now_us, sizeof now_us);
}
