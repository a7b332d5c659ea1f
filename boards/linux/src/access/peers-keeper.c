#include "access/peers-keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/peers-file.h"

#define COMMENT '#'

/* What a refusal calls the text; nobody is told it here. */
#define SOURCE "peers"

/* The file as it is, with room for one line more, and its peers. */
struct content {
  char *text;
  size_t length;
  struct identity *peers;
};

static bool read_whole(int file, char *text, size_t length) {
  for (size_t at = 0; at < length;) {
    ssize_t count = pread(file, text + at, length - at, (off_t)at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += (size_t)count;
  }
  return true;
}

/* Durably. */
static bool write_whole(int file, const char *text, size_t length, size_t to) {
  for (size_t at = 0; at < length;) {
    ssize_t count = pwrite(file, text + at, length - at, (off_t)(to + at));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += (size_t)count;
  }
  return fdatasync(file) == 0;
}

/* The byte there becomes another one. Where that may not be durable it is put back. */
static bool flip(int file, size_t at, char from, char to) {
  if (write_whole(file, &to, 1, at)) return true;
  write_whole(file, &from, 1, at);
  return false;
}

static bool is_read(const char *text, size_t length, struct identity *peers) {
  struct fault fault = {0};
  *peers = (struct identity){0};
  return peers_text_read(SOURCE, text, length, peers, &fault);
}

/* Takes it up; false where it is not there any more, or somebody has spoiled it. */
static bool take_content(int file, struct content *content) {
  struct stat found;
  if (file < 0 || fstat(file, &found) != 0 || found.st_nlink == 0) return false;
  if (found.st_size > (off_t)PEERS_FILE_BYTES_MAX) return false;
  content->length = (size_t)found.st_size;
  content->text = malloc(content->length + HAL_PEER_LINE_BYTES + 1);
  content->peers = calloc(1, sizeof *content->peers);
  return content->text != NULL && content->peers != NULL &&
         read_whole(file, content->text, content->length) &&
         is_read(content->text, content->length, content->peers);
}

static void give_back(struct content *content) {
  free(content->text);
  free(content->peers);
}

/* From here on those are the peers of the card. */
static void take_over(struct identity *identity, const struct identity *peers) {
  memcpy(identity->peers, peers->peers, sizeof identity->peers);
  identity->peers_count = peers->peers_count;
}

static int add(struct peers_keeper *keeper, struct content *content, const char *line,
               size_t length) {
  uint32_t count = content->peers->peers_count;
  /* Of a line that was torn once the end is missing. */
  bool is_torn = content->text[content->length - 1] != '\n';
  size_t at = content->length + is_torn;
  if (memchr(line, '\n', length) != NULL || memchr(line, '\r', length) != NULL) {
    return HAL_BAD_COMMAND;
  }
  content->text[content->length] = '\n';
  memcpy(content->text + at, line, length);
  if (!is_read(content->text, at + length, content->peers)) return HAL_BAD_COMMAND;
  if (content->peers->peers_count == count) return HAL_BAD_COMMAND;
  char block[HAL_PEER_LINE_BYTES + 3];
  size_t size = 0;
  if (is_torn) block[size++] = '\n';
  block[size++] = COMMENT;
  memcpy(block + size, line, length);
  size += length;
  block[size++] = '\n';
  if (at + size > PEERS_FILE_BYTES_MAX) return HAL_NOT_KEPT;
  if (!write_whole(keeper->file, block, size, content->length)) return HAL_NOT_KEPT;
  if (!flip(keeper->file, at, COMMENT, ' ')) return HAL_NOT_KEPT;
  take_over(keeper->identity, content->peers);
  return HAL_DONE;
}

/* The place of the first line that begins with that key; negative if none does. */
static ssize_t line_of(const struct content *content, const uint8_t *key) {
  const char *text = content->text, *end = text + content->length;
  for (const char *line = text; line < end;) {
    const char *feed = memchr(line, '\n', (size_t)(end - line));
    const char *until = feed == NULL ? end : feed, *word = line;
    uint8_t found[IDENTITY_KEY_BYTES];
    size_t bytes = 0;
    while (word < until && (*word == ' ' || *word == '\t')) word++;
    bool is_key = (size_t)(until - word) >= 2 * sizeof found &&
                  sodium_hex2bin(found, sizeof found, word, 2 * sizeof found, NULL, &bytes,
                                 NULL) == 0 &&
                  bytes == sizeof found;
    if (is_key && memcmp(found, key, sizeof found) == 0) return line - text;
    line = until + 1;
  }
  return -1;
}

static uint32_t admins_in(const struct identity *identity) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < identity->peers_count; i++) count += identity->peers[i].admin;
  return count;
}

static int strike(struct peers_keeper *keeper, struct content *content, const char *text,
                  size_t length) {
  uint8_t key[IDENTITY_KEY_BYTES];
  size_t bytes = 0;
  if (length != 2 * sizeof key ||
      sodium_hex2bin(key, sizeof key, text, length, NULL, &bytes, NULL) != 0 ||
      bytes != sizeof key) {
    return HAL_BAD_COMMAND;
  }
  ssize_t at = line_of(content, key);
  if (at < 0) return HAL_BAD_COMMAND;
  uint32_t admins = admins_in(content->peers);
  char first = content->text[at];
  content->text[at] = COMMENT;
  if (!is_read(content->text, content->length, content->peers)) return HAL_NOT_KEPT;
  if (admins > 0 && admins_in(content->peers) == 0) return HAL_NOT_KEPT;
  if (!flip(keeper->file, (size_t)at, first, COMMENT)) return HAL_NOT_KEPT;
  take_over(keeper->identity, content->peers);
  return HAL_DONE;
}

void peers_keeper_open(struct peers_keeper *keeper, const char *path, struct identity *identity) {
  *keeper = (struct peers_keeper){open(path, O_RDWR | O_CLOEXEC | O_NOCTTY), identity};
}

int peers_keeper_keep(struct peers_keeper *keeper, const char *text, size_t length, bool comes) {
  struct content content = {0};
  int result = HAL_NOT_KEPT;
  if (take_content(keeper->file, &content)) {
    result = (comes ? add : strike)(keeper, &content, text, length);
  }
  give_back(&content);
  return result;
}

void peers_keeper_close(struct peers_keeper *keeper) {
  if (keeper->file >= 0) close(keeper->file);
}
