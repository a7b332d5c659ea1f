/* A service manager's ear: prints every datagram that comes to the Unix socket, a line each. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

int main(int count, char **words) {
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  int ear = socket(AF_UNIX, SOCK_DGRAM, 0);
  if (count != 2 || ear < 0 || strlen(words[1]) >= sizeof at.sun_path) return 1;
  memcpy(at.sun_path, words[1], strlen(words[1]) + 1);
  if (bind(ear, (const struct sockaddr *)&at, sizeof at) != 0) return 1;
  puts("listening");
  for (;;) {
    fflush(stdout);
    char text[2048];
    ssize_t length = recv(ear, text, sizeof text - 1, 0);
    if (length < 0) return 1;
    text[length] = '\0';
    for (char *end; (end = strchr(text, '\n')) != NULL;) *end = ';';
    puts(text);
  }
}
