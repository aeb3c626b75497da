/* Includes the header before the system's, or after them. */
#ifndef AFTER
#include <fdtable-posix.h>
#endif
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>
#include <utime.h>
#ifdef AFTER
#include <fdtable-posix.h>
#endif

/* The structs are the system's. */
int main(void) {
    struct stat status;
    struct timespec times[2] = {{0, 0}, {0, 0}};
    return fdt_stat("/fdt", &status) + fdt_utimensat(0, "/fdt", times, 0);
}
