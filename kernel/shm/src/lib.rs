//! Memory and locks that a tree of processes shares.
//!
//! A kernel that runs in the address space of each of its processes needs one set of objects. All
//! processes are forks of the first one, so what is mapped before the first fork has one address in
//! all of them, and so has code: a pointer into this memory, also one of a trait object, is valid
//! in each. There are three kinds of memory:
//!
//! | what | how it gets there |
//! |---|---|
//! | a heap | the program's global allocator is a [`Heap`], and a thread is [inside](enter) |
//! | statics | those in the section `fdt_shared`, which [`begin`] replaces by a shared mapping |
//! | all else | is private: a fork copies it |
//!
//! A thread is inside while it works for the kernel, and goes [outside](leave) for what belongs to
//! its process alone: a thread that is started, a table of host descriptors. Memory is freed by its
//! address, so an object may be dropped on either side.
//!
//! Until [`begin`] is called, all memory is private, and a thread that enters is not inside.
//!
//! [`OnceCell`], [`Mutex`] and [`RwLock`] sleep on the word itself, which may be in shared memory.
//! With shared memory, a lock whose owner has died passes to a waiter.

#![cfg(target_os = "linux")]

mod begin;
mod heap;
mod hooks;
mod lock;
mod mapping;
mod once;
mod thread;
mod visit;

pub use begin::begin;
pub use heap::Heap;
pub use lock::{Mutex, MutexGuard, RawRwLock, RwLock, RwLockReadGuard, RwLockWriteGuard, Threads};
pub use mapping::{aside, make_large_pages, map_pages, unmap_pages};
pub use once::OnceCell;
pub use thread::{
    FIRST, Noted, Side, after_last_calls, enter, forget_thread, has_died, is_in_call, is_shared,
    leave, name_child, process, words_of_thread,
};
