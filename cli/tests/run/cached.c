/* Two processes hold files of an overlay, and a third one, with as many threads as the second
   argument says, reads them all. The first argument is the directory. */

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EACH = 150, ALL = 2 * EACH };

static const char *directory;
static volatile int *held;

/* Opens a file. Returns -1 unless it has its number in it. */
static int opened(int number) {
    char path[4096], bytes[16] = {0};
    snprintf(path, sizeof path, "%s/%d", directory, number);
    int fd = open(path, O_RDONLY);
    if (fd < 0 || read(fd, bytes, sizeof bytes - 1) <= 0 || atoi(bytes) != number)
        return close(fd), -1;
    return fd;
}

static void *read_all(void *first) {
    long failed = 0;
    for (int i = 0; i < ALL; i++) {
        int fd = opened(((long)first + i) % ALL), other = open("/bin/sh", O_RDONLY);
        failed += fd < 0 || other < 0;
        close(fd);
        close(other);
    }
    return (void *)failed;
}

int main(int count, char **words) {
    int threads = atoi(words[2]);
    directory = words[1];
    held = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t holders[2];
    for (int i = 0; i < 2; i++) {
        holders[i] = fork();
        if (holders[i] == 0) {
            int right = 0;
            for (int j = 0; j < EACH; j++)
                right += opened(i * EACH + j) >= 0;
            held[i] = right;
            pause();
        }
    }
    while (held[0] == 0 || held[1] == 0)
        usleep(1000);
    printf("held: %d %d\n", held[0], held[1]);
    pthread_t others[8];
    for (long i = 1; i < threads; i++)
        pthread_create(&others[i], NULL, read_all, (void *)(i * 50));
    long failed = (long)read_all(NULL);
    for (int i = 1; i < threads; i++) {
        void *more;
        pthread_join(others[i], &more);
        failed += (long)more;
    }
    printf("failed: %ld\n", failed);
    for (int i = 0; i < 2; i++)
        kill(holders[i], SIGKILL), waitpid(holders[i], NULL, 0);
    return 0;
}
