/* The rarer operations of a table, in the common part of C and C++. Ends with an error message and
 * the line of the first check that fails. */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "fdtable/table.h"

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC 4
#endif

#define CHECK(holds)                                                        \
    do {                                                                    \
        if (!(holds)) {                                                     \
            fprintf(stderr, "line %d: %s, errno %d\n", __LINE__, #holds, errno); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

/* The call fails with this error. */
#define FAILS(call, error) CHECK((errno = 0, (call) == -1) && errno == (error))

/* The call returns null, and fails with this error. */
#define NONE_FAILS(call, error) CHECK((errno = 0, !(call)) && errno == (error))

struct object {
    struct fdt_deferred deferred;
    int released, freed, taken;
};

static struct object objects[400];

static void on_release(void *object, void *user)
{
    CHECK(user == objects);
    ((struct object *)object)->released++;
}

static void on_free(void *object, void *user)
{
    CHECK(user == objects);
    ((struct object *)object)->freed++;
}

static struct fdt_table *new_table(unsigned int limit)
{
    struct fdt_table *table = fdt_table_new(limit, on_release, on_free, objects);
    CHECK(table);
    return table;
}

static int is_at(const struct fdt_table *table, int fd, const struct object *object)
{
    struct fdt_file *file = fdt_table_get(table, fd);
    int is = file && fdt_file_object(file) == object;
    fdt_file_put(file);
    return is;
}

static void from_a_minimum(void)
{
    struct fdt_table *table = new_table(100);
    const struct fdt_data data = {FD_CLOEXEC, 7}, unknown = {2, 0};
    struct fdt_data found = {0, 0};
    CHECK(fdt_table_open_min(table, 10, &objects[0], &data) == 10);
    CHECK(fdt_table_open_min(table, 10, &objects[1], NULL) == 11);
    CHECK(fdt_table_dup_min(table, 11, 10, &data) == 12 && is_at(table, 12, &objects[1]));
    CHECK(fdt_table_dup_min(table, 11, 0, NULL) == 0);
    struct fdt_file *file = fdt_table_get_data(table, 12, &found);
    CHECK(found.flags == FD_CLOEXEC && found.word == 7);
    fdt_file_put(file);
    FAILS(fdt_table_open_min(table, -1, &objects[2], NULL), EINVAL);
    FAILS(fdt_table_open_min(table, 100, &objects[2], NULL), EINVAL);
    FAILS(fdt_table_open_min(table, 0, &objects[2], &unknown), EINVAL);
    FAILS(fdt_table_open_min(NULL, 0, &objects[2], NULL), EFAULT);
    FAILS(fdt_table_dup_min(table, 50, 0, NULL), EBADF);
    FAILS(fdt_table_dup_min(table, 0, 100, NULL), EINVAL);
    FAILS(fdt_table_dup_min(NULL, 0, 0, NULL), EFAULT);
    CHECK(fdt_table_open_min(table, 99, &objects[3], NULL) == 99);
    FAILS(fdt_table_open_min(table, 99, &objects[2], NULL), EMFILE);
    FAILS(fdt_table_dup_min(table, 0, 99, NULL), EMFILE);
    fdt_table_free(table);
    CHECK(objects[0].freed == 1 && objects[1].freed == 1 && objects[2].released == 0);
}

static void ranges(void)
{
    struct fdt_table *table = new_table(100), *own;
    for (int fd = 0; fd < 90; fd++)
        CHECK(fdt_table_open(table, &objects[10 + fd], 0) == fd);
    CHECK(fdt_table_close_range(table, 80, UINT_MAX, CLOSE_RANGE_CLOEXEC) == 0);
    CHECK(fdt_table_get_flags(table, 79) == 0 && fdt_table_get_flags(table, 80) == FD_CLOEXEC);
    FAILS(fdt_table_close_range(table, 0, 1, 2), EINVAL);
    FAILS(fdt_table_close_range(table, 1, 0, CLOSE_RANGE_CLOEXEC), EINVAL);
    FAILS(fdt_table_close_range(table, 1, 0, 0), EINVAL);
    NONE_FAILS(fdt_table_unshare(table, 1, 0), EINVAL);
    NONE_FAILS(fdt_table_unshare(NULL, 0, 1), EFAULT);
    own = fdt_table_unshare(table, 3, 70);
    CHECK(own && is_at(own, 2, &objects[12]) && is_at(own, 71, &objects[81]));
    CHECK(!is_at(own, 3, &objects[13]) && !is_at(own, 70, &objects[80]));
    CHECK(is_at(table, 3, &objects[13]) && fdt_table_get_flags(own, 85) == FD_CLOEXEC);
    CHECK(fdt_table_close_range(table, 0, UINT_MAX, 0) == 0);
    CHECK(objects[13].released == 1 && objects[12].released == 0);
    fdt_table_free(own);
    fdt_table_free(table);
}

static void several(void)
{
    struct fdt_table *table = new_table(64);
    struct fdt_reservation some[10];
    int fds[10], pair[2] = {-1, -1};
    unsigned int limit = 0;
    CHECK(fdt_table_get_limit(table, &limit) == 0 && limit == 64);
    FAILS(fdt_table_get_limit(table, NULL), EFAULT);
    FAILS(fdt_table_get_limit(NULL, &limit), EFAULT);
    CHECK(fdt_table_open_pair(table, &objects[100], &objects[101], FD_CLOEXEC, pair) == 0);
    CHECK(pair[0] == 0 && pair[1] == 1 && fdt_table_get_flags(table, 1) == FD_CLOEXEC);
    CHECK(is_at(table, 0, &objects[100]) && is_at(table, 1, &objects[101]));
    FAILS(fdt_table_open_pair(table, &objects[102], &objects[103], 2, pair), EINVAL);
    FAILS(fdt_table_open_pair(NULL, &objects[102], &objects[103], 0, pair), EFAULT);
    FAILS(fdt_table_open_pair(table, &objects[102], &objects[103], 0, NULL), EFAULT);
    CHECK(fdt_table_reserve_many(table, 10, 0, some, fds) == 0 && fds[0] == 2 && fds[9] == 11);
    CHECK(fdt_table_install(table, &some[4], &objects[104]) == 6);
    for (int i = 0; i < 10; i++)
        fdt_table_cancel(&some[i]);
    CHECK(fdt_table_set_limit(table, 8) == 0);
    FAILS(fdt_table_reserve_many(table, 6, 0, some, fds), EMFILE);
    FAILS(fdt_table_reserve_many(table, 2, 2, some, NULL), EINVAL);
    FAILS(fdt_table_reserve_many(table, 2, 0, NULL, fds), EFAULT);
    FAILS(fdt_table_reserve_many(NULL, 2, 0, some, fds), EFAULT);
    for (int i = 0; i < 6; i++)
        fdt_table_cancel(&some[i]);
    CHECK(fdt_table_reserve_many(table, 4, FD_CLOEXEC, some, NULL) == 0);
    FAILS(fdt_table_open_pair(table, &objects[102], &objects[103], 0, pair), EMFILE);
    for (int i = 0; i < 4; i++)
        fdt_table_cancel(&some[i]);
    fdt_table_free(table);
    CHECK(objects[100].freed == 1 && objects[101].freed == 1 && objects[104].freed == 1);
    CHECK(objects[102].released == 0 && objects[103].released == 0);
}

static void weak(void)
{
    struct fdt_table *table = new_table(8);
    fdt_table_open(table, &objects[110], 0);
    struct fdt_file *file = fdt_table_get(table, 0);
    struct fdt_weak *weak = fdt_file_downgrade(file);
    CHECK(weak);
    NONE_FAILS(fdt_file_downgrade(NULL), EFAULT);
    NONE_FAILS(fdt_weak_upgrade(NULL), EFAULT);
    fdt_file_put(file);
    file = fdt_weak_upgrade(weak);
    CHECK(file && fdt_file_object(file) == &objects[110]);
    CHECK(fdt_table_close(table, 0) == 0 && objects[110].released == 0);
    fdt_file_put(file);
    CHECK(objects[110].released == 1);
    NONE_FAILS(fdt_weak_upgrade(weak), ESTALE);
    fdt_table_free(table);
    CHECK(objects[110].freed == 1);
    fdt_weak_put(weak);
    fdt_weak_put(NULL);
}

static void revoke(void)
{
    struct fdt_table *table = new_table(8);
    fdt_table_open(table, &objects[120], 0);
    CHECK(fdt_table_dup(table, 0) == 1);
    struct fdt_file *file = fdt_table_get(table, 0);
    CHECK(fdt_file_revoke(file) == 1 && objects[120].released == 1);
    CHECK(fdt_file_revoke(file) == 0 && objects[120].released == 1);
    FAILS(fdt_file_revoke(NULL), EFAULT);
    NONE_FAILS(fdt_table_get(table, 1), EIO);
    struct fdt_section section = fdt_read_lock();
    NONE_FAILS(fdt_table_borrow(table, 1, &section), EIO);
    fdt_read_unlock(section);
    CHECK(fdt_table_close(table, 0) == 0 && fdt_table_close(table, 1) == 0);
    CHECK(fdt_file_object(file) == &objects[120] && fdt_barrier() == 0);
    CHECK(objects[120].freed == 0);
    fdt_file_put(file);
    fdt_table_free(table);
    CHECK(objects[120].released == 1 && objects[120].freed == 1);
}

static void deferred_call(struct fdt_deferred *deferred)
{
    /* It is the first member. */
    ((struct object *)deferred)->freed++;
}

static void defer(void)
{
    struct fdt_section section = fdt_read_lock();
    CHECK(fdt_defer(&objects[130].deferred, deferred_call) == 0);
    CHECK(fdt_defer(&objects[131].deferred, deferred_call) == 0);
    FAILS(fdt_defer(NULL, deferred_call), EFAULT);
    FAILS(fdt_defer(&objects[132].deferred, NULL), EFAULT);
    FAILS(fdt_barrier(), EDEADLK);
    CHECK(objects[130].freed == 0 && objects[131].freed == 0);
    fdt_read_unlock(section);
    CHECK(fdt_barrier() == 0);
    CHECK(objects[130].freed == 1 && objects[131].freed == 1 && objects[132].freed == 0);
}

static int take(void *object, void *argument)
{
    ((struct object *)object)->taken++;
    return argument == objects;
}

/* The file of a descriptor that is replaced inside of the call. */
static struct fdt_table *replaced;

static int take_the_second(void *object, void *argument)
{
    if (object == argument)
        return 1;
    CHECK(fdt_table_replace(replaced, 0, argument, NULL, NULL, NULL) == 0);
    return 0;
}

static void acquire(void)
{
    struct fdt_table *table = replaced = new_table(8);
    struct object *one = &objects[140], *other = &objects[141];
    fdt_table_open(table, one, 0);
    CHECK(fdt_table_acquire(table, 0, take, objects) == one && one->taken == 1);
    NONE_FAILS(fdt_table_acquire(table, 0, take, NULL), EBADF);
    CHECK(one->taken == 3);
    NONE_FAILS(fdt_table_acquire(table, 1, take, objects), EBADF);
    NONE_FAILS(fdt_table_acquire(table, -1, take, objects), EBADF);
    NONE_FAILS(fdt_table_acquire(NULL, 0, take, objects), EFAULT);
    NONE_FAILS(fdt_table_acquire(table, 0, NULL, objects), EFAULT);
    CHECK(fdt_table_acquire(table, 0, take_the_second, other) == other);
    CHECK(one->released == 1);
    struct fdt_file *file = fdt_table_get(table, 0);
    fdt_file_revoke(file);
    NONE_FAILS(fdt_table_acquire(table, 0, take, objects), EIO);
    fdt_file_put(file);
    fdt_table_free(table);
    CHECK(one->freed == 1 && other->freed == 1 && other->taken == 0);
}

int main(void)
{
    from_a_minimum();
    ranges();
    several();
    weak();
    revoke();
    defer();
    acquire();
    return 0;
}
