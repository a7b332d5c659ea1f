/* perdured: the firmware of Perdure on Linux. */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "access/identity.h"
#include "card/engine.h"
#include "card/icrc.h"
#include "confine/privilege.h"
#include "confine/syscalls.h"
#include "exit-codes.h"
#include "hal.h"
#include "memory/reserve.h"
#include "service/config.h"
#include "service/console.h"
#include "service/json.h"
#include "service/log.h"
#include "service/notify.h"
#include "service/service.h"
#include "version.h"

/* Stack for everything but the firmware, bytes. */
#define STACK_BESIDE_BYTES (512u << 10)

struct arguments {
  const char *config;
  const char *firmware, *signature; /* both, or neither */
  const char *trust;
  bool check, json;
};

static const char USAGE[] =
    "perdured --config FILE [--firmware FILE --signature FILE] [--trust KEY] [--check] [--json]\n"
    "perdured --version\n"
    "  --config FILE     lines of key = value; # begins a comment\n"
    "  --firmware FILE   in place of the key firmware, with\n"
    "  --signature FILE  in place of the key signature; a file may be /proc/self/fd/N\n"
    "  --trust KEY       in place of the key trust\n"
    "  --check           verify configuration, bundle, key, peers and memory, say what they are\n"
    "  --json            say where it serves as a JSON object\n"
    "  --version         say which release this is\n"
    "\n"
    "keys, what they take, and their defaults:\n";

static const char CODES[] =
    "\n"
    "Exit codes: 0 told to stop, 64 usage, 65 the bundle is not trusted, 66 a file is missing,\n"
    "69 memory or link cannot be had, 70 the firmware stopped, 71 the system refused,\n"
    "77 not allowed, 78 the configuration is wrong.\n";

/* Everything that is open; closed in the opposite order. */
struct open_parts {
  struct bundle bundle;
  struct identity identity;
  struct reserve packets;
  struct memory memory;
  struct links links;
  struct machine machine;
  struct console console;
  struct engine *engine;
  struct port port;
  struct peers_keeper peers;
  bool has_memory, has_window, has_port, has_console, has_peers;
};

static int fail(int code, const char *what, const struct fault *fault) {
  log_event(LOG_ERROR, what, LOG_TEXT("reason", fault->text));
  return code;
}

/* -1: go on; else the exit code. */
static int take_arguments(int count, char **words, struct arguments *arguments) {
  static const struct option OPTIONS[] = {
      {"config", required_argument, NULL, 'c'},    {"firmware", required_argument, NULL, 'f'},
      {"signature", required_argument, NULL, 's'}, {"trust", required_argument, NULL, 't'},
      {"check", no_argument, NULL, 'k'},
      {"json", no_argument, NULL, 'j'},            {"help", no_argument, NULL, 'h'},
      {"version", no_argument, NULL, 'v'},         {NULL, 0, NULL, 0},
  };
  int option;
  while ((option = getopt_long(count, words, "", OPTIONS, NULL)) != -1) {
    if (option == 'c') arguments->config = optarg;
    if (option == 'f') arguments->firmware = optarg;
    if (option == 's') arguments->signature = optarg;
    if (option == 't') arguments->trust = optarg;
    if (option == 'k') arguments->check = true;
    if (option == 'j') arguments->json = true;
    if (option == 'v') {
      puts("perdured " PERDURE_VERSION);
      return EXIT_OK;
    }
    if (option == 'h' || option == '?') {
      FILE *out = option == 'h' ? stdout : stderr;
      fputs(USAGE, out);
      config_help(out);
      fputs(CODES, out);
      return option == 'h' ? EXIT_OK : EXIT_USAGE;
    }
  }
  if (arguments->config == NULL || optind != count) {
    fputs("perdured: --config FILE is all it needs; --help says more\n", stderr);
    return EXIT_USAGE;
  }
  if ((arguments->firmware == NULL) == (arguments->signature == NULL)) return -1;
  fputs("perdured: --firmware FILE and --signature FILE go together: both, or none\n", stderr);
  return EXIT_USAGE;
}

