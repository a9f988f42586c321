/*
 * Loaded into the server under test (LD_PRELOAD): the names, the addresses and the time of day around it. Lists are
 * "key=value,key=value".
 *
 *   WORLD_HOSTS   host names and their IPv4 address; there are no others
 *   WORLD_ROUTES  address:port of the world and the local port that stands for it; nothing else is there but loopback
 *   WORLD_CLOCK   the Unix second at which the time of day stands still
 *   WORLD_SKIP    a file that holds how many seconds have been skipped, for those who measure how long something takes;
 *                 "=" and milliseconds: time stands still, so long after the moment at which it was stopped
 */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int find(const char *list, const char *key, char *value, size_t size)
{
    size_t length = strlen(key);
    while (list && *list) {
        if (strncmp(list, key, length) == 0 && list[length] == '=') {
            const char *from = list + length + 1;
            size_t count = strcspn(from, ",");
            if (count >= size)
                return 0;
            memcpy(value, from, count);
            value[count] = 0;
            return 1;
        }
        list = strchr(list, ',');
        if (list)
            list++;
    }
    return 0;
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
    typedef int (*lookup)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    lookup real = (lookup)dlsym(RTLD_NEXT, "getaddrinfo");
    struct addrinfo numeric;
    char address[64];

    memset(&numeric, 0, sizeof numeric);
    if (hints)
        numeric = *hints;
    numeric.ai_flags |= AI_NUMERICHOST;
    if (node && find(getenv("WORLD_HOSTS"), node, address, sizeof address))
        node = address;
    return real(node, service, &numeric, found);
}

int connect(int fd, const struct sockaddr *to, socklen_t length)
{
    struct sockaddr_in there;
    char address[INET_ADDRSTRLEN], key[INET_ADDRSTRLEN + 8], port[16];

    if (to->sa_family == AF_INET) {
        memcpy(&there, to, sizeof there);
        inet_ntop(AF_INET, &there.sin_addr, address, sizeof address);
        snprintf(key, sizeof key, "%s:%u", address, (unsigned)ntohs(there.sin_port));
        if (find(getenv("WORLD_ROUTES"), key, port, sizeof port)) {
            there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
            there.sin_port = htons((unsigned short)atoi(port));
            return (int)syscall(SYS_connect, fd, &there, sizeof there);
        }
        if (ntohl(there.sin_addr.s_addr) >> 24 != 127) {
            errno = ECONNREFUSED;
            return -1;
        }
    } else if (to->sa_family == AF_INET6) {
        errno = ECONNREFUSED;
        return -1;
    }
    return (int)syscall(SYS_connect, fd, to, length);
}

static void skip(struct timespec *now)
{
    static _Atomic long long stopped_at;
    const char *path = getenv("WORLD_SKIP");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    long long time = now->tv_sec * 1000000000LL + now->tv_nsec, stopped = 0;
    char text[24];
    ssize_t length;

    if (file < 0)
        return;
    length = read(file, text, sizeof text - 1);
    close(file);
    text[length < 0 ? 0 : length] = 0;
    if (text[0] == '=') {
        if (!atomic_compare_exchange_strong(&stopped_at, &stopped, time))
            time = stopped;
        time += atoll(text + 1) * 1000000LL;
    } else {
        time += atoll(text) * 1000000000LL;
    }
    now->tv_sec = (time_t)(time / 1000000000LL);
    now->tv_nsec = (long)(time % 1000000000LL);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    const char *second = clock == CLOCK_REALTIME ? getenv("WORLD_CLOCK") : NULL;
    int failed;

    if (second) {
        now->tv_sec = (time_t)atoll(second);
        now->tv_nsec = 0;
        return 0;
    }
    failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && clock == CLOCK_MONOTONIC)
        skip(now);
    return failed;
}
