/* A kernel in C with a descriptor table. It opens, looks up, duplicates and closes, checks each
 * answer, and prints a verdict: `cargo xtask kernel --c` boots it in QEMU. */

#include <fdtable/table.h>
#include <fdtable/platform.h>

#include "machine.h"

enum { EBADF = 9, ENOMEM = 12, EFAULT = 14, EMFILE = 24, EDEADLK = 35, CLOEXEC = 1 };
/* Statuses for the switch: QEMU ends with 33 after a success. */
enum { SUCCESS = 0x10, FAILURE = 1 };

/* An object of this kernel. */
struct object {
    int released, freed;
};

static struct object objects[400];
static int failures;

static void say(const char *text)
{
    size_t length = 0;
    while (text[length])
        length++;
    print(text, length);
}

static void say_number(unsigned number)
{
    char digits[10];
    int first = sizeof digits;
    do
        digits[--first] = '0' + number % 10;
    while (number /= 10);
    print(digits + first, sizeof digits - first);
}

static void check(int holds, const char *claim, int line)
{
    if (holds)
        return;
    failures++;
    say("line ");
    say_number(line);
    say(": ");
    say(claim);
    say("\n");
}

#define CHECK(claim) check(claim, #claim, __LINE__)
#define FAILS(call, error) CHECK((errno_of_thread = 0, (call) == -1 && errno_of_thread == (error)))

static void release(void *object, void *user)
{
    CHECK(user == objects);
    ((struct object *)object)->released++;
}

static void free_object(void *object, void *user)
{
    CHECK(user == objects);
    FAILS(fdt_barrier(), EDEADLK);
    ((struct object *)object)->freed++;
}

static struct fdt_table *new_table(unsigned limit)
{
    return fdt_table_new(limit, release, free_object, objects);
}

static int all(const struct object *first, int count, int released, int freed)
{
    for (int i = 0; i < count; i++)
        if (first[i].released != released || first[i].freed != freed)
            return 0;
    return 1;
}

static void operations(void)
{
    struct fdt_table *table = new_table(8);
    struct object *first = &objects[0], *second = &objects[1];
    CHECK(fdt_table_open(table, first, CLOEXEC) == 0);
    CHECK(fdt_table_open(table, second, 0) == 1);
    CHECK(fdt_table_dup(table, 0) == 2);
    CHECK(fdt_table_dup2(table, 1, 7) == 7);
    FAILS(fdt_table_dup2(table, 1, 8), EBADF);
    FAILS(fdt_table_close(NULL, 0), EFAULT);

    struct fdt_file *file = fdt_table_get(table, 2);
    CHECK(fdt_file_object(file) == first);
    CHECK(fdt_table_close(table, 0) == 0);
    CHECK(fdt_table_close(table, 2) == 0);
    CHECK(!fdt_table_get(table, 2) && errno_of_thread == EBADF);
    CHECK(all(first, 1, 0, 0));
    fdt_file_put(file);
    CHECK(first->released == 1);

    struct fdt_section section = fdt_read_lock();
    CHECK(fdt_table_borrow(table, 7, &section) == second);
    CHECK(fdt_table_close_range(table, 0, ~0u, 0) == 0);
    CHECK(all(second, 1, 1, 0));
    FAILS(fdt_barrier(), EDEADLK);
    fdt_read_unlock(section);
    CHECK(fdt_barrier() == 0);
    CHECK(all(first, 2, 1, 1));
    fdt_table_free(table);
}

static void growth_and_forks(void)
{
    enum { COUNT = 150 };
    struct object *first = &objects[10];
    struct fdt_table *table = new_table(COUNT), *child;
    for (int i = 0; i < COUNT; i++)
        CHECK(fdt_table_open(table, &first[i], i % 2 ? CLOEXEC : 0) == i);
    FAILS(fdt_table_open(table, first, 0), EMFILE);
    child = fdt_table_fork(table);
    fdt_table_free(table);
    CHECK(all(first, COUNT, 0, 0));
    CHECK(fdt_table_exec(child) == 0);
    for (int i = 0; i < COUNT; i++)
        CHECK(first[i].released == i % 2);
    fdt_table_free(child);
    CHECK(all(first, COUNT, 1, 1));
}

static void reservations_and_private_descriptors(void)
{
    struct object *first = &objects[170], *second = &objects[171];
    struct fdt_table *table = new_table(4);
    struct fdt_private *private = fdt_private_new(4, release, free_object, objects);
    struct fdt_reservation reservation;
    CHECK(fdt_table_reserve(table, 0, &reservation) == 0);
    CHECK(fdt_table_open(table, second, 0) == 1);
    CHECK(fdt_table_install(table, &reservation, first) == 0);
    CHECK(fdt_table_close_range(table, 0, ~0u, 0) == 0);

    uint64_t handle = fdt_private_open(private, &objects[172]);
    CHECK(handle && fdt_private_close(private, handle) == 0);
    CHECK(fdt_private_close(private, handle) == -1 && errno_of_thread == EBADF);
    while (fdt_tick() == 1)
        ;
    CHECK(all(first, 3, 1, 1));
    fdt_private_free(private);
    fdt_table_free(table);
}

static void without_memory(void)
{
    struct fdt_table *table = new_table(200);
    CHECK(fdt_table_open(table, &objects[180], 0) == 0);
    is_exhausted = 1;
    CHECK(!new_table(8) && errno_of_thread == ENOMEM);
    CHECK(!fdt_table_fork(table) && errno_of_thread == ENOMEM);
    int opened = 1;
    while (fdt_table_open(table, &objects[180 + opened], 0) == opened)
        opened++;
    CHECK(errno_of_thread == ENOMEM);
    is_exhausted = 0;
    fdt_table_free(table);
    CHECK(all(&objects[180], opened, 1, 1) && all(&objects[180 + opened], 1, 0, 0));
}

void kernel(void)
{
    operations();
    growth_and_forks();
    size_t before = allocated;
    for (int i = 0; i < 400; i++)
        objects[i] = (struct object){0, 0};
    growth_and_forks();
    CHECK(allocated <= before);
    reservations_and_private_descriptors();
    without_memory();
    fdt_end_thread();
    say("c-kernel: ");
    say_number(failures);
    say(" failures, ");
    say_number(allocated);
    say(" bytes are still allocated\n");
    power_off(failures ? FAILURE : SUCCESS);
}