/* The bundle that the command line names, or else the configuration. */
static int take_bundle(const struct config *config, const struct arguments *arguments,
                       struct bundle *bundle) {
  struct fault fault;
  bool is_named = arguments->firmware != NULL;
  const char *firmware = is_named ? arguments->firmware : config->firmware;
  const char *signature = is_named ? arguments->signature : config->signature;
  const char *trust = arguments->trust != NULL ? arguments->trust : config->trust;
  switch (verify_bundle(bundle, firmware, signature, trust, &fault)) {
    case VERIFIED: return EXIT_OK;
    case VERIFY_NO_FILE: return fail(EXIT_NO_FILE, "no bundle", &fault);
    case VERIFY_UNTRUSTED: break;
  }
  return fail(EXIT_UNTRUSTED, "bundle refused", &fault);
}

/* Who the card is, and who may come. */
static int take_identity(const struct config *config, struct identity *identity) {
  struct fault fault;
  switch (identity_read(identity, config, &fault)) {
    case IDENTITY_TAKEN: break;
    case IDENTITY_NO_FILE: return fail(EXIT_NO_FILE, "no identity", &fault);
    case IDENTITY_REFUSED: return fail(EXIT_CONFIG, "identity refused", &fault);
  }
  if (identity_is_open(identity)) {
    log_event(LOG_WARNING, "the card is open: who reaches it may read, write and administer it",
              LOG_TEXT("because", "neither key nor peers is configured"));
  } else {
    log_event(LOG_INFO, "the card takes calls in sessions of its peers only",
              LOG_NUMBER("peers", identity->peers_count));
  }
  return EXIT_OK;
}

static bool open_memory(const struct config *config, struct memory *memory, bool create,
                        struct fault *fault) {
  const struct memory_options options = {
      .path = config->memory,
      .at = config->memory_at,
      .bytes = config->memory_bytes,
      .create = create,
      .development = config->development,
      .shadow = config->shadow,
      .clean_to_coherency = config->clean_to_coherency,
  };
  return memory_open(memory, &options, fault);
}

static void tell_memory(const struct memory *memory) {
  log_event(LOG_INFO, "memory", LOG_TEXT("class", memory_class_name(memory->class)),
            LOG_NUMBER("bytes", memory->bytes), LOG_TEXT("instruction", memory->persist->name));
  if (memory->forgets_because != NULL) health_tell_claim(memory);
}

/* What `--check` prints: one JSON object. */
static int check(const struct config *config, struct open_parts *parts) {
  struct fault fault;
  char text[CONSOLE_ANSWER_BYTES];
  struct json json;
  if (!open_memory(config, &parts->memory, false, &fault)) {
    return fail(EXIT_UNAVAILABLE, "memory cannot be had", &fault);
  }
  parts->has_memory = true;
  json_begin(&json, text, sizeof text);
  json_text(&json, "bundle", parts->bundle.sha256);
  identity_tell(&parts->identity, &json);
  json_open(&json, "memory");
  service_tell_memory(&parts->memory, &json);
  json_close(&json);
  json_text(&json, "icrc", icrc_engine());
  fputs(json_end(&json), stdout);
  return EXIT_OK;
}

/* The card has one address on all of its links: the one that was said, or the first one's own. */
static const uint8_t *own_mac(const struct config *config, const struct links *links) {
  const uint8_t *mac = config->mac_said ? NULL : links_mac(links);
  return mac != NULL ? mac : config->mac;
}

static bool open_trace(const struct config *config, const struct memory *memory,
                       struct trace *trace, struct fault *fault) {
  const struct trace_options options = {
      .path = config->trace,
      .bytes = config->trace_bytes,
      .board = config->board,
      .part = config->memory,
      .part_bytes = memory->bytes,
      .part_at = config->memory_at,
      .dirty_shutdowns = memory->dirty_shutdowns,
  };
  if (!trace_open(trace, &options, fault)) return false;
  log_event(LOG_WARNING, "what the card does is written down, with what records hold",
            LOG_TEXT("trace", config->trace), LOG_NUMBER("bytes", config->trace_bytes));
  return true;
}

