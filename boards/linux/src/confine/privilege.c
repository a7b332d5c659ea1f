#include "confine/privilege.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

struct account {
  uid_t user;
  gid_t group;
};

/* From the file alone: a statically linked program has no name services. */
static bool find(const char *name, struct account *account) {
  char *end = NULL;
  unsigned long number = strtoul(name, &end, 10);
  bool is_number = *name >= '0' && *name <= '9' && *end == '\0' && number < (uid_t)-1;
  if (is_number) *account = (struct account){(uid_t)number, (gid_t)number};
  FILE *file = fopen("/etc/passwd", "re");
  bool found = false;
  if (file != NULL) {
    const struct passwd *entry;
    while (!found && (entry = fgetpwent(file)) != NULL) {
      found = is_number ? entry->pw_uid == number : strcmp(entry->pw_name, name) == 0;
      if (found) *account = (struct account){entry->pw_uid, entry->pw_gid};
    }
    fclose(file);
  }
  return found || is_number;
}

static bool drop_capabilities(void) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3];
  memset(none, 0, sizeof none);
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  return syscall(SYS_capset, &header, none) == 0;
}

bool privilege_drop(const char *user, struct fault *fault) {
  struct account account;
  int at_end = 0;
  prctl(PR_GET_PDEATHSIG, &at_end);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return fault_set(fault, "new privileges cannot be forbidden: %s", strerror(errno));
  }
  if (user[0] != '\0') {
    if (!find(user, &account)) {
      return fault_set(fault, "user = %s: /etc/passwd has no such user", user);
    }
    bool is_root = geteuid() == 0;
    bool is_other = getuid() != account.user || geteuid() != account.user;
    if ((is_root && setgroups(0, NULL) != 0) ||
        (is_other && (setresgid(account.group, account.group, account.group) != 0 ||
                      setresuid(account.user, account.user, account.user) != 0))) {
      return fault_set(fault, "user = %s: this process may not become it: %s", user,
                       strerror(errno));
    }
  }
  /* Root without a user stays root, by its own wish: without capabilities all the same. */
  if (!drop_capabilities()) {
    return fault_set(fault, "capabilities cannot be dropped: %s", strerror(errno));
  }
  /* Another user is told no more that its parent has ended, unless it asks again. */
  prctl(PR_SET_PDEATHSIG, at_end);
  return true;
}
