/* fdtable: a table of descriptors, for programs that bring their own objects.
 *
 * The binary interface: before 1.0, a new minor version may change or remove functions and structs.
 * The soname has the minor version, so a program runs only with the one that it was linked with. A
 * new patch version only adds functions. No struct ever shrinks, and as long as the soname is the
 * same none grows either.
 *
 * Generated from the Rust sources: FDTABLE_BLESS=1 cargo test -p fdtable-capi --test headers */

#ifndef FDTABLE_TABLE_H
#define FDTABLE_TABLE_H

#include <stddef.h>
#include <stdint.h>

// Reference to an open file.
struct fdt_file;

// Table of private descriptors.
struct fdt_private;

// Table of descriptors.
//
// A null pointer to a table, reference, reservation, section or function, or to a place for a
// result that is not optional, is `EFAULT`. Functions that return nothing ignore it. These are
// undefined, and end the process in a library that is built with the feature `debug`: to use what
// was freed, put, ended before, or a copy of a reservation that was installed or cancelled; to use
// a reservation with another table than its own; to end a section on another thread, or before one
// inside it; to end a thread inside a section. Such a library also ends the process where `EINVAL`
// says that a reservation was used before, and no handler of a signal may call it.
struct fdt_table;

// Weak reference to an open file: keeps neither the file open nor its object.
struct fdt_weak;

// Callback of a table, with the pointer of an open file and the table's `user` pointer.
typedef void (*fdt_callback)(void *object, void *user);

// Reserved descriptor that has no file yet. It may be kept across calls, copied, and installed or
// cancelled once, by any thread; its table outlives it. To cancel one that is marked as used, or
// is all zero, does nothing.
struct fdt_reservation {
    // Opaque to the caller.
    size_t opaque[2];
};

// Read-side section of a thread: returned by `fdt_read_lock`, passed to `fdt_read_unlock`.
struct fdt_section {
    // Opaque to the caller.
    size_t opaque[2];
};

// Function of `fdt_table_acquire`: takes a reference to the object, in a count that the object has
// itself. Returns 0 if it cannot, because the last reference is gone.
typedef int (*fdt_take)(void *object, void *argument);

// Call that waits for sections. It is usually in the object that the call frees.
struct fdt_deferred {
    // Opaque to the caller.
    size_t opaque[3];
};

// Function of `fdt_defer`.
typedef void (*fdt_deferred_call)(struct fdt_deferred *deferred);

