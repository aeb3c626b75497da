/* fdtable: what a kernel provides to a library that is built without an operating system.
 *
 * Generated from the Rust sources: FDTABLE_BLESS=1 cargo test -p fdtable-capi --test headers */

#ifndef FDTABLE_PLATFORM_H
#define FDTABLE_PLATFORM_H

#include <stddef.h>
#include <stdint.h>
struct fdt_platform;

#ifdef __cplusplus
extern "C" {
#endif

// The kernel defines it.
extern const struct fdt_platform fdt_platform;

#ifdef __cplusplus
}
#endif

// Services of a kernel. It defines one constant of this type, `fdt_platform`.
//
// `allocate`, `free` and `panic` are required. Each of the others may be null, which is correct
// where its comment says so, and costs time. A port begins with the three and adds one after the
// other; `docs/porting.md` has the order, and the documentation of `Platform` in
// `crates/sync/src/platform/kernel.rs` says what each may assume. No function may call the
// library, but for `panic`, which does not return.
struct fdt_platform {
    // Allocates `size` bytes at a multiple of `align`, a power of two. Null if there is no memory.
    // It must not sleep.
    void *(*allocate)(size_t size, size_t align);
    // Frees what `allocate` returned for this size and alignment.
    void (*free)(void *memory, size_t size, size_t align);
    // Stops the kernel, after a bug of the library, or where `fdt_private_new` has no memory: the
    // text says where. Does not return.
    void (*panic)(const char *text, size_t length);
    // Stores the errno of the calling thread. The numbers are those of Linux. If it is null, the
    // return values alone say that a call has failed.
    void (*set_errno)(int error);
    // Returns how many CPUs there can be: the same at each call. Null: one.
    size_t (*cpus)(void);
    // Returns the index of the CPU that runs the caller, below `cpus`. It may be out of date when
    // it returns. Null: 0.
    size_t (*cpu)(void);
    // Returns the memory node of that CPU. Null: 0.
    uint16_t (*node)(void);
    // Returns the word of the calling thread: null before `set_thread_word`. Null, together with
    // that: sections are slow, and a thread that waits inside one waits forever.
    void *(*thread_word)(void);
    // Stores the word of the calling thread.
    void (*set_thread_word)(void *word);
    // Keeps other code that uses the library off this CPU; nests. Null, together with
    // `leave_lock`: no thread is preempted inside the library, and no interrupt handler uses it.
    void (*enter_lock)(void);
    // Undoes one `enter_lock`.
    void (*leave_lock)(void);
    // Waits in a loop for another CPU: its step of this number. Null: pauses.
    void (*relax)(uint32_t attempts);
    // Runs a full fence on all CPUs that run a thread. Null: sections have fences of their own.
    void (*heavy_fence)(void);
    // Allocates a page of 4,096 bytes in a node. Null, together with `free_page`: `allocate` does.
    void *(*allocate_page)(uint16_t node);
    // Frees what `allocate_page` returned.
    void (*free_page)(void *page);
    // Returns the time in nanoseconds, since any moment. Null: 0.
    uint64_t (*nanoseconds)(void);
    // Asks for an `fdt_tick` within some milliseconds. Null: `free` functions run in later calls.
    void (*want_tick)(void);
    // Distance of the area for restartable sequences from the base of `gs`, on x86-64 and with a
    // heavy fence. 0: no sequences.
    ptrdiff_t sequence_area;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Runs `free` functions that are due. A kernel calls it after `want_tick`, outside of interrupt
// handlers, sections and locks, and again some milliseconds after a call that returned 1.
//
// Returns 1 if some are still queued, 0 if none is, or -1 with `EDEADLK` inside a section or a
// `free` function.
int fdt_tick(void);

// Ends the use of the library by the calling thread. A thread calls it before it ends, if the
// kernel has `thread_word`.
void fdt_end_thread(void);

// Returns where code continues that an interrupt has interrupted at this address. A kernel with a
// `sequence_area` calls it in the handler of each interrupt of its own code.
size_t fdt_resume_address(size_t interrupted);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FDTABLE_PLATFORM_H */
