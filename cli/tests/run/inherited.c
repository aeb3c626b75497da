/* A file of the host that a process with the same table has opened, which has ended: its record lock
   stays, and it can be a member of an epoll. Then a thread opens and closes files of the host while
   another one forks: a child has each whole, or not at all. The arguments are two paths, the second
   one of a FIFO. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FORKS = 150 };

static volatile int *shared;
static volatile int ends;

static void *opens_and_closes(void *unused) {
    while (!ends)
        close(open("/bin/sh", O_RDONLY));
    return unused;
}

int main(int count, char **words) {
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t opener = syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
    if (opener == 0) {
        shared[0] = open(words[1], O_RDWR | O_CREAT, 0600);
        shared[1] = open(words[2], O_RDWR);
        _exit(0);
    }
    waitpid(opener, NULL, 0);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int locks = fcntl(shared[0], F_SETLK, &lock);
    pid_t other = fork();
    if (other == 0) {
        fcntl(shared[0], F_GETLK, &lock);
        _exit(lock.l_type);
    }
    int seen;
    waitpid(other, &seen, 0);
    printf("lock: %d, seen: %d\n", locks, WEXITSTATUS(seen) == F_WRLCK);

    struct epoll_event event = {.events = EPOLLIN};
    int epoll = epoll_create1(0);
    int added = epoll_ctl(epoll, EPOLL_CTL_ADD, shared[1], &event);
    int more = open("/bin/sh", O_RDONLY); // may get a number that was closed
    int changed = epoll_ctl(epoll, EPOLL_CTL_MOD, shared[1], &event);
    int removed = epoll_ctl(epoll, EPOLL_CTL_DEL, shared[1], &event);
    printf("added: %d, changed: %d, removed: %d\n", added, changed, removed);
    close(more);

    pthread_t thread;
    pthread_create(&thread, NULL, opens_and_closes, NULL);
    shared[2] = 0;
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        if (child == 0) {
            struct stat stat;
            for (int fd = 3; fd < 12; fd++)
                shared[2] += fcntl(fd, F_GETFD) >= 0 && fstat(fd, &stat) < 0;
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    ends = 1;
    pthread_join(thread, NULL);
    printf("broken: %d\n", shared[2]);
    return 0;
}