static bool open_links(const struct config *config, struct links *links, struct fault *fault) {
  for (int i = 0; i < config->links_count; i++) {
    if (!links_add(links, config->links[i], fault)) return false;
  }
  return links_listen_as(links, own_mac(config, links), fault);
}

static int open_machine(const struct config *config, struct open_parts *parts) {
  struct fault fault;
  struct machine *machine = &parts->machine;
  machine->packets = reserve_memory(&parts->packets, HAL_MEMORY_BYTES);
  if (machine->packets == NULL) {
    fault_set(&fault, "%d bytes of packet memory: %s", HAL_MEMORY_BYTES, strerror(errno));
    return fail(EXIT_SYSTEM, "no memory", &fault);
  }
  if (!open_memory(config, &parts->memory, config->memory_create, &fault)) {
    return fail(EXIT_UNAVAILABLE, "memory cannot be had", &fault);
  }
  parts->has_memory = true;
  tell_memory(&parts->memory);
  machine->memory = &parts->memory;
  const char *on_trial = getenv("PERDURE_ON_TRIAL");
  machine->on_trial = on_trial != NULL && strcmp(on_trial, "1") == 0;
  if (config->trace[0] != '\0' && !open_trace(config, &parts->memory, &machine->trace, &fault)) {
    return fail(EXIT_UNAVAILABLE, "the trace cannot be had", &fault);
  }
  if (config->host_window[0] != '\0') {
    if (!window_open(&machine->host, config->host_window, &fault)) {
      return fail(EXIT_UNAVAILABLE, "the host's memory cannot be had", &fault);
    }
    parts->has_window = true;
  }
  if (config->port[0] != '\0') {
    if (!port_open(&parts->port, config->port, config->port_bytes, machine, &fault)) {
      return fail(EXIT_UNAVAILABLE, "the port cannot be had", &fault);
    }
    parts->has_port = true;
  }
  if (!identity_is_open(&parts->identity)) {
    peers_keeper_open(&parts->peers, config->peers, &parts->identity);
    parts->has_peers = true;
    machine->peers = &parts->peers;
  }
  if (!open_links(config, &parts->links, &fault)) {
    return fail(EXIT_UNAVAILABLE, "the link cannot be had", &fault);
  }
  machine->links = &parts->links;
  if (!console_open(&parts->console, config->console, &fault)) {
    return fail(EXIT_UNAVAILABLE, "the console cannot be had", &fault);
  }
  parts->has_console = true;
  return EXIT_OK;
}

/* The engine stops at its own bound: the system's must lie behind it. */
static bool has_stack(uint64_t bytes, struct fault *fault) {
  struct rlimit limit;
  uint64_t needed = bytes + STACK_BESIDE_BYTES;
  if (getrlimit(RLIMIT_STACK, &limit) != 0) return fault_set(fault, "getrlimit failed");
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= needed) return true;
  limit.rlim_cur = needed;
  return setrlimit(RLIMIT_STACK, &limit) == 0 ||
         fault_set(fault, "stack-bytes = %llu: this process may have %llu bytes of stack in all",
                   (unsigned long long)bytes, (unsigned long long)limit.rlim_max);
}

