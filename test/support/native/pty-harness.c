/*
 * A serial line: prints the path of one end of a pseudo terminal, and carries bytes between the
 * other end and stdin and stdout.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

/* Moves what is there; false at the end of the source. */
static int carry(int from, int to) {
  char bytes[1024];
  ssize_t length = read(from, bytes, sizeof bytes);
  return length > 0 && write(to, bytes, (size_t)length) == length;
}

int main(void) {
  int line = posix_openpt(O_RDWR | O_NOCTTY);
  if (line < 0 || grantpt(line) != 0 || unlockpt(line) != 0) return 1;
  /* Held open, so that the line survives whoever comes and goes; raw, as a cable is. */
  int other = open(ptsname(line), O_RDWR | O_NOCTTY);
  struct termios settings;
  if (other < 0 || tcgetattr(other, &settings) != 0) return 1;
  cfmakeraw(&settings);
  tcsetattr(other, TCSANOW, &settings);
  printf("%s\n", ptsname(line));
  fflush(stdout);
  for (;;) {
    struct pollfd places[] = {{STDIN_FILENO, POLLIN, 0}, {line, POLLIN, 0}};
    if (poll(places, 2, -1) < 0) return 1;
    if (places[0].revents != 0 && !carry(STDIN_FILENO, line)) return 0;
    if (places[1].revents != 0 && !carry(line, STDOUT_FILENO)) return 1;
  }
}
