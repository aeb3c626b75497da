/* The table for C, timed: answers a line `WHAT NANOSECONDS` by a line `ns N`, the time of one operation. Has the
 * port of a C table with intrusive counts, and beside it what that port replaced. */

#define main check_of_the_port
#define ROUNDS 0
#include "intrusive.c"
#undef main

#include <string.h>
#include <time.h>

enum { LIVE = 900, CHUNK = 256 };

static struct fdt_table *table, *plain;

/* The table before the port: an array under a lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct file *array[LIVE];

static struct file *locked_get(unsigned int fd)
{
    struct file *file = NULL;
    pthread_mutex_lock(&lock);
    if (fd < LIVE && (file = array[fd]))
        __atomic_add_fetch(&file->count, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
    return file;
}

static void put(struct file *file)
{
    CHECK(file);
    file_put(file);
}

static void acquire(int nth)
{
    put(fd_get(table, nth % 32));
}

static void locked(int nth)
{
    put(locked_get(nth % 32));
}

static void open_and_close(int nth)
{
    int fd = fdt_table_open(plain, &array[nth], 0);
    CHECK(fd == LIVE && fdt_table_close(plain, fd) == 0);
}

static const struct {
    const char *name;
    void (*act)(int nth);
} operations[] = {{"acquire", acquire}, {"locked", locked}, {"open", open_and_close}};

struct turn {
    void (*act)(int nth);
    double length, ns;
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

/* On a thread of its own, as the turns of the others are. */
static void *take_turn(void *argument)
{
    struct turn *turn = argument;
    double began = now(), passed, count = 0;
    do {
        for (int nth = 0; nth < CHUNK; nth++)
            turn->act(nth);
        count += CHUNK;
    } while ((passed = now() - began) < turn->length);
    turn->ns = passed / count;
    return NULL;
}

int main(void)
{
    char name[16];
    struct turn turn;
    pthread_t thread;
    table = fd_table_new(1024);
    plain = fdt_table_new(1024, NULL, NULL, NULL);
    CHECK(table && plain);
    for (int fd = 0; fd < LIVE; fd++) {
        CHECK((array[fd] = file_new()) && file_take(array[fd], NULL));
        CHECK(fd_install(table, array[fd], 0) == fd && fdt_table_open(plain, array[fd], 0) == fd);
    }
    while (scanf("%15s %lf", name, &turn.length) == 2) {
        turn.act = NULL;
        for (size_t nth = 0; nth < sizeof operations / sizeof *operations; nth++)
            if (!strcmp(name, operations[nth].name))
                turn.act = operations[nth].act;
        CHECK(turn.act);
        CHECK(pthread_create(&thread, NULL, take_turn, &turn) == 0 && pthread_join(thread, NULL) == 0);
        printf("ns %f\n", turn.ns);
        fflush(stdout);
    }
    return 0;
}
