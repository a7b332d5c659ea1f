#include "calls/crypto.h"

#include <brotli/decode.h>
#include <sodium.h>

/* Room for what is unpacked, to begin with. */
enum { FIRST_BYTES = 256 << 10 };

HOST_FUNCTION(host_sha256) {
  struct bytes bytes;
  uint8_t hash[crypto_hash_sha256_BYTES];
  if (!take_bytes(context, arguments[0], "bytes", &bytes)) return JS_EXCEPTION;
  crypto_hash_sha256(hash, bytes.at, bytes.length);
  return JS_NewArrayBufferCopy(context, hash, sizeof hash);
}

HOST_FUNCTION(host_verify) {
  struct bytes key, message, signature;
  if (!take_bytes(context, arguments[0], "key", &key)) return JS_EXCEPTION;
  if (!take_bytes(context, arguments[1], "message", &message)) return JS_EXCEPTION;
  if (!take_bytes(context, arguments[2], "signature", &signature)) return JS_EXCEPTION;
  if (key.length != crypto_sign_PUBLICKEYBYTES) {
    return JS_ThrowRangeError(context, "key is to have %u bytes", crypto_sign_PUBLICKEYBYTES);
  }
  bool is_signed = signature.length == crypto_sign_BYTES &&
                   crypto_sign_verify_detached(signature.at, message.at, message.length,
                                               key.at) == 0;
  return JS_NewBool(context, is_signed);
}

/* What is being unpacked: into a buffer that grows up to `most` + 1 bytes. */
struct unpacking {
  BrotliDecoderState *decoder;
  uint8_t *bytes;
  size_t size, length, most;
};

static bool grow(JSContext *context, struct unpacking *u) {
  size_t size = u->size > u->most / 2 ? u->most + 1 : 2 * u->size;
  uint8_t *grown = js_realloc(context, u->bytes, size);
  if (grown == NULL) return false;
  u->bytes = grown;
  u->size = size;
  return true;
}

/* Unpacks one part, up to the end of the buffer. */
static BrotliDecoderResult step(struct unpacking *u, struct bytes *packed) {
  size_t room = u->size - u->length;
  uint8_t *to = u->bytes + u->length;
  BrotliDecoderResult result = BrotliDecoderDecompressStream(u->decoder, &packed->length,
                                                             &packed->at, &room, &to, NULL);
  u->length = u->size - room;
  return result;
}

/* False: thrown. */
static bool unpack(JSContext *context, struct unpacking *u, struct bytes packed) {
  BrotliDecoderResult result = BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT;
  while (result == BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT && u->length <= u->most) {
    if (u->length == u->size && !grow(context, u)) return false;
    result = step(u, &packed);
  }
  if (u->length > u->most) {
    throw_error(context, "EFBIG", "unpacked, the bytes are more than %zu", u->most);
  } else if (result == BROTLI_DECODER_RESULT_NEEDS_MORE_INPUT) {
    throw_error(context, NULL, "the packed bytes are cut short");
  } else if (result != BROTLI_DECODER_RESULT_SUCCESS) {
    BrotliDecoderErrorCode reason = BrotliDecoderGetErrorCode(u->decoder);
    throw_error(context, NULL, "the packed bytes are no brotli: %s",
                BrotliDecoderErrorString(reason));
  } else if (packed.length > 0) {
    throw_error(context, NULL, "%zu bytes follow the packed ones", packed.length);
  } else {
    return true;
  }
  return false;
}

HOST_FUNCTION(host_brotli) {
  struct bytes packed;
  int64_t most;
  if (!take_bytes(context, arguments[0], "bytes", &packed)) return JS_EXCEPTION;
  if (!take_whole(context, arguments[1], "most", 0, LENGTH_MAX, &most)) return JS_EXCEPTION;
  struct unpacking u = {.most = (size_t)most};
  u.size = u.most < FIRST_BYTES ? u.most + 1 : FIRST_BYTES;
  u.bytes = js_malloc(context, u.size);
  if (u.bytes == NULL) return JS_EXCEPTION;
  u.decoder = BrotliDecoderCreateInstance(NULL, NULL, NULL);
  bool done = u.decoder != NULL ? unpack(context, &u, packed)
                                : (JS_ThrowOutOfMemory(context), false);
  BrotliDecoderDestroyInstance(u.decoder);
  if (done) return give_bytes(context, u.bytes, u.length);
  js_free(context, u.bytes);
  return JS_EXCEPTION;
}
