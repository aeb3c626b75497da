//! The system calls of a process, through the table of descriptors.

#[cfg(target_os = "linux")]
mod against_host;
mod attributes;
mod call;
mod capabilities;
mod clones;
mod connections;
mod contested;
mod copies;
mod descriptors;
mod devices;
mod directories;
mod epoll_races;
mod epolls;
mod eventfds;
mod limits;
mod links;
mod locks;
mod lower;
mod messages;
mod mounted;
mod mounts;
mod paths;
mod pipes;
mod polling;
mod proc;
mod regular_files;
mod rights;
mod seals;
mod selects;
mod shared_memory;
mod signals;
mod sockets;
mod splices;
mod transfers;
