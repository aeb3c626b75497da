/* Misuses of a table, one for each run: the argument names it. Only a library with checks
 * finds them, and it ends the process. What comes back from a misuse that was not found is
 * printed. */

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "fdtable/table.h"

static char user;

static void free_twice(void);

static struct fdt_table *new_table(void)
{
    return fdt_table_new(8, NULL, NULL, NULL);
}

/* A table with one object, at 0. */
static struct fdt_table *with_object(void)
{
    struct fdt_table *table = new_table();
    fdt_table_open(table, &user, 0);
    return table;
}

static void put_twice(void)
{
    struct fdt_table *table = with_object();
    struct fdt_file *file = fdt_table_get(table, 0);
    fdt_file_put(file);
    /* The table has a reference too, so the count is above 0. */
    fdt_file_put(file);
}

static void put_after_another_reference(void)
{
    struct fdt_table *table = with_object();
    struct fdt_file *first = fdt_table_get(table, 0), *second = fdt_file_clone(first);
    fdt_file_put(second);
    fdt_file_put(second);
}

static void object_after_put(void)
{
    struct fdt_file *file = fdt_table_get(with_object(), 0);
    fdt_file_put(file);
    fdt_file_object(file);
}

static void clone_after_put(void)
{
    struct fdt_file *file = fdt_table_get(with_object(), 0);
    fdt_file_put(file);
    fdt_file_clone(file);
}

static void open_after_put(void)
{
    struct fdt_table *table = with_object();
    struct fdt_file *file = fdt_table_get(table, 0);
    fdt_file_put(file);
    fdt_table_open_file(table, file, NULL);
}

static void displaced_put_twice(void)
{
    struct fdt_file *file;
    fdt_table_close_data(with_object(), 0, &file, NULL);
    fdt_file_put(file);
    fdt_file_put(file);
}

static void put_of_a_table(void)
{
    fdt_file_put((struct fdt_file *)new_table());
}

static void put_of_an_object(void)
{
    fdt_file_put((struct fdt_file *)&user);
}

static void put_of_a_weak_reference_twice(void)
{
    struct fdt_file *file = fdt_table_get(with_object(), 0);
    struct fdt_weak *weak = fdt_file_downgrade(file);
    fdt_weak_put(weak);
    fdt_weak_put(weak);
}

static void upgrade_of_a_reference(void)
{
    fdt_weak_upgrade((struct fdt_weak *)fdt_table_get(with_object(), 0));
}

static void install_twice(void)
{
    struct fdt_table *table = new_table();
    struct fdt_reservation reservation;
    fdt_table_reserve(table, 0, &reservation);
    fdt_table_install(table, &reservation, &user);
    fdt_table_install(table, &reservation, &user);
}

static void install_of_a_copy(void)
{
    struct fdt_table *table = new_table();
    struct fdt_reservation reservation, copy;
    fdt_table_reserve(table, 0, &reservation);
    copy = reservation;
    fdt_table_install(table, &reservation, &user);
    fdt_table_install_data(table, &copy, &user, NULL);
}

static void install_after_cancel(void)
{
    struct fdt_table *table = new_table();
    struct fdt_reservation reservation;
    fdt_table_reserve(table, 0, &reservation);
    fdt_table_cancel(&reservation);
    fdt_table_install(table, &reservation, &user);
}

static void cancel_of_a_copy(void)
{
    struct fdt_table *table = new_table();
    struct fdt_reservation reservation, copy;
    fdt_table_reserve(table, 0, &reservation);
    copy = reservation;
    fdt_table_install(table, &reservation, &user);
    fdt_table_cancel(&copy);
}

static void install_in_another_table(void)
{
    struct fdt_reservation reservation;
    fdt_table_reserve(new_table(), 0, &reservation);
    fdt_table_install(new_table(), &reservation, &user);
}

static void install_in_a_child(void)
{
    struct fdt_table *table = new_table();
    struct fdt_reservation reservation;
    fdt_table_reserve(table, 0, &reservation);
    fdt_table_install_data(fdt_table_fork(table), &reservation, &user, NULL);
}

static void install_of_nothing(void)
{
    struct fdt_reservation reservation;
    memset(&reservation, 0x5a, sizeof reservation);
    fdt_table_install(new_table(), &reservation, &user);
}

static void cancel_after_the_table(void)
{
    struct fdt_table *table = new_table();
    struct fdt_reservation reservation;
    fdt_table_reserve(table, 0, &reservation);
    fdt_table_free(table);
    fdt_table_cancel(&reservation);
}

static void unlock_twice(void)
{
    struct fdt_section section = fdt_read_lock();
    fdt_read_unlock(section);
    fdt_read_unlock(section);
}

static void *unlock(void *section)
{
    fdt_read_unlock(*(struct fdt_section *)section);
    return NULL;
}

static void on_a_thread(void *(*start)(void *), void *argument)
{
    pthread_t thread;
    pthread_create(&thread, NULL, start, argument);
    pthread_join(thread, NULL);
}

static void unlock_on_another_thread(void)
{
    struct fdt_section section = fdt_read_lock();
    on_a_thread(unlock, &section);
}

static void unlock_out_of_order(void)
{
    struct fdt_section outer = fdt_read_lock(), inner = fdt_read_lock();
    fdt_read_unlock(outer);
    fdt_read_unlock(inner);
}

