/* Both headers in one source, with the system's after them. */
#ifndef __cplusplus
/* In C++ a system header that comes later would declare the same functions as not throwing. */
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

/* A name that the headers above do not know is the program's, also if it is one of a call. */
static int (*const calls[])(const char *, int, ...) = {open};

int main(void) {
    struct stat status;
    int (*describe)(const char *, struct stat *) = stat;
    return calls[0]("/fdt", 0) + describe("/fdt", &status);
}
