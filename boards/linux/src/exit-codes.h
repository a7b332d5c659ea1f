/* Exit codes, those of sysexits(3), and the least that each tells a service manager. */
#ifndef PERDURE_EXIT_CODES_H
#define PERDURE_EXIT_CODES_H

enum exit_code {
  EXIT_OK = 0,           /* told to stop, and stopped */
  EXIT_USAGE = 64,       /* the command line makes no sense */
  EXIT_UNTRUSTED = 65,   /* the bundle is not signed by the key that is trusted */
  EXIT_NO_FILE = 66,     /* the bundle, its signature, a key or the peers file is not there */
  EXIT_UNAVAILABLE = 69, /* memory, link, window or console cannot be had */
  EXIT_FIRMWARE = 70,    /* the firmware did not start, or stopped: a bug of ours */
  EXIT_SYSTEM = 71,      /* the system has no memory, no descriptors, no entropy */
  EXIT_PRIVILEGE = 77,   /* this process may not become the user that is named */
  EXIT_CONFIG = 78,      /* the configuration is wrong */
};

#endif
