#include "service/service.h"

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "hal.h"
#include "service/log.h"
#include "service/notify.h"

#define NEVER UINT64_MAX

/* Turns of a busy loop between two looks at console and signals. */
#define TURNS 64

/*
 * How long the firmware's lazy work may be put off by frames that keep coming, µs: an `idle` that
 * is wanted as soon as no frame waits. It is tidying up: what a peer waits for, every burst does.
 */
#define PUT_OFF_US 10000

/*
 * How long no frame must have come before it, µs: it takes some hundred microseconds, in which the
 * next frame would have to wait.
 */
#define QUIET_US 1000

/* Frames that answer one frame, at most: that it has come, and that it is durable. */
#define ANSWERS 2

/* Time that the firmware gets for its lazy work when the service ends, µs; as in the emulator. */
#define FAREWELL_US 20000

/* From one look at a link that is down, or flooded, to the next. */
#define WATCH_US 1000000

/*
 * No time is below it. QuickJS has whole numbers of 32 bits, and floats beyond: the first 35
 * minutes of a machine would be of another kind to the translated firmware than all that follow.
 */
#define CLOCK_FROM_US (UINT64_C(1) << 32)

uint64_t service_now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return CLOCK_FROM_US + (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

int service_signals(void) {
  sigset_t taken;
  sigemptyset(&taken);
  sigaddset(&taken, SIGTERM);
  sigaddset(&taken, SIGINT);
  sigaddset(&taken, SERVICE_CONFIRMED);
  sigprocmask(SIG_BLOCK, &taken, NULL);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  return signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
}

static uint64_t sooner(uint64_t one, uint64_t other) {
  return one < other ? one : other;
}

/*
 * Takes down what a call of the firmware, for so many frames, asked for; false if it has stopped.
 * One that sent more than answers is in the middle of something that a peer waits for, a long READ
 * for one: it goes on at once.
 */
static bool took(struct service *service, double wanted, uint32_t frames, uint64_t now_us) {
  links_flush(service->links);
  machine_tell_end(service->machine, (double)service_now_us());
  uint64_t sent = links_sum(service->links).sent - service->sent;
  service->sent += sent;
  if (wanted < 0) return false;
  if (wanted > 1) {
    uint64_t within = wanted < 1e15 ? (uint64_t)ceil(wanted) : (uint64_t)1e15;
    service->idle_us = sooner(service->idle_us, now_us + within);
  } else if (wanted > 0) {
    service->lazy_latest_us = sooner(service->lazy_latest_us, now_us + PUT_OFF_US);
  }
  /* What was wanted before is still to be done: the quiet begins again. */
  if (service->lazy_latest_us == NEVER) return true;
  service->lazy_us = sent > (uint64_t)ANSWERS * frames ? now_us : now_us + QUIET_US;
  return true;
}

static bool serve_burst(struct service *service, uint32_t count, uint64_t now_us) {
  service->bursts++;
  service->frames += count;
  tags_judge(&service->machine->tags, service->machine->packets, count);
  trace_call(&service->machine->trace, service->machine->packets, count, now_us);
  machine_tell_health(service->machine);
  return took(service, engine_serve(service->engine, count, (double)now_us), count, now_us);
}

static bool idle(struct service *service, uint64_t now_us) {
  service->idle_calls++;
  service->idle_us = service->lazy_us = service->lazy_latest_us = NEVER;
  trace_call(&service->machine->trace, service->machine->packets, 0, now_us);
  machine_tell_health(service->machine);
  return took(service, engine_idle(service->engine, (double)now_us), 0, now_us);
}

static void take_signal(struct service *service) {
  struct signalfd_siginfo signal;
  if (read(service->signals, &signal, sizeof signal) != sizeof signal) return;
  if (signal.ssi_signo == SERVICE_CONFIRMED) {
    service->machine->on_trial = false;
  } else {
    service->stopping = true;
  }
}

/*
 * Looks after signals and console; waits at most `wait_us` for these or for a frame.
 */
static void look(struct service *service, uint64_t wait_us) {
  struct pollfd places[2 + LINKS_MAX + CONSOLE_CONNECTIONS];
  struct links *links = service->links;
  places[0] = (struct pollfd){service->signals, POLLIN, 0};
  int console = 1 + links_watch(links, places + 1);
  if (links_gone(links)) return;
  if (links_watchful(links)) wait_us = sooner(wait_us, WATCH_US);
  int count = console + console_watch(service->console, places + console);
  struct timespec wait = {(time_t)(wait_us / 1000000u), (long)(wait_us % 1000000u) * 1000};
  int found = ppoll(places, (nfds_t)count, wait_us == NEVER ? NULL : &wait, NULL);
  if (found <= 0) return;
  if (places[0].revents != 0) take_signal(service);
  for (int i = console; i < count; i++) {
    if (places[i].revents == 0) continue;
    console_serve(service->console, service_answer, service);
    break;
  }
}

/* The lazy work that is left, for a moment. */
static bool farewell(struct service *service) {
  uint64_t now_us = service_now_us(), end_us = now_us + FAREWELL_US;
  while (service->lazy_us != NEVER && now_us < end_us) {
    if (!idle(service, now_us)) return false;
    now_us = service_now_us();
  }
  return true;
}

static bool is_idle_due(const struct service *service, bool frames, uint64_t now_us) {
  return now_us >= service->idle_us || now_us >= service->lazy_latest_us ||
         (!frames && now_us >= service->lazy_us);
}

bool service_run(struct service *service) {
  struct links *links = service->links;
  uint64_t watchdog_us = notify_watchdog_us();
  uint64_t sign_us = watchdog_us == 0 ? NEVER : service->started_us;
  unsigned turns = 0;
  bool spins = service->config->spin;
  service->idle_us = NEVER;
  service->lazy_us = service->lazy_latest_us = service_now_us();
  health_begin(&service->health, service->started_us);
  while (!service->stopping && !links_gone(links)) {
    int count = links_receive(links, service->machine->packets);
    uint64_t now_us = service_now_us();
    if (count > 0 && !serve_burst(service, (uint32_t)count, now_us)) return false;
    if (is_idle_due(service, count > 0, now_us) && !idle(service, now_us)) return false;
    bool has_rung = service->port != NULL && port_look(service->port, now_us);
    if (has_rung && !serve_burst(service, 0, now_us)) return false;
    if (!health_look(&service->health, now_us)) return false;
    if (now_us >= sign_us) {
      notify("WATCHDOG=1");
      sign_us = now_us + watchdog_us;
    }
    if (++turns % TURNS == 0) look(service, 0);
    /* Fewer frames than there are places: that were all. A frame that comes now ends the wait. */
    if (count == HAL_BURST_FRAMES || spins || service->stopping || links_gone(links)) continue;
    uint64_t until_us = sooner(sooner(service->idle_us, service->lazy_us), sign_us);
    until_us = sooner(until_us, console_retry(service->console, now_us));
    until_us = sooner(until_us, health_due(&service->health));
    if (service->port != NULL) until_us = sooner(until_us, port_look_at_us(service->port, now_us));
    if (until_us <= now_us) continue;
    look(service, until_us == NEVER ? NEVER : until_us - now_us);
  }
  notify("STOPPING=1");
  return farewell(service);
}
