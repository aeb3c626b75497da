/* Objects of a table, allocated with malloc: each is freed, at the latest when its table,
 * its thread or the process ends. The argument names a scenario. Prints which objects were
 * released and freed, and when. */

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fdtable/table.h"

enum { OBJECTS = 100 };

static atomic_int released, freed;
/* Microseconds for which the hook of a release sleeps after it has counted. */
static atomic_int release_delay;
static char user;

static void on_release(void *object, void *given)
{
    if (given == &user && object)
        released++;
    if (release_delay)
        usleep(release_delay);
}

static void on_free(void *object, void *given)
{
    if (given == &user)
        freed++;
    free(object);
}

static void say(const char *when)
{
    printf("%s: released %d, freed %d\n", when, released, freed);
    fflush(stdout);
}

static void say_refused(void)
{
    errno = 0;
    int answer = fdt_barrier();
    printf("barrier: %d, %s\n", answer, errno == EDEADLK ? "EDEADLK" : strerror(errno));
}

static struct fdt_table *new_table(void)
{
    return fdt_table_new(1024, on_release, on_free, &user);
}

static void open_all(struct fdt_table *table)
{
    for (int i = 0; i < OBJECTS; i++)
        if (fdt_table_open(table, malloc(64), 0) < 0)
            perror("open");
}

static void open_and_close_all(struct fdt_table *table)
{
    for (int i = 0; i < OBJECTS; i++)
        if (fdt_table_close(table, fdt_table_open(table, malloc(64), 0)) != 0)
            perror("close");
}

static void *on_thread(void *table)
{
    open_and_close_all(table);
    return NULL;
}

/* A thread that has used the library, and runs until the process ends. */
static atomic_int arrived;

static void *staying(void *table)
{
    if (table)
        open_and_close_all(table);
    else
        fdt_read_unlock(fdt_read_lock());
    arrived = 1;
    for (;;)
        pthread_testcancel(), usleep(1000);
    return NULL;
}

static void start_staying(void *table)
{
    pthread_t thread;
    pthread_create(&thread, NULL, staying, table);
    pthread_detach(thread);
    while (!arrived)
        usleep(100);
}

static void barrier(void)
{
    struct fdt_table *table = new_table();
    open_and_close_all(table);
    int answer = fdt_barrier();
    say(answer == 0 ? "after the barrier" : "refused");
    fdt_table_free(table);
}

static void table(void)
{
    struct fdt_table *table = new_table();
    open_and_close_all(table);
    open_all(table);
    fdt_table_free(table);
    say("after the table");
}

static void fork_(void)
{
    struct fdt_table *table = new_table(), *child;
    open_all(table);
    child = fdt_table_fork(table);
    fdt_table_free(table);
    say("after the parent");
    open_and_close_all(child);
    fdt_table_free(child);
    say("after the child");
}

static void reference(void)
{
    struct fdt_table *table = new_table();
    fdt_table_open(table, malloc(64), 0);
    struct fdt_file *file = fdt_table_get(table, 0);
    fdt_table_free(table);
    say("after the table");
    fdt_file_put(file);
    fdt_barrier();
    say("after the barrier");
}

static void thread(void)
{
    struct fdt_table *table = new_table();
    pthread_t thread;
    pthread_create(&thread, NULL, on_thread, table);
    pthread_join(thread, NULL);
    say("after the thread");
    fdt_table_free(table);
}

/* The last reference is dropped on a thread that does nothing else. */
static void *put(void *file)
{
    fdt_file_put(file);
    return NULL;
}

static void putter(void)
{
    struct fdt_table *table = new_table();
    fdt_table_open(table, malloc(64), 0);
    struct fdt_file *file = fdt_table_get(table, 0);
    fdt_table_close(table, 0);
    pthread_t thread;
    pthread_create(&thread, NULL, put, file);
    pthread_join(thread, NULL);
    say("after the thread");
    fdt_table_free(table);
}

static void section(void)
{
    struct fdt_table *table = new_table();
    open_all(table);
    struct fdt_section section = fdt_read_lock();
    fdt_table_free(table);
    say("inside");
    say_refused();
    fdt_read_unlock(section);
    fdt_barrier();
    say("after the barrier");
}

static void in_free(void *object, void *given)
{
    say_refused();
    on_free(object, given);
}

static void callback(void)
{
    struct fdt_table *table = fdt_table_new(8, on_release, in_free, &user);
    fdt_table_open(table, malloc(64), 0);
    fdt_table_free(table);
    say("after the table");
}

/* Global, so that no compiler considers it unused. */
struct fdt_table *kept;

static void main_(void)
{
    kept = new_table();
    open_and_close_all(kept);
    say("in main");
}

/* The thread that ends the process has queued no callbacks. */
static void other(void)
{
    kept = new_table();
    start_staying(kept);
    say("in main");
}

/* Stays in a section until the table has released everything, and a while longer. */
static void *reading(void *unused)
{
    struct fdt_section section = fdt_read_lock();
    arrived = 1;
    while (released < OBJECTS)
        usleep(100);
    usleep(10000);
    say("inside");
    fdt_read_unlock(section);
    return unused;
}

