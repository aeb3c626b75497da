//! Object caches.

#[allow(dead_code)]
mod local;
#[allow(dead_code)]
mod magazine;
