#include "calls/memory-file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "calls/descriptors.h"

/* Of Linux 6.3, which the headers need not know. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif
#ifndef MFD_EXEC
#define MFD_EXEC 0x0010u
#endif

enum { SEALS = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL };

/* An older kernel knows no word for whether it is to be run: the mode says it there. */
static int make(const char *name, bool executable) {
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  int file = memfd_create(name, flags | (executable ? MFD_EXEC : MFD_NOEXEC_SEAL));
  return file >= 0 || errno != EINVAL ? file : memfd_create(name, flags);
}

static bool fill(int file, const struct bytes *bytes) {
  for (size_t done = 0; done < bytes->length;) {
    ssize_t went = write(file, bytes->at + done, bytes->length - done);
    if (went > 0) done += (size_t)went;
    else if (went == 0 || errno != EINTR) return false;
  }
  return lseek(file, 0, SEEK_SET) == 0;
}

HOST_FUNCTION(host_memory_file) {
  struct bytes bytes;
  bool executable;
  if (!take_bytes(context, arguments[1], "bytes", &bytes)) return JS_EXCEPTION;
  if (!take_flag(context, arguments[2], "executable", &executable)) return JS_EXCEPTION;
  const char *name = take_string(context, arguments[0], "name");
  if (name == NULL) return JS_EXCEPTION;
  int file = make(name, executable);
  if (file >= 0 && fill(file, &bytes) && fchmod(file, executable ? 0500 : 0400) == 0 &&
      fcntl(file, F_ADD_SEALS, SEALS) == 0) {
    JS_FreeCString(context, name);
    return give_descriptor(context, file);
  }
  int reason = errno;
  if (file >= 0) close(file);
  throw_system(context, reason, "a file of memory, %s, of %zu bytes cannot be made", name,
               bytes.length);
  JS_FreeCString(context, name);
  return JS_EXCEPTION;
}
