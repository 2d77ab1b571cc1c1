// Resolves a name every 200 ms, and prints the addresses as a line of JSON. The argument is the key.
#define _POSIX_C_SOURCE 200112L
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>

static const char host[] = "web.prod.global";

static void print(void) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list;
    int error = getaddrinfo(host, NULL, &hints, &list);
    if (error) {
        printf("\"%s\"", gai_strerror(error));
        return;
    }
    for (struct addrinfo *each = list; each; each = each->ai_next) {
        char text[INET6_ADDRSTRLEN];
        getnameinfo(each->ai_addr, each->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST);
        printf("%c\"%s\"", each == list ? '[' : ',', text);
    }
    printf("]");
    freeaddrinfo(list);
}

int main(int count, char **arguments) {
    const struct timespec pause = {.tv_nsec = 200 * 1000 * 1000};
    if (count != 2)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (;; nanosleep(&pause, NULL)) {
        printf("{\"%s\":", arguments[1]);
        print();
        printf("}\n");
    }
}
