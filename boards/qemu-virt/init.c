/*
 * The first process of the virtual machine: makes the board ready, runs perdure-boot, and is done.
 *
 *     modules -> network -> device-dax -> serial line -> disk -> perdure-boot -> power off
 *
 * Invariants:
 * - Each step says its name on the console when it is finished, "board: SECONDS NAME", so that
 *   whoever started the machine knows how far it came and how long it took.
 * - A step that fails names itself and what the kernel said, and the machine goes off: nothing is
 *   served on a board that is half there.
 * - A namespace is made into device-dax only where it has nothing of the kind yet. The host has
 *   checked that the file behind it is blank.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define SUPERVISOR "/perdure/perdure-boot"
#define CONFIGURATION "/perdure/boot.conf"
#define NOTIFY_PATH "/run/notify"
#define SYSTEM "/usr/sbin/init"
#define READY_PATH "/run/ready"

/* Steps that wait for the kernel wait this long: TCG on a busy machine is slow. */
#define WAIT_MS 30000

static void stage(const char *name)
{
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  printf("board: %ld.%03ld %s\n", (long)now.tv_sec, now.tv_nsec / 1000000, name);
  fflush(stdout);
}

static void off(void)
{
  fflush(stdout);
  usleep(100000); /* the console's last characters are still on their way */
  reboot(RB_POWER_OFF);
  for (;;) pause();
}

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...)
{
  const char *why = strerror(errno);
  va_list list;
  va_start(list, format);
  printf("board: failed: ");
  vprintf(format, list);
  va_end(list);
  printf(": %s\n", why);
  off();
  abort();
}

static void mount_all(void)
{
  mkdir("/dev", 0755);
  mkdir("/proc", 0755);
  mkdir("/sys", 0755);
  mkdir("/run", 0755);
  mount("dev", "/dev", "devtmpfs", 0, NULL); /* the kernel may have done it */
  const int console = open("/dev/console", O_RDWR | O_NOCTTY);
  for (int i = 0; i < 3 && console >= 0; i++) dup2(console, i);
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (mount("proc", "/proc", "proc", 0, NULL) != 0) fail("mount /proc");
  if (mount("sys", "/sys", "sysfs", 0, NULL) != 0) fail("mount /sys");
}

/* Loads the modules that the image names, in its order: each after what it needs. */
static void load_modules(void)
{
  FILE *order = fopen("/modules/order", "re");
  if (order == NULL) fail("/modules/order");
  char name[128], path[256];
  while (fscanf(order, "%127s", name) == 1) {
    snprintf(path, sizeof path, "/modules/%s.ko", name);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) fail("%s", path);
    if (syscall(SYS_finit_module, file, "", 0) != 0 && errno != EEXIST) fail("module %s", name);
    close(file);
  }
  fclose(order);
}

/* Brings the card up. The first gets no address: the firmware is its network stack. */
static void network_up(const char *name)
{
  const int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  struct ifreq request = {0};
  snprintf(request.ifr_name, IFNAMSIZ, "%s", name);
  if (control < 0 || ioctl(control, SIOCGIFFLAGS, &request) != 0) fail("network %s", name);
  request.ifr_flags |= IFF_UP;
  if (ioctl(control, SIOCSIFFLAGS, &request) != 0) fail("network %s up", name);
  if (ioctl(control, SIOCGIFMTU, &request) != 0) fail("network %s mtu", name);
  printf("board: %s is up, MTU %d\n", name, request.ifr_mtu);
  close(control);
}

/* Gives the kernel an address on a card: whoever flashes and other hosts reach it there. */
static void give_address(const char *name)
{
  const int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  struct ifreq request = {0};
  struct sockaddr_in address = {.sin_family = AF_INET};
  snprintf(request.ifr_name, IFNAMSIZ, "%s", name);
  inet_pton(AF_INET, "10.0.2.15", &address.sin_addr);
  memcpy(&request.ifr_addr, &address, sizeof address);
  if (control < 0 || ioctl(control, SIOCSIFADDR, &request) != 0) fail("network %s address", name);
  inet_pton(AF_INET, "255.255.255.0", &address.sin_addr);
  memcpy(&request.ifr_netmask, &address, sizeof address);
  if (ioctl(control, SIOCSIFNETMASK, &request) != 0) fail("network %s netmask", name);
  close(control);
}

static void put(const char *path, const char *text)
{
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  const ssize_t length = (ssize_t)strlen(text);
  if (file < 0 || write(file, text, (size_t)length) != length) fail("'%s' to %s", text, path);
  close(file);
}

