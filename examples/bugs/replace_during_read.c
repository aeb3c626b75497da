/* A new file takes the place of one from which a thread reads: the read goes on with the old one. */
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

static int ends[2];

static void *read_one(void *unused)
{
    char byte;
    read(ends[0], &byte, 1);
    return unused;
}

static void reopen(void)
{
    int fd = open("/dev/null", O_RDONLY);
    dup2(fd, ends[0]);
    close(fd);
}

int main(void)
{
    pthread_t reader;
    pipe(ends);
    pthread_create(&reader, 0, read_one, 0);
    usleep(200000);
    reopen();
    close(ends[1]);
    pthread_join(reader, 0);
    close(ends[0]);
    return 0;
}
