#include "service/config.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES_MAX 2048
#define KEYS_MAX 64

enum kind { TEXT, NAME, LINK, FLAG, SIZE, COUNT, MTU, MAC, IPV4, IPV6, CHOICE };

struct key {
  const char *name;
  enum kind kind;
  size_t at;            /* of the field in `struct config` */
  const char *fallback; /* as it would stand in the file; NULL: it has to be said */
  const char *takes;    /* in words; of CHOICE "no|yes": the second sets the field */
  uint64_t least, most; /* of SIZE and COUNT */
};

#define FIELD(name) offsetof(struct config, name)

/* clang-format off */
static const struct key KEYS[] = {
  {"board", NAME, FIELD(board), "linux", "a name", 0, 0},
  {"firmware", TEXT, FIELD(firmware), "/usr/lib/perdure/firmware.js", "a file", 0, 0},
  {"signature", TEXT, FIELD(signature), "", "a file; FIRMWARE.sig if it is not said", 0, 0},
  {"trust", TEXT, FIELD(trust), "/etc/perdure/trust.pem", "a PEM file or 64 hex digits", 0, 0},
  {"key", TEXT, FIELD(key), "", "a file with the card's private key, its owner's alone; with peers",
   0, 0},
  {"peers", TEXT, FIELD(peers), "", "a file of who may come; with key. Without both it is open",
   0, 0},
  {"memory", TEXT, FIELD(memory), NULL, "a file or a device of device-dax", 0, 0},
  {"memory-bytes", SIZE, FIELD(memory_bytes), "0", "bytes, as 64M; 0: all there are",
   0, 1ull << 47},
  {"memory-at", SIZE, FIELD(memory_at), "0", "bytes, as 2M", 0, 1ull << 47},
  {"memory-create", FLAG, FIELD(memory_create), "no", "yes|no", 0, 0},
  {"development", FLAG, FIELD(development), "no", "yes|no", 0, 0},
  {"shadow", FLAG, FIELD(shadow), "no", "yes|no", 0, 0},
  {"clean", CHOICE, FIELD(clean_to_coherency), "auto", "auto|coherency", 0, 0},
  {"link", LINK, FIELD(links), NULL, "packet:INTERFACE, udp:ADDRESS:PORT, stream:unix:PATH or "
   "dgram:OWN:PORT,OTHER:PORT; a line for each, 4 at the most", 0, 0},
  {"mac", MAC, FIELD(mac), "02:00:00:00:00:02", "an address of one station", 0, 0},
  {"ipv4", IPV4, FIELD(ipv4), "10.0.0.2", "an address", 0, 0},
  {"ipv6", IPV6, FIELD(ipv6), "fd00::2", "an address", 0, 0},
  {"path-mtu", MTU, FIELD(path_mtu), "4096", "256, 512, 1024, 2048 or 4096", 0, 0},
  {"strict-icrc", FLAG, FIELD(strict_icrc), "no", "yes|no", 0, 0},
  {"host-window", TEXT, FIELD(host_window), "", "a file, or pci:0000:00:02.0/resource2", 0, 0},
  {"port", TEXT, FIELD(port), "", "a file that a host in another process opens, too", 0, 0},
  {"port-bytes", SIZE, FIELD(port_bytes), "64M", "bytes of the host's memory, if the file is made",
   64, 1ull << 30},
  {"console", TEXT, FIELD(console), "none", "none, stdio, unix:PATH or tty:DEVICE", 0, 0},
  {"trace", TEXT, FIELD(trace), "", "a file, for perdure timeline: a ring of what the card does",
   0, 0},
  {"trace-bytes", SIZE, FIELD(trace_bytes), "16M", "bytes of that file, 1M to 1G",
   1u << 20, 1u << 30},
  {"log", CHOICE, FIELD(log_json), "text", "text|json", 0, 0},
  {"user", NAME, FIELD(user), "", "a user to become once everything is open", 0, 0},
  {"poll", CHOICE, FIELD(spin), "wait", "wait|spin", 0, 0},
  {"engine", CHOICE, FIELD(interpret), "translated", "translated|interpreted", 0, 0},
  {"heap-bytes", SIZE, FIELD(heap_bytes), "24M", "bytes, 4M to 1G", 4u << 20, 1u << 30},
  {"stack-bytes", SIZE, FIELD(stack_bytes), "256K", "bytes, 64K to 4M", 64u << 10, 4u << 20},
  {"start-ms", COUNT, FIELD(start_ms), "3600000", "milliseconds, 10 to 86400000", 10, 86400000},
  {"call-ms", COUNT, FIELD(call_ms), "30000", "milliseconds, 10 to 3600000", 10, 3600000},
};
/* clang-format on */