static int await_path(const char *path, const char *other)
{
  for (int waited = 0; waited < WAIT_MS; waited += 5) {
    if (access(path, F_OK) == 0) return 1;
    if (other != NULL && access(other, F_OK) == 0) return 0;
    usleep(5000);
  }
  errno = ETIMEDOUT;
  fail("waiting for %s", path);
}

/*
 * Makes the NVDIMM a device-dax (kernel: Documentation/ABI/testing/sysfs-bus-nvdimm). A namespace
 * that has been one comes up as one by itself; a blank one comes up as a block device, whose
 * mappings would be the page cache's, and is turned over.
 */
static void make_dax(void)
{
  /* What one entry of the upper table maps: 2 MiB with pages of 4 KiB, 32 MiB with 16 KiB. */
  const long page = sysconf(_SC_PAGESIZE);
  char align[24];
  snprintf(align, sizeof align, "%ld", page * (page / 8));
  if (await_path("/dev/dax0.0", "/dev/pmem0")) return;
  char uuid[64] = {0};
  const int source = open("/proc/sys/kernel/random/uuid", O_RDONLY | O_CLOEXEC);
  if (source < 0 || read(source, uuid, sizeof uuid - 1) <= 0) fail("uuid");
  close(source);
  put("/sys/bus/nd/drivers/nd_pmem/unbind", "namespace0.0");
  put("/sys/bus/nd/devices/dax0.0/align", align);
  put("/sys/bus/nd/devices/dax0.0/mode", "ram");
  put("/sys/bus/nd/devices/dax0.0/uuid", uuid);
  put("/sys/bus/nd/devices/dax0.0/namespace", "namespace0.0");
  put("/sys/bus/nd/drivers/dax_pmem/bind", "dax0.0");
  await_path("/dev/dax0.0", NULL);
}

/* The serial line carries bytes as they are: no echo, no line editing, no signals. */
static void make_raw(const char *path)
{
  const int tty = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
  struct termios settings;
  if (tty < 0 || tcgetattr(tty, &settings) != 0) fail("%s", path);
  cfmakeraw(&settings);
  if (tcsetattr(tty, TCSANOW, &settings) != 0) fail("%s raw", path);
  close(tty);
}

static int open_ready(void)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = READY_PATH};
  const int ready = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (ready < 0 || bind(ready, (struct sockaddr *)&address, sizeof address) != 0) fail("ready");
  setenv("NOTIFY_SOCKET", READY_PATH, 1);
  return ready;
}

/* What a first notice says: it serves, or SMP does and nothing else, and why. */
static void tell(const char *text)
{
  const char *why = strstr(text, "STATUS=");
  if (strstr(text, "READY=1") == NULL) return;
  if (why == NULL) stage("serving");
  else printf("board: off: %s\n", why + strlen("STATUS="));
}

/* Says what the child says (sd_notify's protocol), and waits for its end. */
static int attend(pid_t child, int ready)
{
  for (;;) {
    struct pollfd waiting = {.fd = ready, .events = POLLIN};
    int status;
    const pid_t ended = waitpid(-1, &status, WNOHANG);
    if (ended == child) return status;
    if (poll(&waiting, 1, 200) <= 0) continue;
    char text[256];
    const ssize_t length = recv(ready, text, sizeof text - 1, 0);
    if (length <= 0) continue;
    text[length] = 0;
    tell(text);
  }
}

int main(void)
{
  mount_all();
  stage("kernel");
  load_modules();
  stage("modules");
  network_up("eth0");
  make_dax();
  stage("device-dax");
  make_raw("/dev/ttyAMA0");
  /* An image with a system of its own goes on with that: the board is ready. */
  if (access(SYSTEM, F_OK) == 0) {
    execl(SYSTEM, SYSTEM, (char *)NULL);
    fail(SYSTEM);
  }
  network_up("eth1");
  give_address("eth1");
  await_path("/dev/vda", NULL);
  stage("network and disk");
  const int ready = open_ready();
  const pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    execl(SUPERVISOR, "perdure-boot", "--config", CONFIGURATION, "--notify", NOTIFY_PATH,
          (char *)NULL);
    fail(SUPERVISOR);
  }
  const int status = attend(child, ready);
  if (WIFEXITED(status)) printf("board: perdure-boot ended, exit %d\n", WEXITSTATUS(status));
  else printf("board: perdure-boot ended, signal %d\n", WTERMSIG(status));
  off();
}
