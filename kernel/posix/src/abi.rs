//! The steps that all calls share: errno, user pointers, path routing, and the process.

mod actions;
pub(crate) mod boot;
pub(crate) mod call;
pub(crate) mod faults;
mod fd_paths;
pub(crate) mod guard;
pub(crate) mod handlers;
mod links;
pub(crate) mod mount_list;
pub(crate) mod mounts;
pub(crate) mod path;
pub(crate) mod pin;
pub(crate) mod routing;
pub(crate) mod system;
pub(crate) mod target;
pub(crate) mod uaccess;
mod working_directory;