static int start_engine(const struct config *config, struct open_parts *parts) {
  struct fault fault;
  struct facts facts = {
      .nvdimm_bytes = parts->memory.bytes,
      .host_bytes = parts->machine.host.bytes,
      .dma_bytes = parts->machine.dma.bytes,
      .strict_icrc = config->strict_icrc,
      .dirty_shutdowns = parts->memory.dirty_shutdowns,
      .path_mtu = (uint32_t)config->path_mtu,
      .identity = &parts->identity,
  };
  memcpy(facts.board, config->board, sizeof facts.board);
  memcpy(facts.mac, own_mac(config, &parts->links), sizeof facts.mac);
  memcpy(facts.ipv4, config->ipv4, sizeof facts.ipv4);
  memcpy(facts.ipv6, config->ipv6, sizeof facts.ipv6);
  if (getrandom(facts.entropy, sizeof facts.entropy, 0) != sizeof facts.entropy) {
    fault_set(&fault, "getrandom: %s", strerror(errno));
    return fail(EXIT_SYSTEM, "no entropy", &fault);
  }
  if (!has_stack(config->stack_bytes, &fault)) return fail(EXIT_SYSTEM, "no stack", &fault);
  const struct engine_limits limits = {
      .heap_bytes = config->heap_bytes,
      .stack_bytes = config->stack_bytes,
      .start_ms = (uint32_t)config->start_ms,
      .call_ms = (uint32_t)config->call_ms,
      .interpret = config->interpret,
  };
  /* From here on bytes of others are looked at. */
  if (!syscalls_confine(&fault)) {
    log_event(LOG_WARNING, "perdured may make any system call", LOG_TEXT("because", fault.text));
  }
  machine_tell_health(&parts->machine);
  trace_start(&parts->machine.trace, service_now_us());
  parts->engine = engine_start(&parts->bundle, &facts, &parts->machine, &limits, &fault);
  identity_forget_secret(&parts->identity);
  if (parts->engine == NULL) return fail(EXIT_FIRMWARE, "no firmware", &fault);
  if (!config->interpret && !engine_is_translated(parts->engine)) {
    log_event(LOG_WARNING, "the firmware is interpreted, which is slower",
              LOG_TEXT("reason", "perdured was built with another bundle"));
  }
  return EXIT_OK;
}

/*
 * How the driver names a link that it can reach: with the card's public key if it has one, and with
 * its own address if that is not the usual.
 */
static void name_link(const struct config *config, const struct identity *identity,
                      const char *name, char text[CONFIG_TEXT_BYTES]) {
  static const uint8_t USUAL[4] = {10, 0, 0, 2};
  char ipv4[INET_ADDRSTRLEN + 1] = "/";
  bool is_udp = strncmp(name, "udp:", 4) == 0;
  bool is_usual = memcmp(config->ipv4, USUAL, sizeof USUAL) == 0;
  inet_ntop(AF_INET, config->ipv4, ipv4 + 1, sizeof ipv4 - 1);
  bool is_keyed = is_udp && !identity_is_open(identity);
  snprintf(text, CONFIG_TEXT_BYTES, "%s%s%s%s%s", is_udp ? "perdure://" : "",
           is_keyed ? identity->public_key : "", is_keyed ? "@" : "", is_udp ? name + 4 : name,
           is_udp && !is_usual ? ipv4 : "");
}

/* The names of the links, for the driver in `names`, and as they were given in `together`. */
static void name_links(const struct config *config, const struct open_parts *parts,
                       char names[LINKS_MAX][CONFIG_TEXT_BYTES], char *together, size_t size) {
  const struct links *links = &parts->links;
  size_t length = 0;
  for (int i = 0; i < links->count; i++) {
    const char *name = links->each[i].name;
    name_link(config, &parts->identity, name, names[i]);
    if (length < size) {
      length += (size_t)snprintf(together + length, size - length, "%s%s", i > 0 ? " " : "", name);
    }
  }
}

/* Where it serves, a line of stdout for each link. */
static void announce(const struct config *config, const struct open_parts *parts, bool as_json) {
  static char names[LINKS_MAX][CONFIG_TEXT_BYTES], together[CONFIG_TEXT_BYTES];
  const char *all[LINKS_MAX] = {names[0], names[1], names[2], names[3]};
  const struct links *links = &parts->links;
  bool is_open = identity_is_open(&parts->identity);
  name_links(config, parts, names, together, sizeof together);
  if (as_json) {
    static char text[CONSOLE_ANSWER_BYTES];
    struct json json;
    json_begin(&json, text, sizeof text);
    json_text(&json, "address", all[0]);
    json_texts(&json, "addresses", all, links->count);
    json_text(&json, "bundle", parts->bundle.sha256);
    identity_tell(&parts->identity, &json);
    json_flag(&json, "translated", engine_is_translated(parts->engine));
    json_flag(&json, "armed", parts->memory.armed);
    fputs(json_end(&json), stdout);
  } else {
    for (int i = 0; i < links->count; i++) printf("%s\n", all[i]);
  }
  fflush(stdout);
  log_event(LOG_INFO, "serving", LOG_TEXT("link", together),
            LOG_TEXT("bundle", parts->bundle.sha256),
            LOG_TEXT("engine", engine_is_translated(parts->engine) ? "translated" : "interpreted"),
            LOG_TEXT("icrc", icrc_engine()),
            LOG_TEXT("publicKey", is_open ? "none" : parts->identity.public_key));
  notify_ready(parts->bundle.sha256, parts->memory.armed, engine_report(parts->engine));
}