static void unlock_of_nothing(void)
{
    struct fdt_section section;
    memset(&section, 0x5a, sizeof section);
    fdt_read_unlock(section);
}

static void *lock(void *section)
{
    *(struct fdt_section *)section = fdt_read_lock();
    return NULL;
}

static void end_of_a_thread_in_a_section(void)
{
    struct fdt_section section;
    on_a_thread(lock, &section);
}

static pthread_key_t key;

static void unlock_at_the_end(void *section)
{
    fdt_read_unlock(*(struct fdt_section *)section);
    free(section);
}

/* The key is younger than that of the library, so its destructor runs later. */
static void *lock_until_the_end(void *unused)
{
    struct fdt_section *section = malloc(sizeof *section);
    *section = fdt_read_lock();
    pthread_key_create(&key, unlock_at_the_end);
    pthread_setspecific(key, section);
    return unused;
}

static void unlock_in_a_destructor(void)
{
    on_a_thread(lock_until_the_end, NULL);
}

static void look_up(int signal)
{
    (void)signal;
    fdt_table_get(with_object(), 0);
}

static void look_up_at_the_end(void)
{
    signal(SIGABRT, look_up);
    free_twice();
}

static void borrow_after_unlock(void)
{
    struct fdt_section section = fdt_read_lock();
    fdt_read_unlock(section);
    fdt_table_borrow(with_object(), 0, &section);
}

struct borrowing {
    struct fdt_table *table;
    struct fdt_section section;
};

static void *borrow(void *given)
{
    struct borrowing *it = given;
    fdt_table_borrow(it->table, 0, &it->section);
    return NULL;
}

static void borrow_on_another_thread(void)
{
    struct borrowing it = {with_object(), fdt_read_lock()};
    on_a_thread(borrow, &it);
}

static void free_twice(void)
{
    struct fdt_table *table = with_object();
    fdt_table_free(table);
    fdt_table_free(table);
}

static void get_after_free(void)
{
    struct fdt_table *table = with_object();
    fdt_table_free(table);
    fdt_table_get(table, 0);
}

static void replace_after_free(void)
{
    struct fdt_table *table = with_object();
    fdt_table_free(table);
    fdt_table_replace(table, 0, &user, NULL, NULL, NULL);
}

static void get_of_a_private_table(void)
{
    fdt_table_get((struct fdt_table *)fdt_private_new(8, NULL, NULL, NULL), 0);
}

static void private_free_twice(void)
{
    struct fdt_private *table = fdt_private_new(8, NULL, NULL, NULL);
    fdt_private_free(table);
    fdt_private_free(table);
}

static void private_open_after_free(void)
{
    struct fdt_private *table = fdt_private_new(8, NULL, NULL, NULL);
    fdt_private_free(table);
    fdt_private_open(table, &user);
}

/* A callback makes a call of its own, and the misuse is named after the call that it is in. */
static void put_in_release(void *object, void *file)
{
    (void)object;
    fdt_file_put(*(struct fdt_file **)file);
}

static void put_twice_in_release(void)
{
    struct fdt_file *file;
    struct fdt_table *table = fdt_table_new(8, put_in_release, NULL, &file);
    fdt_table_open(table, &user, 0);
    file = fdt_table_get(with_object(), 0);
    fdt_file_put(file);
    fdt_table_close(table, 0);
}

#define MISUSE(name) {#name, name}

static const struct {
    const char *name;
    void (*run)(void);
} MISUSES[] = {
    MISUSE(put_twice),
    MISUSE(put_after_another_reference),
    MISUSE(object_after_put),
    MISUSE(clone_after_put),
    MISUSE(open_after_put),
    MISUSE(displaced_put_twice),
    MISUSE(put_of_a_table),
    MISUSE(put_of_an_object),
    MISUSE(put_of_a_weak_reference_twice),
    MISUSE(upgrade_of_a_reference),
    MISUSE(install_twice),
    MISUSE(install_of_a_copy),
    MISUSE(install_after_cancel),
    MISUSE(cancel_of_a_copy),
    MISUSE(install_in_another_table),
    MISUSE(install_in_a_child),
    MISUSE(install_of_nothing),
    MISUSE(cancel_after_the_table),
    MISUSE(unlock_twice),
    MISUSE(unlock_on_another_thread),
    MISUSE(unlock_out_of_order),
    MISUSE(unlock_of_nothing),
    MISUSE(end_of_a_thread_in_a_section),
    MISUSE(unlock_in_a_destructor),
    MISUSE(look_up_at_the_end),
    MISUSE(borrow_after_unlock),
    MISUSE(borrow_on_another_thread),
    MISUSE(free_twice),
    MISUSE(get_after_free),
    MISUSE(replace_after_free),
    MISUSE(get_of_a_private_table),
    MISUSE(private_free_twice),
    MISUSE(private_open_after_free),
    MISUSE(put_twice_in_release),
};

int main(int count, char **arguments)
{
    /* The process is ended on purpose. */
    setrlimit(RLIMIT_CORE, &(struct rlimit){0});
    for (size_t i = 0; i < sizeof MISUSES / sizeof *MISUSES; i++)
        if (count == 2 && strcmp(arguments[1], MISUSES[i].name) == 0) {
            MISUSES[i].run();
            printf("not found\n");
            return 0;
        }
    return 2;
}
