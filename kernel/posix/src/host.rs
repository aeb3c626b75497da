//! Calls of the host's kernel, with errors as values. The modules have the files of the host.
//!
//! A call that may block leaves the freezer while it blocks, so a fork by another thread does not
//! wait for it.

mod check;
mod credentials;
pub(crate) mod direct;
pub(crate) mod epoll;
pub(crate) mod fd;
pub(crate) mod file;
mod files;
pub(crate) mod in_use;
pub(crate) mod lower;
pub mod maps;
pub(crate) mod memfd;
pub(crate) mod names;
mod paths;
pub(crate) mod process;
mod transfers;
mod waits;
pub(crate) mod watch;

pub(crate) use check::*;
pub(crate) use credentials::*;
pub(crate) use files::*;
pub(crate) use paths::*;
pub(crate) use process::*;
pub(crate) use transfers::*;
pub(crate) use waits::*;