static void reader(void)
{
    struct fdt_table *table = new_table();
    open_all(table);
    pthread_t thread;
    pthread_create(&thread, NULL, reading, NULL);
    while (!arrived)
        usleep(100);
    fdt_table_free(table);
    say("after the table");
    pthread_join(thread, NULL);
}

/* Two threads whose sections overlap: each begins one, has an object released, and only then lets the
 * other one end its own. So there is always an object that cannot be freed yet. */
static atomic_int turn, done, closed;

static void *relay(void *place)
{
    struct fdt_table *table = kept;
    int mine = place != NULL;
    while (!done) {
        struct fdt_section section = fdt_read_lock();
        fdt_table_close(table, fdt_table_open(table, malloc(64), 0));
        /* The hook of a release runs before the object is queued: only a close that has returned
         * counts. */
        closed++;
        turn = !mine;
        while (turn != mine && !done)
            sched_yield();
        fdt_read_unlock(section);
    }
    return NULL;
}

static void relays(void)
{
    kept = new_table();
    release_delay = 50;
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, relay, NULL);
    pthread_create(&threads[1], NULL, relay, &user);
    while (closed < OBJECTS)
        usleep(100);
    int before = closed;
    /* Some that were closed before are inside of the sections of now. */
    if (fdt_barrier() == 0 && freed >= before)
        puts("the barrier has returned");
    fdt_table_free(new_table());
    puts("the table is freed");
    done = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    fdt_table_free(kept);
    fdt_barrier();
    printf("all freed: %d\n", freed == released);
}

/* A thread ends while a handler of a fork waits for its end, with the freezer frozen. */
static int end_thread[2];
static pthread_t ending;

static void *on_thread_until_told(void *table)
{
    char byte;
    open_and_close_all(table);
    arrived = 1;
    if (read(end_thread[0], &byte, 1) != 1)
        perror("read");
    return NULL;
}

static void join_ending(void)
{
    if (write(end_thread[1], "x", 1) != 1)
        perror("write");
    pthread_join(ending, NULL);
}

static void fork_and_wait(void)
{
    fflush(stdout);
    pid_t child = fork();
    int status = -1;
    if (child == 0)
        _exit(0);
    waitpid(child, &status, 0);
    printf("child: %d\n", status);
}

static void join_in_fork(void)
{
    if (pipe(end_thread) != 0)
        perror("pipe");
    /* Before the first table, so that it runs after the handler of the library. */
    pthread_atfork(join_ending, NULL, NULL);
    struct fdt_table *table = new_table();
    pthread_create(&ending, NULL, on_thread_until_told, table);
    while (!arrived)
        usleep(100);
    fork_and_wait();
    fdt_table_free(table);
    say("after the table");
}

/* A thread is cancelled while it waits for a section. */
static void *wait_until_cancelled(void *unused)
{
    arrived = 1;
    int answer = fdt_barrier();
    fdt_table_free(unused);
    printf("barrier: %d\n", answer);
    pthread_testcancel();
    return unused;
}

static void cancel(void)
{
    struct fdt_table *table = new_table();
    open_all(table);
    pthread_t thread;
    void *answer;
    struct fdt_section section = fdt_read_lock();
    fdt_table_close_range(table, 0, ~0u, 0);
    pthread_create(&thread, NULL, wait_until_cancelled, table);
    while (!arrived)
        usleep(100);
    usleep(10000);
    pthread_cancel(thread);
    usleep(10000);
    fdt_read_unlock(section);
    pthread_join(thread, &answer);
    puts(answer == PTHREAD_CANCELED ? "cancelled after it" : "not cancelled");
    say("after the table");
}

/* Objects that hold the only reference to another. */
static void put_next(void *object, void *given)
{
    struct fdt_file *next = *(struct fdt_file **)object;
    on_free(object, given);
    fdt_file_put(next);
}

static struct fdt_file *new_chain(struct fdt_table *table, int length)
{
    struct fdt_file *next = NULL;
    for (int i = 0; i < length; i++) {
        struct fdt_file **object = malloc(64);
        *object = next;
        int fd = fdt_table_open(table, object, 0);
        next = fdt_table_get(table, fd);
        fdt_table_close(table, fd);
    }
    return next;
}

static void chain(void)
{
    struct fdt_table *table = fdt_table_new(8, on_release, put_next, &user);
    struct fdt_file *first = new_chain(table, 4);
    pthread_t thread;
    pthread_create(&thread, NULL, put, first);
    pthread_join(thread, NULL);
    say("after the thread");
    fdt_table_free(table);
}

static void at_end(void)
{
    say("at the end");
}

int main(int count, char **arguments)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } scenarios[] = {
        {"barrier", barrier}, {"table", table},   {"fork", fork_},       {"reference", reference},
        {"thread", thread},   {"putter", putter}, {"section", section}, {"callback", callback},
        {"main", main_},      {"other", other},   {"reader", reader},
        {"relays", relays},   {"cancel", cancel}, {"chain", chain},
        {"join in fork", join_in_fork},
    };
    /* A scenario that hangs ends by this signal. */
    alarm(120);
    /* Registered before the first table is created, so that it runs after the library's own exit
     * handler. */
    atexit(at_end);
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        if (count == 2 && strcmp(arguments[1], scenarios[i].name) == 0) {
            scenarios[i].run();
            return 0;
        }
    }
    return 1;
}
