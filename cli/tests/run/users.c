/* Threads change their user together: the C library interrupts each by a signal of its own. In the
   first process with a thread, in its child, and in one that had threads before. */

#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int ends[2];

static void *reads(void *unused) {
    char byte;
    read(ends[0], &byte, 1);
    return unused;
}

static void change(const char *name) {
    pthread_t reader;
    pipe(ends);
    pthread_create(&reader, NULL, reads, NULL);
    usleep(20000);
    printf("%s: %d\n", name, setuid(getuid()));
    fflush(stdout);
    write(ends[1], "!", 1);
    pthread_join(reader, NULL);
}

static void in_child(const char *name) {
    int status;
    if (fork() == 0) {
        change(name);
        _exit(0);
    }
    wait(&status);
    printf("status %x\n", status);
    fflush(stdout);
}

int main(void) {
    in_child("a child");
    change("the parent");
    change("the parent again");
    in_child("a child of one with threads");
    return 0;
}