#define KEYS_COUNT (sizeof KEYS / sizeof KEYS[0])
_Static_assert(KEYS_COUNT <= KEYS_MAX, "a bit for each key");

static bool take_number(const char *value, uint64_t *number, bool with_unit) {
  static const char UNITS[] = "KMGT";
  if (!isdigit((unsigned char)value[0])) return false;
  char *end = NULL;
  errno = 0;
  unsigned long long parsed = strtoull(value, &end, 10);
  const char *unit = *end != '\0' && with_unit ? strchr(UNITS, *end) : NULL;
  unsigned shift = unit == NULL ? 0 : 10u * (unsigned)(unit - UNITS + 1);
  if (errno != 0 || (unit == NULL ? *end : end[1]) != '\0') return false;
  if (parsed > UINT64_MAX >> shift) return false;
  *number = (uint64_t)parsed << shift;
  return true;
}

/* Six bytes in hexadecimal; not a group's address, which no station has. */
static bool take_mac(const char *value, uint8_t *mac) {
  for (int i = 0; i < 6; i++, value += 3) {
    if (!isxdigit((unsigned char)value[0]) || !isxdigit((unsigned char)value[1])) return false;
    if (value[2] != (i < 5 ? ':' : '\0')) return false;
    mac[i] = (uint8_t)strtoul(value, NULL, 16);
  }
  return (mac[0] & 1) == 0;
}

/* "first|second": whether it is the second; for "yes|no" the first. */
static bool take_choice(const char *value, const char *choices, bool *second) {
  size_t length = strcspn(choices, "|");
  *second = strcmp(value, choices + length + 1) == 0;
  return *second || (strlen(value) == length && strncmp(value, choices, length) == 0);
}

static bool take_flag(const char *value, bool *flag) {
  *flag = strcmp(value, "yes") == 0;
  return *flag || strcmp(value, "no") == 0;
}

static bool take_text(const char *value, char *text, size_t size) {
  size_t length = strlen(value);
  if (length >= size) return false;
  memcpy(text, value, length + 1);
  return true;
}

static bool take_mtu(const char *value, uint64_t *mtu) {
  return take_number(value, mtu, false) && *mtu >= 256 && *mtu <= 4096 && (*mtu & (*mtu - 1)) == 0;
}

static bool take_link(struct config *config, const char *value) {
  return config->links_count < LINKS_MAX &&
         take_text(value, config->links[config->links_count++], CONFIG_TEXT_BYTES);
}

_Static_assert(LINKS_MAX == 4, "as the key says");

static bool take(struct config *config, const struct key *key, const char *value) {
  void *field = (char *)config + key->at;
  switch (key->kind) {
    case TEXT: return take_text(value, field, CONFIG_TEXT_BYTES);
    case NAME: return take_text(value, field, sizeof config->user);
    case LINK: return take_link(config, value);
    case FLAG: return take_flag(value, field);
    case CHOICE: return take_choice(value, key->takes, field);
    case MTU: return take_mtu(value, field);
    case MAC: return take_mac(value, field);
    case IPV4: return inet_pton(AF_INET, value, field) == 1;
    case IPV6: return inet_pton(AF_INET6, value, field) == 1;
    case SIZE:
    case COUNT: break;
  }
  uint64_t *number = field;
  return take_number(value, number, key->kind == SIZE) && *number >= key->least &&
         *number <= key->most;
}

/* Cuts the blanks off both ends, in place. */
static char *trimmed(char *text) {
  while (isspace((unsigned char)*text)) text++;
  size_t length = strlen(text);
  while (length > 0 && isspace((unsigned char)text[length - 1])) length--;
  text[length] = '\0';
  return text;
}

