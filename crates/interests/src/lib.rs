//! Interest sets and files in flight: the lists of open files that a kernel has beside its tables.
//!
//! A table of [`fdtable`] needs neither.
//!
//! - [`Interests`], the table part of `epoll`: files that are waited for together.
//! - [`in_flight`], for `SCM_RIGHTS`: files in messages, and the collection of sockets that hold
//!   each other.
//!
//! # Features
//!
//! | feature | default | effect |
//! |---|---|---|
//! | `std` | yes | sockets that hold each other in long chains are dropped in a loop, without recursion |

#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

extern crate alloc;

/// The examples of the file `README.md`.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod error;
pub mod in_flight;
mod interests;
#[cfg(all(test, loom))]
mod loom;

pub use error::Error;
pub use interests::{Interest, Interests, Key, Mode};
