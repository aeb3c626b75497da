//! How every call is made: the guard around it, what its pointers are worth, where its paths lead, and
//! the one process behind all of them.

pub(crate) mod call;
pub(crate) mod routing;
pub(crate) mod system;
pub(crate) mod target;
pub(crate) mod uaccess;
