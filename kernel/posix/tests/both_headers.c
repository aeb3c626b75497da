/* Includes both headers in one source, followed by system headers. */
#ifndef __cplusplus
/* In C++ the system headers would declare the same functions as noexcept. */
#include <fdtable.h>
#endif
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <utime.h>

/* A name of a call that the headers above do not declare stays a name of the program. */
static int (*const calls[])(const char *, int, ...) = {open};

int main(void) {
    struct stat status;
    int (*describe)(const char *, struct stat *) = stat;
    return calls[0]("/fdt", 0) + describe("/fdt", &status);
}
