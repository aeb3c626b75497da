/* What a table does at given descriptors, with data of descriptors, and with private
 * descriptors. Ends with an error message and the line of the first check that fails. Objects are
 * allocated with malloc: each is freed once, by the table, or here after an open that failed. */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fdtable/table.h"

static atomic_int made, released, freed;
static char user;

#define CHECK(holds)                                                        \
    do {                                                                    \
        if (!(holds)) {                                                     \
            fprintf(stderr, "line %d: %s, errno %d\n", __LINE__, #holds, errno); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

/* The call fails with this error. */
#define FAILS(call, error) CHECK((errno = 0, (call) == -1) && errno == (error))

/* The call returns null or 0, and fails with this error. */
#define NONE_FAILS(call, error) CHECK((errno = 0, !(call)) && errno == (error))

static void on_release(void *object, void *given)
{
    CHECK(given == &user && object);
    released++;
}

static void on_free(void *object, void *given)
{
    CHECK(given == &user);
    freed++;
    free(object);
}

static int *object(int number)
{
    int *new = malloc(sizeof *new);
    CHECK(new);
    *new = number;
    made++;
    return new;
}

/* Frees an object that could not be opened, and still belongs to the caller. */
static void refused(int *object)
{
    made--;
    free(object);
}

/* The number of the object of a reference, which is put; -1 for none. */
static int put(struct fdt_file *file)
{
    if (!file)
        return -1;
    int number = *(int *)fdt_file_object(file);
    fdt_file_put(file);
    return number;
}

static int at(const struct fdt_table *table, int fd)
{
    return put(fdt_table_get(table, fd));
}

static struct fdt_table *new_table(void)
{
    struct fdt_table *table = fdt_table_new(100, on_release, on_free, &user);
    CHECK(table);
    return table;
}

static const struct fdt_data ALL = {.flags = FD_CLOEXEC, .word = UINT64_MAX - 1};
static const struct fdt_data UNKNOWN = {.flags = 2};

static int same(struct fdt_data one, struct fdt_data other)
{
    return one.flags == other.flags && one.word == other.word;
}

static struct fdt_data data_at(const struct fdt_table *table, int fd)
{
    struct fdt_data data = {.flags = 7};
    CHECK(put(fdt_table_get_data(table, fd, &data)) >= 0);
    return data;
}

static const struct fdt_data NONE;

static void open_with_data(void)
{
    struct fdt_table *table = new_table();
    CHECK(fdt_table_open_data(table, object(1), &ALL) == 0);
    CHECK(fdt_table_open_data(table, object(2), NULL) == 1);
    CHECK(same(data_at(table, 0), ALL) && same(data_at(table, 1), NONE));
    CHECK(fdt_table_get_flags(table, 0) == FD_CLOEXEC);
    /* A copy has its own. */
    CHECK(fdt_table_dup(table, 0) == 2 && same(data_at(table, 2), NONE));
    struct fdt_file *file = fdt_table_get(table, 0);
    CHECK(fdt_table_open_file(table, file, &ALL) == 3 && same(data_at(table, 3), ALL));
    CHECK(put(file) == 1);

    int *mine = object(3);
    FAILS(fdt_table_open_data(table, mine, &UNKNOWN), EINVAL);
    CHECK(fdt_table_set_limit(table, 4) == 0);
    FAILS(fdt_table_open_data(table, mine, &ALL), EMFILE);
    FAILS(fdt_table_open_data(table, mine, (struct fdt_data *)1), EFAULT);
    FAILS(fdt_table_open_data(NULL, mine, NULL), EFAULT);
    refused(mine);
    errno = 0;
    CHECK(!fdt_table_get_data(table, 9, &(struct fdt_data){0}) && errno == EBADF);
    CHECK(!fdt_table_get_data(table, 0, NULL) && errno == EFAULT);
    FAILS(fdt_table_open_file(table, NULL, NULL), EFAULT);
    fdt_table_free(table);
}

static void words(void)
{
    struct fdt_table *table = new_table();
    uint64_t word = 9;
    CHECK(fdt_table_open(table, object(1), 0) == 0);
    CHECK(fdt_table_set_word(table, 0, 7, &word) == 0 && word == 0);
    CHECK(fdt_table_set_word(table, 0, 8, NULL) == 0);
    word = 7;
    CHECK(fdt_table_exchange_word(table, 0, &word, 1) == 0 && word == 8);
    CHECK(fdt_table_exchange_word(table, 0, &word, 1) == 1 && word == 8);
    CHECK(same(data_at(table, 0), (struct fdt_data){.word = 1}));
    FAILS(fdt_table_set_word(table, 1, 7, NULL), EBADF);
    FAILS(fdt_table_set_word(table, 0, 7, (uint64_t *)1), EFAULT);
    FAILS(fdt_table_exchange_word(table, 1, &word, 7), EBADF);
    FAILS(fdt_table_exchange_word(table, 0, NULL, 7), EFAULT);
    CHECK(data_at(table, 0).word == 1);
    fdt_table_free(table);
}

static void replace(void)
{
    struct fdt_table *table = new_table();
    struct fdt_file *was = (struct fdt_file *)&user;
    struct fdt_data data = ALL;
    CHECK(fdt_table_replace(table, 7, object(1), &ALL, &was, &data) == 0);
    CHECK(!was && same(data, NONE));
    CHECK(fdt_table_replace(table, 7, object(2), NULL, &was, &data) == 0);
    CHECK(put(was) == 1 && same(data, ALL));
    CHECK(at(table, 7) == 2 && same(data_at(table, 7), NONE));
    int before = released;
    CHECK(fdt_table_replace(table, 7, object(3), NULL, NULL, NULL) == 0);
    CHECK(released == before + 1);

    int *mine = object(4);
    was = (struct fdt_file *)&user;
    FAILS(fdt_table_replace(table, -1, mine, NULL, &was, &data), EBADF);
    FAILS(fdt_table_replace(table, 100, mine, NULL, &was, &data), EBADF);
    FAILS(fdt_table_replace(table, 7, mine, &UNKNOWN, &was, &data), EINVAL);
    FAILS(fdt_table_replace(table, 7, mine, NULL, (struct fdt_file **)1, &data), EFAULT);
    struct fdt_reservation reservation;
    CHECK(fdt_table_reserve(table, 0, &reservation) == 0);
    FAILS(fdt_table_replace(table, 0, mine, NULL, &was, &data), EBUSY);
    CHECK(was == (struct fdt_file *)&user && same(data, ALL) && at(table, 7) == 3);
    fdt_table_cancel(&reservation);
    refused(mine);
    fdt_table_free(table);
}

static void open_at_a_free_descriptor(void)
{
    struct fdt_table *table = new_table();
    CHECK(fdt_table_open_at(table, 9, object(1), &ALL) == 0);
    CHECK(at(table, 9) == 1 && same(data_at(table, 9), ALL));
    int *mine = object(2);
    FAILS(fdt_table_open_at(table, 9, mine, NULL), EEXIST);
    FAILS(fdt_table_open_at(table, INT_MIN, mine, NULL), EBADF);
    FAILS(fdt_table_open_at(table, 8, mine, &UNKNOWN), EINVAL);
    refused(mine);
    CHECK(at(table, 9) == 1 && at(table, 8) == -1);
    fdt_table_free(table);
}

static void if_expected(void)
{
    struct fdt_table *table = new_table();
    struct fdt_data data;
    fdt_table_open_data(table, object(1), &ALL);
    struct fdt_file *first = fdt_table_get(table, 0);
    CHECK(fdt_table_replace_if(table, 0, first, object(2), NULL, &data) == 0);
    CHECK(same(data, ALL) && at(table, 0) == 2);
    int *mine = object(3);
    FAILS(fdt_table_replace_if(table, 0, first, mine, NULL, NULL), ESTALE);
    FAILS(fdt_table_replace_if(table, 1, first, mine, NULL, NULL), EBADF);
    FAILS(fdt_table_replace_if(table, 0, NULL, mine, NULL, NULL), EFAULT);
    FAILS(fdt_table_replace_if(table, 0, first, mine, &UNKNOWN, NULL), EINVAL);
    refused(mine);
    FAILS(fdt_table_close_if(table, 0, first, NULL), ESTALE);
    FAILS(fdt_table_close_if(table, 1, first, NULL), EBADF);
    FAILS(fdt_table_close_if(table, 0, NULL, NULL), EFAULT);
    struct fdt_file *second = fdt_table_get(table, 0);
    fdt_table_set_word(table, 0, 5, NULL);
    CHECK(fdt_table_close_if(table, 0, second, &data) == 0 && data.word == 5);
    CHECK(at(table, 0) == -1);
    CHECK(put(first) == 1 && put(second) == 2);
    fdt_table_free(table);
}

static void rename_(void)
{
    struct fdt_table *table = new_table();
    struct fdt_file *was;
    struct fdt_data data;
    fdt_table_open_data(table, object(1), &ALL);
    CHECK(fdt_table_rename(table, 0, 70, &was, &data) == 0 && !was);
    CHECK(at(table, 0) == -1 && at(table, 70) == 1 && same(data_at(table, 70), ALL));
    CHECK(fdt_table_rename(table, 70, 70, &was, NULL) == 0 && !was && at(table, 70) == 1);
    fdt_table_open_data(table, object(2), &(struct fdt_data){.word = 2});
    CHECK(fdt_table_rename(table, 70, 0, &was, &data) == 0 && data.word == 2);
    CHECK(put(was) == 2 && at(table, 0) == 1 && at(table, 70) == -1);
    FAILS(fdt_table_rename(table, 5, 0, &was, &data), EBADF);
    FAILS(fdt_table_rename(table, 0, 100, &was, &data), EBADF);
    FAILS(fdt_table_rename(table, 0, -1, NULL, NULL), EBADF);
    struct fdt_reservation reservation;
    int reserved = fdt_table_reserve(table, 0, &reservation);
    FAILS(fdt_table_rename(table, 0, reserved, NULL, NULL), EBUSY);
    fdt_table_cancel(&reservation);
    CHECK(at(table, 0) == 1);
    fdt_table_free(table);
}

/* A cleanup cancels what may have been installed, or never reserved. */
static void cancel_after_use(void)
{
    struct fdt_table *table = new_table();
    struct fdt_reservation reservation, zero = {0};
    CHECK(fdt_table_reserve(table, 0, &reservation) == 0);
    CHECK(fdt_table_install(table, &reservation, object(1)) == 0);
    errno = ESTALE;
    fdt_table_cancel(&reservation);
    fdt_table_cancel(&zero);
    CHECK(errno == ESTALE && at(table, 0) == 1);
    CHECK(fdt_table_reserve(table, 0, &reservation) == 1);
    fdt_table_cancel(&reservation);
    fdt_table_cancel(&reservation);
    memset(&reservation, 0x5a, sizeof reservation);
    FAILS(fdt_table_reserve(table, ~0u, &reservation), EINVAL);
    fdt_table_cancel(&reservation);
    CHECK(fdt_table_reserve(table, 0, &reservation) == 1);
    fdt_table_cancel(&reservation);
    fdt_table_free(table);
}

static void close_with_data(void)
{
    struct fdt_table *table = new_table();
    struct fdt_file *file;
    struct fdt_data data;
    fdt_table_open_data(table, object(1), &ALL);
    CHECK(fdt_table_close_data(table, 0, &file, &data) == 0 && same(data, ALL));
    CHECK(at(table, 0) == -1);
    int before = released;
    CHECK(put(file) == 1 && released == before + 1);
    fdt_table_open(table, object(2), 0);
    CHECK(fdt_table_close_data(table, 0, NULL, NULL) == 0 && released == before + 2);
    FAILS(fdt_table_close_data(table, 0, &file, &data), EBADF);
    fdt_table_free(table);
}

static void iterate(void)
{
    struct fdt_table *table = new_table();
    struct fdt_file *file;
    struct fdt_data data;
    int seen = 0;
    for (int fd = 0; fd < 90; fd += 10)
        fdt_table_open_at(table, fd, object(fd), &(struct fdt_data){.word = fd + 1});
    for (int fd = 0; (fd = fdt_table_next(table, fd, &file, &data)) >= 0; fd++, seen++)
        CHECK(fd == 10 * seen && put(file) == fd && data.word == (uint64_t)fd + 1);
    CHECK(seen == 9);
    errno = 0;
    CHECK(fdt_table_next(table, 81, &file, &data) == -1 && errno == 0);
    CHECK(fdt_table_next(table, -1, NULL, NULL) == 0);
    FAILS(fdt_table_next(table, 0, (struct fdt_file **)1, NULL), EFAULT);
    /* A child has the data of its parent, and exec closes by the flag. */
    CHECK(fdt_table_set_flags(table, 10, FD_CLOEXEC) == 0);
    struct fdt_table *child = fdt_table_fork(table);
    CHECK(fdt_table_exec(child) == 0 && fdt_table_next(child, 1, NULL, &data) == 20);
    CHECK(data.word == 21 && data_at(table, 10).word == 11);
    fdt_table_free(child);
    fdt_table_free(table);
}

struct completion {
    struct fdt_table *table;
    struct fdt_reservation reservation;
};

static void *complete(void *given)
{
    struct completion *it = given;
    CHECK(fdt_table_install_data(it->table, &it->reservation, object(1), &ALL) == 0);
    return NULL;
}

static void reservations(void)
{
    struct completion it = {.table = new_table()};
    CHECK(fdt_table_reserve(it.table, 0, &it.reservation) == 0);
    int *mine = object(2);
    FAILS(fdt_table_install_data(it.table, &it.reservation, mine, &UNKNOWN), EINVAL);
    refused(mine);
    /* It is still reserved, and another thread installs it. */
    pthread_t thread;
    pthread_create(&thread, NULL, complete, &it);
    pthread_join(thread, NULL);
    CHECK(at(it.table, 0) == 1 && same(data_at(it.table, 0), ALL));
    fdt_table_free(it.table);
}

static void private(void)
{
    struct fdt_private *private = fdt_private_new(2, on_release, on_free, &user);
    struct fdt_table *table = new_table();
    uint64_t first = fdt_private_open(private, object(1));
    CHECK(first != 0 && first != UINT64_MAX);
    CHECK(put(fdt_private_get(private, first)) == 1);
    CHECK(fdt_private_close(private, first) == 0);
    FAILS(fdt_private_close(private, first), EBADF);
    uint64_t second = fdt_private_open(private, object(2));
    CHECK(second != 0 && second != first);
    errno = 0;
    CHECK(!fdt_private_get(private, first) && errno == EBADF);
    CHECK(!fdt_private_get(NULL, first) && errno == EFAULT);
    /* From one table to the other, and back. */
    struct fdt_file *file = fdt_private_get(private, second);
    CHECK(fdt_table_open_file(table, file, NULL) == 0 && at(table, 0) == 2);
    CHECK(fdt_private_open_file(private, file) != 0);
    int *mine = object(3);
    CHECK(fdt_private_open(private, mine) == 0 && errno == EMFILE);
    CHECK(fdt_private_open_file(private, file) == 0 && errno == EMFILE);
    refused(mine);
    CHECK(put(file) == 2);
    fdt_table_free(table);
    int before = released;
    fdt_private_free(private);
    CHECK(released == before + 1);
    fdt_private_free(NULL);
}

/* Where a pointer is required, null is EFAULT, and where nothing can be returned it is ignored. */
static void nulls(void)
{
    struct fdt_table *table = new_table();
    struct fdt_private *private = fdt_private_new(2, on_release, on_free, &user);
    struct fdt_reservation reservation;
    struct fdt_section section;
    struct fdt_data data;
    uint64_t word = 0;
    int *mine = object(1);
    FAILS(fdt_table_open(NULL, mine, 0), EFAULT);
    NONE_FAILS(fdt_table_get(NULL, 0), EFAULT);
    FAILS(fdt_table_close(NULL, 0), EFAULT);
    FAILS(fdt_table_close_range(NULL, 0, 1, 0), EFAULT);
    FAILS(fdt_table_dup(NULL, 0), EFAULT);
    FAILS(fdt_table_dup2(NULL, 0, 1), EFAULT);
    FAILS(fdt_table_dup3(NULL, 0, 1, 0), EFAULT);
    FAILS(fdt_table_get_flags(NULL, 0), EFAULT);
    FAILS(fdt_table_set_flags(NULL, 0, 0), EFAULT);
    FAILS(fdt_table_reserve(NULL, 0, &reservation), EFAULT);
    FAILS(fdt_table_reserve(table, 0, NULL), EFAULT);
    NONE_FAILS(fdt_table_fork(NULL), EFAULT);
    FAILS(fdt_table_exec(NULL), EFAULT);
    FAILS(fdt_table_set_limit(NULL, 1), EFAULT);
    FAILS(fdt_table_replace(NULL, 0, mine, NULL, NULL, NULL), EFAULT);
    FAILS(fdt_table_open_at(NULL, 0, mine, NULL), EFAULT);
    FAILS(fdt_table_rename(NULL, 0, 1, NULL, NULL), EFAULT);
    FAILS(fdt_table_open_data(NULL, mine, NULL), EFAULT);
    NONE_FAILS(fdt_table_get_data(NULL, 0, &data), EFAULT);
    NONE_FAILS(fdt_table_get_data(table, 0, NULL), EFAULT);
    FAILS(fdt_table_set_word(NULL, 0, 1, NULL), EFAULT);
    FAILS(fdt_table_exchange_word(NULL, 0, &word, 1), EFAULT);
    FAILS(fdt_table_exchange_word(table, 0, NULL, 1), EFAULT);
    FAILS(fdt_table_close_data(NULL, 0, NULL, NULL), EFAULT);
    FAILS(fdt_table_next(NULL, 0, NULL, NULL), EFAULT);

    NONE_FAILS(fdt_file_clone(NULL), EFAULT);
    NONE_FAILS(fdt_file_object(NULL), EFAULT);
    CHECK(fdt_table_open(table, object(2), 0) == 0);
    struct fdt_file *file = fdt_table_get(table, 0);
    FAILS(fdt_table_open_file(NULL, file, NULL), EFAULT);
    FAILS(fdt_table_open_file(table, NULL, NULL), EFAULT);
    FAILS(fdt_table_replace_if(NULL, 0, file, mine, NULL, NULL), EFAULT);
    FAILS(fdt_table_replace_if(table, 0, NULL, mine, NULL, NULL), EFAULT);
    FAILS(fdt_table_close_if(NULL, 0, file, NULL), EFAULT);
    FAILS(fdt_table_close_if(table, 0, NULL, NULL), EFAULT);

    section = fdt_read_lock();
    NONE_FAILS(fdt_table_borrow(NULL, 0, &section), EFAULT);
    NONE_FAILS(fdt_table_borrow(table, 0, NULL), EFAULT);
    fdt_read_unlock(section);

    NONE_FAILS(fdt_private_open(NULL, mine), EFAULT);
    NONE_FAILS(fdt_private_open_file(NULL, file), EFAULT);
    NONE_FAILS(fdt_private_open_file(private, NULL), EFAULT);
    NONE_FAILS(fdt_private_get(NULL, 1), EFAULT);
    FAILS(fdt_private_close(NULL, 1), EFAULT);

    /* The descriptor stays reserved. */
    int reserved = fdt_table_reserve(table, 0, &reservation);
    FAILS(fdt_table_install(table, NULL, mine), EFAULT);
    FAILS(fdt_table_install(NULL, &reservation, mine), EFAULT);
    FAILS(fdt_table_install_data(table, NULL, mine, NULL), EFAULT);
    FAILS(fdt_table_install_data(NULL, &reservation, mine, NULL), EFAULT);
    CHECK(fdt_table_install(table, &reservation, mine) == reserved);

    CHECK(put(file) == 2);
    fdt_table_cancel(NULL);
    fdt_file_put(NULL);
    fdt_table_free(NULL);
    fdt_private_free(NULL);
    fdt_private_free(private);
    fdt_table_free(table);
}

/* Each displaced object is given to one of the threads, and the last one stays. */
#ifndef ROUNDS
#define ROUNDS 2000
#endif

static void *replacing(void *table)
{
    struct fdt_file *was;
    int displaced = 0;
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(fdt_table_replace(table, 3, object(i), NULL, &was, NULL) == 0);
        displaced += put(was) >= 0;
    }
    return (void *)(intptr_t)displaced;
}

static void race(void)
{
    struct fdt_table *table = new_table();
    int before = released;
    pthread_t threads[2];
    intptr_t displaced = 0;
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, replacing, table);
    for (int i = 0; i < 2; i++) {
        void *some;
        pthread_join(threads[i], &some);
        displaced += (intptr_t)some;
    }
    CHECK(displaced == 2 * ROUNDS - 1 && released == before + 2 * ROUNDS - 1);
    fdt_table_free(table);
}

int main(void)
{
    open_with_data();
    words();
    replace();
    open_at_a_free_descriptor();
    if_expected();
    rename_();
    cancel_after_use();
    close_with_data();
    iterate();
    reservations();
    private();
    nulls();
    race();
    CHECK(fdt_barrier() == 0);
    CHECK(released == made && freed == made);
    return 0;
}