static int serve(const struct config *config, const struct arguments *arguments,
                 struct open_parts *parts) {
  struct fault fault;
  int signals = service_signals();
  notify_open();
  int code = open_machine(config, parts);
  if (code != EXIT_OK) return code;
  if (!privilege_drop(config->user, &fault)) {
    return fail(EXIT_PRIVILEGE, "privileges cannot be dropped", &fault);
  }
  code = start_engine(config, parts);
  if (code != EXIT_OK) return code;
  links_flush(&parts->links);
  struct service service = {
      .config = config,
      .bundle = &parts->bundle,
      .identity = &parts->identity,
      .memory = &parts->memory,
      .machine = &parts->machine,
      .links = &parts->links,
      .engine = parts->engine,
      .console = &parts->console,
      .port = parts->has_port ? &parts->port : NULL,
      .signals = signals,
      .health = {&parts->memory, &parts->machine, &parts->links, parts->engine},
      .started_us = service_now_us(),
  };
  if (parts->has_port) port_serve(&parts->port, service_now_us());
  announce(config, parts, arguments->json);
  bool ended = service_run(&service);
  if (ended && links_gone(&parts->links)) {
    fault_set(&fault, "the interface was deleted");
    return fail(EXIT_UNAVAILABLE, "the link is gone", &fault);
  }
  if (ended) {
    log_event(LOG_INFO, "stopped", LOG_NUMBER("frames", service.frames),
              LOG_NUMBER("fences", parts->machine.counters.fences));
    return EXIT_OK;
  }
  const char *text, *reason = engine_stopped(parts->engine, &text);
  log_event(LOG_ERROR, "the firmware stopped", LOG_TEXT("reason", reason), LOG_TEXT("text", text));
  return EXIT_FIRMWARE;
}

static void close_all(struct open_parts *parts) {
  engine_free(parts->engine);
  tags_forget(&parts->machine.tags);
  if (parts->has_peers) peers_keeper_close(&parts->peers);
  if (parts->has_console) console_close(&parts->console);
  links_close(&parts->links);
  if (parts->has_port) port_close(&parts->port);
  if (parts->has_window) window_close(&parts->machine.host);
  if (parts->has_memory) memory_close(&parts->memory);
  trace_close(&parts->machine.trace);
  if (parts->packets.all != NULL) reserve_release(&parts->packets);
  verify_free(&parts->bundle);
}

int main(int count, char **words) {
  static struct config config;
  static struct open_parts parts;
  struct arguments arguments = {0};
  struct fault fault;
  /* One that is run from memory would have that file's name in `ps`, and be found by no `pgrep`. */
  prctl(PR_SET_NAME, "perdured");
  int code = take_arguments(count, words, &arguments);
  if (code >= 0) return code;
  if (!config_read(&config, arguments.config, &fault)) {
    return fail(EXIT_CONFIG, "the configuration is wrong", &fault);
  }
  log_as_json(config.log_json);
  code = take_bundle(&config, &arguments, &parts.bundle);
  if (code == EXIT_OK) code = take_identity(&config, &parts.identity);
  if (code == EXIT_OK) {
    code = arguments.check ? check(&config, &parts) : serve(&config, &arguments, &parts);
  }
  close_all(&parts);
  return code;
}
