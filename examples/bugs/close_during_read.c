/* A thread is stopped by closing what it reads from: the read goes on, and its number is reused. */
#include <pthread.h>
#include <unistd.h>

static int ends[2];

static void *read_all(void *unused)
{
    char byte;
    while (read(ends[0], &byte, 1) == 1)
        ;
    return unused;
}

static void stop(void)
{
    close(ends[0]);
}

int main(void)
{
    pthread_t reader;
    pipe(ends);
    pthread_create(&reader, 0, read_all, 0);
    usleep(200000);
    stop();
    close(ends[1]);
    pthread_join(reader, 0);
    return 0;
}