// Data of a descriptor besides its object.
//
// It belongs to the descriptor, as `FD_CLOEXEC` does: `fdt_table_dup` and `fdt_table_dup2` do not
// copy it, `fdt_table_rename` and `fdt_table_fork` do. A null pointer to it means no flags
// and the word 0.
struct fdt_data {
    // `FD_CLOEXEC` or 0.
    unsigned int flags;
    // A word of the caller.
    uint64_t word;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Creates an empty table whose descriptors are below `limit`.
//
// `release` is called when the last reference to an open file is dropped. `free` is called when no
// read-side section can see the object any more: at the latest in `fdt_barrier`, or when the last
// table that was forked from this one is freed. It may be called before, also at the end of a
// thread or in `exit(3)`, if no section or fork is in the way. Each may be null, and may be called
// on any thread, also while that thread ends. `user` may be freed when the last `fdt_table_free`
// of this table and its forks has returned, outside of a section, of `free` and of a handler of a
// fork; if a reference of `fdt_table_get` was put after that, `fdt_barrier` must have returned
// too. Returns null with `ENOMEM`.
//
// `free` may take a lock, if no thread holds that lock in a call of `fork`, `fdt_barrier`,
// `fdt_table_free`, or another call that may call `free`, or while it waits for the end of a
// thread that has used a table.
struct fdt_table *fdt_table_new(unsigned int limit,
                                fdt_callback release,
                                fdt_callback free,
                                void *user);

// Closes every descriptor of a table, and frees the table. Null is ignored.
//
// If it is the last of the tables that were forked from one another, waits for sections like
// `fdt_barrier`: when it returns, `free` has been called for every object of theirs that was
// released. Inside a section, a call of `free`, or a handler of a fork it does not wait.
//
// Calls `free` also for objects that other tables have released: the caller must not hold a lock
// that a `free` function takes, or that a thread takes inside a section.
void fdt_table_free(struct fdt_table *table);

// Waits until `free` has been called for every object that was released before.
//
// That includes objects of any table, released by any thread; so it waits for the sections of all
// threads. It calls some of the functions itself. Returns 0, or -1 with `EDEADLK` inside a section
// of this thread, inside a call of `free`, or, if it would have to wait, in a handler of
// `pthread_atfork` between those of this library.
//
// Objects that are released meanwhile do not delay it for long. It is no cancellation point. A
// fork does not wait for it, also inside a call of `release`.
//
// The caller must not hold a lock that a `free` function takes, or that a thread takes inside a
// section.
int fdt_barrier(void);

// Opens `object` at the lowest free descriptor, with `FD_CLOEXEC` or 0.
//
// Returns the descriptor, or -1 with `EINVAL` for other flags, `EMFILE` or `ENOMEM`. After an
// error the object belongs to the caller again, and no function is called for it.
int fdt_table_open(const struct fdt_table *table, void *object, unsigned int flags);

// Returns a reference to the open file of a descriptor, or null with `EBADF`. References to one
// open file may have different addresses: `fdt_file_object` names it.
struct fdt_file *fdt_table_get(const struct fdt_table *table, int fd);

// Drops a reference. Null is ignored. If it was the last one, `release` is called here, and `free`
// later: see `fdt_barrier`.
void fdt_file_put(struct fdt_file *file);

// Returns one more reference to the same open file.
struct fdt_file *fdt_file_clone(struct fdt_file *file);

// Returns the object of an open file, valid as long as the reference.
void *fdt_file_object(struct fdt_file *file);

// Revokes an open file: lookups of its descriptors return `EIO` from now on.
//
// `release` is called here if no call has revoked the file before, and not again with the last
// reference. The descriptors stay, and are closed and duplicated like others. Threads with a
// reference, or inside a section, may still use the object, which decides what its operations
// return; `free` is called after them. Returns 1 if this call revoked the file, and 0 if another
// one did.
int fdt_file_revoke(struct fdt_file *file);

// Closes a descriptor. Returns 0, or -1 with `EBADF` or `ENOMEM`.
int fdt_table_close(const struct fdt_table *table, int fd);

// Closes all descriptors from `first` to `last`, or sets `FD_CLOEXEC` on them: `close_range(2)`.
//
// `flags` is `CLOSE_RANGE_CLOEXEC` or 0; for `CLOSE_RANGE_UNSHARE` see `fdt_table_unshare`.
// Returns 0, or -1 with `EINVAL` for other flags, or if `first` is greater than `last`, or
// `ENOMEM`.
int fdt_table_close_range(const struct fdt_table *table,
                          unsigned int first,
                          unsigned int last,
                          unsigned int flags);

// Duplicates `old` to the lowest free descriptor: `dup(2)`.
int fdt_table_dup(const struct fdt_table *table, int old);

// Duplicates `old` to the descriptor `new`: `dup2(2)`.
int fdt_table_dup2(const struct fdt_table *table, int old, int new_);

// Duplicates `old` to the descriptor `new`, with `FD_CLOEXEC` or 0: `dup3(2)`.
int fdt_table_dup3(const struct fdt_table *table, int old, int new_, unsigned int flags);

// Returns the flags of a descriptor, 0 or `FD_CLOEXEC`, or -1 with `EBADF`.
int fdt_table_get_flags(const struct fdt_table *table, int fd);

// Sets the flags of a descriptor. Returns 0, or -1 with `EBADF`, `EINVAL` or `ENOMEM`.
int fdt_table_set_flags(const struct fdt_table *table, int fd, unsigned int flags);

// Reserves the lowest free descriptor for a file that is installed later.
//
// `flags` is `FD_CLOEXEC` or 0. Fills in `reservation`, and returns the descriptor; or marks it as
// used, and returns -1 with `EINVAL` for other flags, `EMFILE` or `ENOMEM`.
int fdt_table_reserve(const struct fdt_table *table,
                      unsigned int flags,
                      struct fdt_reservation *reservation);

// Installs `object` at a reserved descriptor of the same table, and marks the reservation as used.
//
// Returns the descriptor, or -1: then the object belongs to the caller again. After `ENOMEM` the
// descriptor stays reserved. `EINVAL` means that the reservation was used before; copies of it are
// not marked.
int fdt_table_install(const struct fdt_table *table,
                      struct fdt_reservation *reservation,
                      void *object);

// Frees a reserved descriptor, and marks the reservation as used. Null, and a reservation that is
// marked, are ignored. Does not change errno.
void fdt_table_cancel(struct fdt_reservation *reservation);

// Creates a table with the same open files at the same descriptors: `fork(2)`, and `unshare(2)`
// with `CLONE_FILES`. Returns null with `ENOMEM`.
struct fdt_table *fdt_table_fork(const struct fdt_table *table);

// Creates a table like `fdt_table_fork`, without the descriptors from `first` to `last`, for a
// caller that replaces the table which it shares: `close_range(2)` with `CLOSE_RANGE_UNSHARE`.
// Returns null with `EINVAL` if `first` is greater than `last`, or `ENOMEM`.
struct fdt_table *fdt_table_unshare(const struct fdt_table *table,
                                    unsigned int first,
                                    unsigned int last);

// Closes the descriptors that have `FD_CLOEXEC`: `execve(2)`. Returns 0, or -1 with `ENOMEM`.
int fdt_table_exec(const struct fdt_table *table);

// Stores the exclusive upper bound for new descriptors in `limit`. Returns 0.
int fdt_table_get_limit(const struct fdt_table *table, unsigned int *limit);

// Sets the exclusive upper bound for new descriptors. Returns 0.
int fdt_table_set_limit(const struct fdt_table *table, unsigned int limit);

// Begins a read-side section of the calling thread. It must be short, and must not block. Sections
// nest. A fork of the host process waits for its end.
struct fdt_section fdt_read_lock(void);

// Ends a section, on the thread that began it. Nested sections end in reverse order.
void fdt_read_unlock(struct fdt_section section);

// Returns the object of a descriptor, valid until the section of this thread ends, or null with
// `EBADF`.
void *fdt_table_borrow(const struct fdt_table *table, int fd, const struct fdt_section *section);

// Takes a reference to the object of a descriptor in the object's own count, by calling
// `take(object, argument)` inside a section. This library counts no reference then, and the caller
// drops the one that it got without this library.
//
// `take` must be as short as a section. `release` and `free` of the table are called as for other
// lookups, so there are two ways to keep the count:
// - The table's own reference is dropped in `free`. Until then the count is not 0, so `take` is an
//   increment, and always returns 1.
// - It is dropped in `release`. `take` does not increment a count of 0, and returns 0. The memory
//   of an object whose count has become 0 is freed by `fdt_defer`.
//
// Returns the object, or null with `EBADF` if the descriptor is not open, or `take` has returned 0
// twice for the same object. After the first time the descriptor is looked up again, because
// another file may have been opened there meanwhile.
void *fdt_table_acquire(const struct fdt_table *table, int fd, fdt_take take, void *argument);

// Calls `call(deferred)` when no section that is under way now can see what the caller has made
// unreachable: `call_rcu` of Linux. Needs no memory but `*deferred`, which belongs to this library
// until the call.
//
// The call comes when `free` would for an object that is released now, on the same threads, and
// with the same rules for locks. `fdt_barrier` waits for it. Returns 0, or -1 with `EFAULT`.
int fdt_defer(struct fdt_deferred *deferred, fdt_deferred_call call);

// Opens `object` at the lowest free descriptor, with data.
//
// Returns the descriptor, or -1 with `EINVAL` for unknown flags, `EMFILE` or `ENOMEM`. After an
// error the object belongs to the caller again, and no function is called for it.
int fdt_table_open_data(const struct fdt_table *table, void *object, const struct fdt_data *data);

// Opens `object` at the lowest free descriptor that is `min` or more. `data` may be null.
//
// Returns the descriptor, or -1 with `EINVAL` for unknown flags, or if `min` is negative or at or
// above the limit, `EMFILE` or `ENOMEM`. After an error the object belongs to the caller again,
// and no function is called for it.
int fdt_table_open_min(const struct fdt_table *table,
                       int min,
                       void *object,
                       const struct fdt_data *data);

// Duplicates `old` to the lowest free descriptor that is `min` or more: `fcntl(2)` with `F_DUPFD`.
// `data` may be null.
//
// Returns the descriptor, or -1 with `EBADF` if `old` is not open, `EINVAL` as for
// `fdt_table_open_min`, `EMFILE` or `ENOMEM`.
int fdt_table_dup_min(const struct fdt_table *table,
                      int old,
                      int min,
                      const struct fdt_data *data);

// Opens the file of a reference at the lowest free descriptor, as `fdt_table_dup` opens that of a
// descriptor. `data` may be null.
//
// The caller keeps the reference, which may be from another table; the callbacks and `user` of
// that one are then used as long as the file is open here.
//
// Returns the descriptor, or -1 with `EINVAL` for unknown flags, `EMFILE` or `ENOMEM`.
int fdt_table_open_file(const struct fdt_table *table,
                        struct fdt_file *file,
                        const struct fdt_data *data);

// Installs `object` at a reserved descriptor, with other data than it was reserved with.
//
// Returns the descriptor, or -1; then the object belongs to the caller again. After `EINVAL` for
// unknown flags the descriptor stays reserved. After `ENOMEM` it is free, and the reservation is
// used up. `EINVAL` for a reservation that was used before is that of `fdt_table_install`.
int fdt_table_install_data(const struct fdt_table *table,
                           struct fdt_reservation *reservation,
                           void *object,
                           const struct fdt_data *data);

// Returns a reference to the open file of a descriptor, and its data at that moment, or null with
// `EBADF` or `EFAULT`.
struct fdt_file *fdt_table_get_data(const struct fdt_table *table, int fd, struct fdt_data *data);

// Sets the word of a descriptor. Stores the one that it had in `before`, unless that is null.
//
// Returns 0, or -1 with `EBADF` or `ENOMEM`.
int fdt_table_set_word(const struct fdt_table *table, int fd, uint64_t word, uint64_t *before);

// Sets the word of a descriptor to `new` if it is `*expected`. If it is not, stores it there.
//
// Returns 1 if the word was set, 0 if it was another one, or -1 with `EBADF` or `ENOMEM`.
int fdt_table_exchange_word(const struct fdt_table *table,
                            int fd,
                            uint64_t *expected,
                            uint64_t new_);

// Closes a descriptor, and returns its file and its data.
//
// Stores the reference that the table had in `file`; if that is null, drops it. Stores the data in
// `data`, unless that is null. Returns 0, or -1 with `EBADF` or `ENOMEM`.
int fdt_table_close_data(const struct fdt_table *table,
                         int fd,
                         struct fdt_file **file,
                         struct fdt_data *data);

// Returns the lowest open descriptor at or above `from`, with its file and its data.
//
// Stores a reference in `file` and the data in `data`, unless they are null. If there is no such
// descriptor, returns -1 and leaves errno unchanged. To iterate, begin with 0, and go on with the
// descriptor plus 1; descriptors that are opened or closed meanwhile may be found or not.
int fdt_table_next(const struct fdt_table *table,
                   int from,
                   struct fdt_file **file,
                   struct fdt_data *data);

// Opens `object` at the descriptor `fd`, open or free, in place of what was there, atomically.
//
// Stores the reference to the displaced file in `displaced`, or null if `fd` was free; if
// `displaced` is null, drops the reference. Stores the data that the descriptor had in
// `displaced_data`, unless that is null. `data` may be null.
//
// Returns 0, or -1 with `EINVAL` for unknown flags, `EBADF` if `fd` is negative or at or above the
// limit, `EBUSY` if it is reserved, or `ENOMEM`. After an error the object belongs to the caller
// again, no function is called for it, and nothing is stored.
int fdt_table_replace(const struct fdt_table *table,
                      int fd,
                      void *object,
                      const struct fdt_data *data,
                      struct fdt_file **displaced,
                      struct fdt_data *displaced_data);

// Opens `object` at the free descriptor `fd`. `data` may be null.
//
// Returns 0, or -1 with `EEXIST` if the descriptor is open, `EINVAL` for unknown flags, `EBADF` if
// it is negative or at or above the limit, `EBUSY` if it is reserved, or `ENOMEM`. After an error
// the object belongs to the caller again, and no function is called for it.
int fdt_table_open_at(const struct fdt_table *table,
                      int fd,
                      void *object,
                      const struct fdt_data *data);

// Opens `object` at the descriptor `fd` like `fdt_table_replace`, if `expected` is open there.
//
// Returns 0, or -1 with `EBADF` if the descriptor is not open, `ESTALE` if another file is open
// there, `EINVAL` for unknown flags, or `ENOMEM`. After an error the object belongs to the caller
// again, no function is called for it, and nothing is stored. The caller keeps the reference
// `expected`.
int fdt_table_replace_if(const struct fdt_table *table,
                         int fd,
                         struct fdt_file *expected,
                         void *object,
                         const struct fdt_data *data,
                         struct fdt_data *displaced_data);

// Closes the descriptor `fd`, if `expected` is open there.
//
// Stores the data that the descriptor had in `data`, unless that is null. Returns 0, or -1 with
// `EBADF` if the descriptor is not open, `ESTALE` if another file is open there, or `ENOMEM`. The
// caller keeps the reference `expected`.
int fdt_table_close_if(const struct fdt_table *table,
                       int fd,
                       struct fdt_file *expected,
                       struct fdt_data *data);

// Moves what is open at `from` to the descriptor `to`, with its data, and frees `from`,
// atomically.
//
// Stores what was open at `to` like `fdt_table_replace`. The same descriptor twice is no change. A
// lookup in another thread may find the file at both descriptors for a moment, and never at
// neither.
//
// Returns 0, or -1 with `EBADF` if `from` is not open, or `to` is negative or at or above the
// limit, `EBUSY` if `to` is reserved, or `ENOMEM`. After an error nothing is stored.
int fdt_table_rename(const struct fdt_table *table,
                     int from,
                     int to,
                     struct fdt_file **displaced,
                     struct fdt_data *displaced_data);

// Opens two objects at the two lowest free descriptors, atomically: `pipe(2)`.
//
// `flags` is `FD_CLOEXEC` or 0. Stores the descriptors in `fds`. Returns 0, or -1 with `EINVAL`
// for other flags, `EMFILE` or `ENOMEM`. After an error both objects belong to the caller again,
// no function is called for them, and nothing is stored.
int fdt_table_open_pair(const struct fdt_table *table,
                        void *first,
                        void *second,
                        unsigned int flags,
                        int *fds);

// Reserves the `count` lowest free descriptors: for the files of a message, up to 256 atomically,
// and more in steps of 256.
//
// `flags` is `FD_CLOEXEC` or 0. Fills in as many `reservations`, and stores the descriptors in
// `fds`, unless that is null, in ascending order. Returns 0; or marks all reservations as used,
// and returns -1 with `EINVAL` for other flags, `EMFILE` or `ENOMEM`.
int fdt_table_reserve_many(const struct fdt_table *table,
                           size_t count,
                           unsigned int flags,
                           struct fdt_reservation *reservations,
                           int *fds);

// Makes a weak reference to an open file, to be dropped by `fdt_weak_put`. Returns null with
// `ENOMEM`.
struct fdt_weak *fdt_file_downgrade(struct fdt_file *file);

// Returns a reference to the open file of a weak one, or null with `ESTALE` if the last reference
// was dropped. The caller keeps the weak reference.
struct fdt_file *fdt_weak_upgrade(const struct fdt_weak *weak);

// Drops a weak reference. Null is ignored.
void fdt_weak_put(struct fdt_weak *weak);

// Creates an empty table of private descriptors, at most `limit` open ones.
//
// A private descriptor has 64 bits, is neither 0 nor `UINT64_MAX`, and stays invalid once it was
// closed. `release`, `free` and `user` are those of `fdt_table_new`. Returns null with `ENOMEM`.
struct fdt_private *fdt_private_new(unsigned int limit,
                                    fdt_callback release,
                                    fdt_callback free,
                                    void *user);

// Closes every descriptor of a table, and frees the table. Null is ignored.
//
// Waits for sections and calls `free`, as `fdt_table_free` does for the last of the tables that
// were forked from one another.
void fdt_private_free(struct fdt_private *table);

// Opens `object` at a descriptor that was never given out before.
//
// Returns the descriptor, or 0 with `EMFILE` or `ENOMEM`. After an error the object belongs to the
// caller again, and no function is called for it.
uint64_t fdt_private_open(const struct fdt_private *table, void *object);

// Opens the file of a reference at a private descriptor. The caller keeps the reference, which may
// be from another table, as for `fdt_table_open_file`. Returns the descriptor, or 0 with `EMFILE`
// or `ENOMEM`.
uint64_t fdt_private_open_file(const struct fdt_private *table, struct fdt_file *file);

// Returns a reference to the open file of a private descriptor, or null with `EBADF`.
struct fdt_file *fdt_private_get(const struct fdt_private *table, uint64_t fd);

// Closes a private descriptor. Returns 0, or -1 with `EBADF`.
int fdt_private_close(const struct fdt_private *table, uint64_t fd);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FDTABLE_TABLE_H */