static bool refuse_key(const char *path, int line, const char *name, struct fault *fault) {
  char known[512];
  size_t length = 0;
  for (size_t i = 0; i < KEYS_COUNT; i++) {
    length += (size_t)snprintf(known + length, sizeof known - length, "%s%s", i == 0 ? "" : ", ",
                               KEYS[i].name);
  }
  return fault_set(fault, "%.200s, line %d: no key is called %.60s. There are: %s", path, line,
                   name, known);
}

static bool take_line(struct config *config, const char *path, int line, char *text,
                      uint64_t *seen, struct fault *fault) {
  char *start = trimmed(text);
  if (*start == '\0' || *start == '#') return true;
  char *equals = strchr(start, '=');
  if (equals == NULL) {
    return fault_set(fault, "%.200s, line %d: expected key = value, found %.100s", path, line,
                     start);
  }
  *equals = '\0';
  const char *name = trimmed(start), *value = trimmed(equals + 1);
  size_t i = 0;
  while (i < KEYS_COUNT && strcmp(KEYS[i].name, name) != 0) i++;
  if (i == KEYS_COUNT) return refuse_key(path, line, name, fault);
  if ((*seen & (1ull << i)) != 0 && KEYS[i].kind != LINK) {
    return fault_set(fault, "%.200s, line %d: %s stands there twice", path, line, name);
  }
  *seen |= 1ull << i;
  if (*value != '\0' && take(config, &KEYS[i], value)) return true;
  return fault_set(fault, "%.200s, line %d: %s = %.100s is not valid; it takes %s", path, line,
                   name, value, KEYS[i].takes);
}

static bool is_said(const char *name, uint64_t seen) {
  size_t i = 0;
  while (strcmp(KEYS[i].name, name) != 0) i++;
  return (seen & (1ull << i)) != 0;
}

static bool finish(struct config *config, const char *path, uint64_t seen, struct fault *fault) {
  for (size_t i = 0; i < KEYS_COUNT; i++) {
    if (KEYS[i].fallback == NULL && (seen & (1ull << i)) == 0) {
      return fault_set(fault, "%.200s: %s is missing; it takes %s", path, KEYS[i].name,
                       KEYS[i].takes);
    }
  }
  if ((config->key[0] == '\0') != (config->peers[0] == '\0')) {
    const char *missing = config->key[0] == '\0' ? "key" : "peers";
    return fault_set(fault, "%.200s: key and peers go together, and %s is missing: say both, or "
                     "neither for a card that is open", path, missing);
  }
  config->mac_said = is_said("mac", seen);
  if (config->signature[0] != '\0') return true;
  int length = snprintf(config->signature, sizeof config->signature, "%s.sig", config->firmware);
  return (size_t)length < sizeof config->signature ||
         fault_set(fault, "%.200s: firmware is too long a path", path);
}

bool config_read(struct config *config, const char *path, struct fault *fault) {
  char line[LINE_BYTES_MAX];
  uint64_t seen = 0;
  *config = (struct config){0};
  for (size_t i = 0; i < KEYS_COUNT; i++) {
    if (KEYS[i].fallback != NULL) take(config, &KEYS[i], KEYS[i].fallback);
  }
  FILE *file = fopen(path, "re");
  if (file == NULL) return fault_set(fault, "%s cannot be read: %s", path, strerror(errno));
  bool good = true;
  for (int number = 1; good && fgets(line, sizeof line, file) != NULL; number++) {
    if (strchr(line, '\n') == NULL && !feof(file)) {
      good = fault_set(fault, "%.200s, line %d: too long", path, number);
    } else {
      good = take_line(config, path, number, line, &seen, fault);
    }
  }
  if (good && ferror(file) != 0) good = fault_set(fault, "%s cannot be read whole", path);
  fclose(file);
  return good && finish(config, path, seen, fault);
}

void config_help(FILE *out) {
  for (size_t i = 0; i < KEYS_COUNT; i++) {
    const char *fallback = KEYS[i].fallback;
    fprintf(out, "  %-13s %s%s%s%s\n", KEYS[i].name, KEYS[i].takes,
            fallback == NULL ? " (must be said)" : fallback[0] == '\0' ? "" : " (",
            fallback == NULL ? "" : fallback,
            fallback == NULL || fallback[0] == '\0' ? "" : ")");
  }
}
