#include "card/verify.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

/* The bundle has some hundred kilobytes. */
#define BUNDLE_BYTES_MAX (16u << 20)
#define SMALL_BYTES_MAX 4096u

/* SubjectPublicKeyInfo of Ed25519 up to the key (RFC 8410, 4). */
static const unsigned char SPKI[] = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03,
                                     0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};

static bool key_from_hex(const char *text, unsigned char *key) {
  size_t length = 0;
  return strlen(text) == 2 * crypto_sign_PUBLICKEYBYTES &&
         sodium_hex2bin(key, crypto_sign_PUBLICKEYBYTES, text, strlen(text), NULL, &length, NULL) ==
             0 &&
         length == crypto_sign_PUBLICKEYBYTES;
}

static bool key_from_pem(const char *text, unsigned char *key) {
  static const char BEGIN[] = "-----BEGIN PUBLIC KEY-----";
  const char *at = strstr(text, BEGIN);
  const char *end = at == NULL ? NULL : strstr(at, "-----END PUBLIC KEY-----");
  if (end == NULL) return false;
  at += sizeof BEGIN - 1;
  unsigned char spki[sizeof SPKI + crypto_sign_PUBLICKEYBYTES];
  size_t length = 0;
  const char *stop = NULL;
  if (sodium_base642bin(spki, sizeof spki, at, (size_t)(end - at), " \r\n", &length, &stop,
                        sodium_base64_VARIANT_ORIGINAL) != 0 ||
      stop != end || length != sizeof spki || memcmp(spki, SPKI, sizeof SPKI) != 0) {
    return false;
  }
  memcpy(key, spki + sizeof SPKI, crypto_sign_PUBLICKEYBYTES);
  return true;
}

static enum verify_result take_key(const char *trust, unsigned char *key, struct fault *fault) {
  if (key_from_hex(trust, key)) return VERIFIED;
  size_t length = 0;
  char *text = file_read(trust, SMALL_BYTES_MAX, &length, fault);
  if (text == NULL) return VERIFY_NO_FILE;
  bool found = key_from_pem(text, key);
  free(text);
  if (found) return VERIFIED;
  fault_set(fault, "%s holds no Ed25519 public key in PEM; 64 hexadecimal digits in place of the "
            "file would do as well", trust);
  return VERIFY_UNTRUSTED;
}

static enum verify_result take_signature(const char *path, unsigned char *signature,
                                         struct fault *fault) {
  size_t length = 0;
  char *bytes = file_read(path, SMALL_BYTES_MAX, &length, fault);
  if (bytes == NULL) return VERIFY_NO_FILE;
  bool fits = length == crypto_sign_BYTES;
  if (fits) memcpy(signature, bytes, crypto_sign_BYTES);
  free(bytes);
  if (fits) return VERIFIED;
  fault_set(fault, "%s has %zu bytes; an Ed25519 signature has %u", path, length,
            crypto_sign_BYTES);
  return VERIFY_UNTRUSTED;
}

enum verify_result verify_bundle(struct bundle *bundle, const char *path, const char *signature,
                                 const char *trust, struct fault *fault) {
  unsigned char key[crypto_sign_PUBLICKEYBYTES], sign[crypto_sign_BYTES];
  unsigned char hash[crypto_hash_sha256_BYTES];
  *bundle = (struct bundle){0};
  if (sodium_init() < 0) {
    fault_set(fault, "libsodium cannot start on this machine");
    return VERIFY_UNTRUSTED;
  }
  enum verify_result result = take_key(trust, key, fault);
  if (result == VERIFIED) result = take_signature(signature, sign, fault);
  if (result != VERIFIED) return result;
  bundle->source = file_read(path, BUNDLE_BYTES_MAX, &bundle->length, fault);
  if (bundle->source == NULL) return VERIFY_NO_FILE;
  const unsigned char *message = (const unsigned char *)bundle->source;
  crypto_hash_sha256(hash, message, bundle->length);
  sodium_bin2hex(bundle->sha256, sizeof bundle->sha256, hash, sizeof hash);
  if (crypto_sign_verify_detached(sign, message, bundle->length, key) == 0) return VERIFIED;
  fault_set(fault, "%s is not signed by the key that is trusted: SHA-256 %s", path,
            bundle->sha256);
  verify_free(bundle);
  return VERIFY_UNTRUSTED;
}

void verify_free(struct bundle *bundle) {
  free(bundle->source);
  bundle->source = NULL;
}
