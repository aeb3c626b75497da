/* fdtable-posix: POSIX calls on descriptors of their own.
 *
 * Each fdt_ function is the system call of that name: see its man page, and docs/posix.md for the
 * differences. Structs and constants are those of the system's headers.
 *
 * The binary interface: before 1.0, a new minor version may change or remove functions and structs.
 * The soname has the minor version, so a program runs only with the one that it was linked with. A
 * new patch version only adds functions. No struct ever shrinks, and as long as the soname is the
 * same none grows either.
 *
 * Generated from the Rust sources: FDTABLE_BLESS=1 cargo test -p fdtable-posix --test headers */

#ifndef FDTABLE_POSIX_CALLS_H
#define FDTABLE_POSIX_CALLS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/select.h>
#if !defined(__linux__) || !defined(__LP64__)
#error "fdtable's C interface is for 64-bit Linux"
#endif

struct stat;
struct statx;
struct statfs;
struct open_how;
struct sigaction;
struct timespec;
struct timeval;
struct pollfd;
struct rlimit;
struct epoll_event;
struct iovec;
struct msghdr;
struct mmsghdr;
struct sockaddr;
struct utimbuf;
struct itimerspec;

#ifdef __cplusplus
extern "C" {
#endif

// Opens a path: `open(2)`. The third argument is a `mode_t`, if the flags require one.
int fdt_open(const char *path, int flags, ...);

// Opens a path relative to a directory: `openat(2)`.
int fdt_openat(int directory, const char *path, int flags, ...);

// Runs a command on a descriptor: `fcntl(2)`.
int fdt_fcntl(int fd, int command, ...);

// Runs a request on an open file: `ioctl(2)`.
int fdt_ioctl(int fd, unsigned long request, ...);

#ifdef __cplusplus
}
#endif


#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Creates a counter: `eventfd(2)`.
int fdt_eventfd(unsigned int initial, int flags);

// Creates an epoll: `epoll_create(2)`.
int fdt_epoll_create(int size);

// Creates an epoll, with flags: `epoll_create1(2)`.
int fdt_epoll_create1(int flags);

// Adds, changes or removes a descriptor of an epoll: `epoll_ctl(2)`.
int fdt_epoll_ctl(int epfd, int operation, int fd, struct epoll_event *event);

// Waits for events of an epoll: `epoll_wait(2)`. A negative timeout means no limit.
int fdt_epoll_wait(int epfd, struct epoll_event *events, int most, int milliseconds);

// Waits for events of an epoll, with another signal mask: `epoll_pwait(2)`.
int fdt_epoll_pwait(int epfd,
                    struct epoll_event *events,
                    int most,
                    int milliseconds,
                    const sigset_t *mask);

// Waits for events of an epoll, with a timeout in nanoseconds: `epoll_pwait2(2)`.
int fdt_epoll_pwait2(int epfd,
                     struct epoll_event *events,
                     int most,
                     const struct timespec *timeout,
                     const sigset_t *mask);

// Creates a timer: `timerfd_create(2)`.
int fdt_timerfd_create(int clock, int flags);

// Sets a timer: `timerfd_settime(2)`.
int fdt_timerfd_settime(int fd, int flags, const struct itimerspec *new_, struct itimerspec *old);

// Returns the setting of a timer: `timerfd_gettime(2)`.
int fdt_timerfd_gettime(int fd, struct itimerspec *spec);

// Creates a file that reports changes of host files: `inotify_init(2)`.
int fdt_inotify_init(void);

// Creates a file that reports changes of host files, with flags: `inotify_init1(2)`.
int fdt_inotify_init1(int flags);

// Adds a watch for a host path: `inotify_add_watch(2)`. Fails with `EOPNOTSUPP` for a path of
// fdtable.
int fdt_inotify_add_watch(int fd, const char *path, uint32_t mask);

// Removes a watch: `inotify_rm_watch(2)`.
int fdt_inotify_rm_watch(int fd, int watch);

// Creates a file that receives signals, or changes its mask: `signalfd(2)`.
int fdt_signalfd(int fd, const sigset_t *mask, int flags);

// Waits until a descriptor is ready: `poll(2)`. A negative timeout means no limit.
int fdt_poll(struct pollfd *fds, unsigned long count, int milliseconds);

// Waits like `poll`, with another signal mask: `ppoll(2)`.
int fdt_ppoll(struct pollfd *fds,
              unsigned long count,
              const struct timespec *timeout,
              const sigset_t *mask);

// Waits until a descriptor of three sets is ready: `select(2)`. Writes the remaining time to
// `timeout`.
int fdt_select(int count, fd_set *read, fd_set *write, fd_set *except, struct timeval *timeout);

// Waits like `select`, with another signal mask, and does not change the timeout: `pselect(2)`.
int fdt_pselect(int count,
                fd_set *read,
                fd_set *write,
                fd_set *except,
                const struct timespec *timeout,
                const sigset_t *mask);

// Checks permissions on a path, for the real user: `access(2)`.
int fdt_access(const char *path, int mode);

// Checks permissions on a path relative to a directory: `faccessat(2)`.
int fdt_faccessat(int directory, const char *path, int mode, int flags);

// Sets the permissions of a path: `chmod(2)`.
int fdt_chmod(const char *path, mode_t mode);

// Sets the permissions of an open file: `fchmod(2)`.
int fdt_fchmod(int fd, mode_t mode);

// Sets the permissions of a path relative to a directory: `fchmodat(2)`, `fchmodat2(2)`.
int fdt_fchmodat(int directory, const char *path, mode_t mode, int flags);

// Sets the owner and group of a path: `chown(2)`.
int fdt_chown(const char *path, uid_t owner, gid_t group);

// Sets the owner and group of a path, without following a symbolic link: `lchown(2)`.
int fdt_lchown(const char *path, uid_t owner, gid_t group);

// Sets the owner and group of an open file: `fchown(2)`.
int fdt_fchown(int fd, uid_t owner, gid_t group);

// Sets the owner and group of a path relative to a directory: `fchownat(2)`.
int fdt_fchownat(int directory, const char *path, uid_t owner, gid_t group, int flags);

// Sets the permissions that new files do not get, and returns the previous ones: `umask(2)`.
mode_t fdt_umask(mode_t mask);

// Sets the size of the file at a path: `truncate(2)`.
int fdt_truncate(const char *path, off_t length);

// Sets the times of a path relative to a directory, in nanoseconds: `utimensat(2)`. Without a
// path, sets those of the open file `directory`.
int fdt_utimensat(int directory, const char *path, const struct timespec *times, int flags);

// Sets the times of a path, in microseconds: `utimes(2)`.
int fdt_utimes(const char *path, const struct timeval *times);

// Sets the times of a path relative to a directory, in microseconds: `futimesat(2)`.
int fdt_futimesat(int directory, const char *path, const struct timeval *times);

// Sets the times of a path, in seconds: `utime(2)`.
int fdt_utime(const char *path, const struct utimbuf *times);

// Copies from one open file to another: `sendfile(2)`.
ssize_t fdt_sendfile(int to, int from, off_t *offset, size_t count);

// Copies a range of a file to another: `copy_file_range(2)`.
ssize_t fdt_copy_file_range(int from,
                            off_t *from_offset,
                            int to,
                            off_t *to_offset,
                            size_t count,
                            unsigned int flags);

// Allocates or frees space for a range of a file: `fallocate(2)`.
int fdt_fallocate(int fd, int how, off_t offset, off_t length);

// Announces how a file will be used: `fadvise64(2)`. It has no effect on fdtable's files.
int fdt_fadvise64(int fd, off_t offset, off_t length, int advice);

// Reads ahead: `readahead(2)`. It has no effect on fdtable's files.
ssize_t fdt_readahead(int fd, off_t _offset, size_t _count);

// Waits until the host has written everything: `sync(2)`.
void fdt_sync(void);

// Waits until the file system of a descriptor is written: `syncfs(2)`. It does nothing for
// fdtable's files, which are in memory.
int fdt_syncfs(int fd);

// Waits until a range of a file is written: `sync_file_range(2)`. It does nothing for fdtable's
// files, which are in memory.
int fdt_sync_file_range(int fd, off_t offset, off_t length, unsigned int flags);

// Changes the working directory: `chdir(2)`.
int fdt_chdir(const char *path);

// Changes the working directory to an open directory: `fchdir(2)`.
int fdt_fchdir(int fd);

// Stores the path of the working directory, and returns its length with the null: `getcwd(2)`.
ssize_t fdt_getcwd(char *buf, size_t size);

// Reads directory entries: `getdents64(2)`.
ssize_t fdt_getdents64(int fd, void *buf, size_t size);

// Takes or releases a lock on a whole file: `flock(2)`.
int fdt_flock(int fd, int operation);

// Creates an anonymous file: `memfd_create(2)`.
int fdt_memfd_create(const char *name, unsigned int flags);

// Maps memory: `mmap(2)`.
void *fdt_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset);

// Mounts an empty in-memory file system at `path`. All paths below it lead there, whatever the
// host has there. As on a `tmpfs`, its files take at most half of the host's memory, and every
// user may make files in its root. Fails with `EBUSY` if there is a mount already, and with
// `EINVAL` for the root.
int fdt_mount(const char *path);

// Unmounts and discards a file system: its paths are the host's again. Fails with `EINVAL` if
// `path` is not a mount, and with `EBUSY` while a file in it is open or is the working directory.
int fdt_umount(const char *path);

// Creates a directory: `mkdir(2)`.
int fdt_mkdir(const char *path, mode_t mode);

// Creates a directory relative to another: `mkdirat(2)`.
int fdt_mkdirat(int directory, const char *path, mode_t mode);

// Creates a file or a FIFO: `mknod(2)`.
int fdt_mknod(const char *path, mode_t mode, dev_t device);

// Creates a file or a FIFO relative to a directory: `mknodat(2)`.
int fdt_mknodat(int directory, const char *path, mode_t mode, dev_t device);

// Removes a name of a file: `unlink(2)`.
int fdt_unlink(const char *path);

// Removes an empty directory: `rmdir(2)`.
int fdt_rmdir(const char *path);

// Removes a name relative to a directory: `unlinkat(2)`.
int fdt_unlinkat(int directory, const char *path, int flags);

// Renames a file: `rename(2)`.
int fdt_rename(const char *old, const char *new_);

// Renames a file, with paths relative to directories: `renameat(2)`.
int fdt_renameat(int old_directory, const char *old, int new_directory, const char *new_);

// Renames a file, with flags: `renameat2(2)`.
int fdt_renameat2(int old_directory,
                  const char *old,
                  int new_directory,
                  const char *new_,
                  unsigned int flags);

// Creates a hard link: `link(2)`.
int fdt_link(const char *old, const char *new_);

// Creates a hard link, with paths relative to directories: `linkat(2)`.
int fdt_linkat(int old_directory, const char *old, int new_directory, const char *new_, int flags);

// Creates a symbolic link: `symlink(2)`.
int fdt_symlink(const char *target, const char *path);

// Creates a symbolic link relative to a directory: `symlinkat(2)`.
int fdt_symlinkat(const char *target, int directory, const char *path);

// Reads the target of a symbolic link: `readlink(2)`.
ssize_t fdt_readlink(const char *path, char *buf, size_t size);

// Reads the target of a symbolic link relative to a directory: `readlinkat(2)`.
ssize_t fdt_readlinkat(int directory, const char *path, char *buf, size_t size);

// Creates or truncates a file, and opens it for writing: `creat(2)`.
int fdt_creat(const char *path, mode_t mode);

// Opens a path by a struct: `openat2(2)`.
int fdt_openat2(int directory, const char *path, const struct open_how *how, size_t size);

// Moves bytes from or to a pipe: `splice(2)`. Between host files without copying; a file of
// fdtable is copied.
ssize_t fdt_splice(int from,
                   off_t *from_offset,
                   int to,
                   off_t *to_offset,
                   size_t count,
                   unsigned int flags);

// Copies bytes between pipes: `tee(2)`. Both must be the host's or both fdtable's.
ssize_t fdt_tee(int from, int to, size_t count, unsigned int flags);

// Moves memory to a pipe, or from one: `vmsplice(2)`. A pipe of fdtable gets a copy.
ssize_t fdt_vmsplice(int fd, const struct iovec *bufs, size_t count, unsigned int flags);

// Returns the status of a path: `stat(2)`.
int fdt_stat(const char *path, struct stat *stat);

// Returns the status of a path, without following a symbolic link: `lstat(2)`.
int fdt_lstat(const char *path, struct stat *stat);

// Returns the status of an open file: `fstat(2)`.
int fdt_fstat(int fd, struct stat *stat);

// Returns the status of a path relative to a directory: `fstatat(2)`.
int fdt_fstatat(int directory, const char *path, struct stat *stat, int flags);

// Returns the status of a path relative to a directory, with the birth time: `statx(2)`.
int fdt_statx(int directory, const char *path, int flags, unsigned int mask, struct statx *statx);

// Returns the status of the file system of a path: `statfs(2)`.
int fdt_statfs(const char *path, struct statfs *statfs);

// Returns the status of the file system of an open file: `fstatfs(2)`.
int fdt_fstatfs(int fd, struct statfs *statfs);

// Reads at the position: `read(2)`.
ssize_t fdt_read(int fd, void *buf, size_t count);

// Writes at the position: `write(2)`.
ssize_t fdt_write(int fd, const void *bytes, size_t count);

// Reads at an offset: `pread(2)`.
ssize_t fdt_pread(int fd, void *buf, size_t count, off_t offset);

// Writes at an offset: `pwrite(2)`.
ssize_t fdt_pwrite(int fd, const void *bytes, size_t count, off_t offset);

// Moves the position: `lseek(2)`.
off_t fdt_lseek(int fd, off_t offset, int whence);

// Sets the size of an open file: `ftruncate(2)`.
int fdt_ftruncate(int fd, off_t length);

// Waits until the file is on stable storage: `fsync(2)`.
int fdt_fsync(int fd);

// Like `fsync`: `fdatasync(2)`.
int fdt_fdatasync(int fd);

// Reads into several buffers: `readv(2)`.
ssize_t fdt_readv(int fd, const struct iovec *bufs, int count);

// Writes from several buffers: `writev(2)`.
ssize_t fdt_writev(int fd, const struct iovec *bufs, int count);

// Reads into several buffers at an offset: `preadv(2)`.
ssize_t fdt_preadv(int fd, const struct iovec *bufs, int count, off_t offset);

// Writes from several buffers at an offset: `pwritev(2)`.
ssize_t fdt_pwritev(int fd, const struct iovec *bufs, int count, off_t offset);

// Reads like `preadv`, or like `readv` if the offset is -1: `preadv2(2)`.
ssize_t fdt_preadv2(int fd, const struct iovec *bufs, int count, off_t offset, int flags);

// Writes like `pwritev`, or like `writev` if the offset is -1: `pwritev2(2)`.
ssize_t fdt_pwritev2(int fd, const struct iovec *bufs, int count, off_t offset, int flags);

// Sends bytes to an address: `sendto(2)`.
ssize_t fdt_sendto(int fd,
                   const void *bytes,
                   size_t count,
                   int flags,
                   const struct sockaddr *to,
                   unsigned int length);

// Sends a message: `sendmsg(2)`.
ssize_t fdt_sendmsg(int fd, const struct msghdr *message, int flags);

// Receives bytes, and the sender's address: `recvfrom(2)`.
ssize_t fdt_recvfrom(int fd,
                     void *buf,
                     size_t count,
                     int flags,
                     struct sockaddr *from,
                     unsigned int *length);

// Receives a message: `recvmsg(2)`.
ssize_t fdt_recvmsg(int fd, struct msghdr *message, int flags);

// Sends several messages: `sendmmsg(2)`.
int fdt_sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags);

// Receives several messages: `recvmmsg(2)`. The timeout is checked after each message.
int fdt_recvmmsg(int fd,
                 struct mmsghdr *messages,
                 unsigned int count,
                 int flags,
                 struct timespec *timeout);

// Creates a pipe: `pipe(2)`.
int fdt_pipe(int *fds);

// Creates a pipe with flags: `pipe2(2)`.
int fdt_pipe2(int *fds, int flags);

// Creates a socket: `socket(2)`.
int fdt_socket(int domain, int kind, int protocol);

// Creates a connected pair of sockets: `socketpair(2)`.
int fdt_socketpair(int domain, int kind, int protocol, int *fds);

// Binds a socket to an address: `bind(2)`.
int fdt_bind(int fd, const struct sockaddr *address, unsigned int length);

// Listens for connections: `listen(2)`.
int fdt_listen(int fd, int backlog);

// Accepts a connection: `accept(2)`.
int fdt_accept(int fd, struct sockaddr *address, unsigned int *length);

// Accepts a connection, with flags: `accept4(2)`.
int fdt_accept4(int fd, struct sockaddr *address, unsigned int *length, int flags);

// Connects a socket: `connect(2)`.
int fdt_connect(int fd, const struct sockaddr *address, unsigned int length);

// Shuts down receiving or sending: `shutdown(2)`.
int fdt_shutdown(int fd, int how);

// Returns the address of a socket: `getsockname(2)`.
int fdt_getsockname(int fd, struct sockaddr *address, unsigned int *length);

// Returns the address of the peer: `getpeername(2)`.
int fdt_getpeername(int fd, struct sockaddr *address, unsigned int *length);

// Returns the value of an option: `getsockopt(2)`.
int fdt_getsockopt(int fd, int level, int name, void *value, unsigned int *length);

// Sets an option: `setsockopt(2)`.
int fdt_setsockopt(int fd, int level, int name, const void *value, unsigned int length);

// Sets the user IDs: `setuid(2)`.
int fdt_setuid(uid_t user);

// Sets the group IDs: `setgid(2)`.
int fdt_setgid(gid_t group);

// Sets the real and the effective user ID: `setreuid(2)`.
int fdt_setreuid(uid_t real, uid_t effective);

// Sets the real and the effective group ID: `setregid(2)`.
int fdt_setregid(gid_t real, gid_t effective);

// Sets the real, the effective and the saved user ID: `setresuid(2)`.
int fdt_setresuid(uid_t real, uid_t effective, uid_t saved);

// Sets the real, the effective and the saved group ID: `setresgid(2)`.
int fdt_setresgid(gid_t real, gid_t effective, gid_t saved);

// Sets the user ID that permissions of files are checked for, and returns the one before:
// `setfsuid(2)`.
int fdt_setfsuid(uid_t user);

// Sets the group ID that permissions of files are checked for, and returns the one before:
// `setfsgid(2)`.
int fdt_setfsgid(gid_t group);

// Sets the capabilities of the calling thread: `capset(2)`.
int fdt_capset(void *header, const void *data);

// Closes a descriptor: `close(2)`.
int fdt_close(int fd);

// Closes all descriptors from `first` to `last`, or sets their flags: `close_range(2)`.
int fdt_close_range(unsigned int first, unsigned int last, int flags);

// Duplicates a descriptor to the lowest free one: `dup(2)`.
int fdt_dup(int old);

// Duplicates a descriptor to `new`: `dup2(2)`.
int fdt_dup2(int old, int new_);

// Duplicates a descriptor to `new`, with `O_CLOEXEC` or 0: `dup3(2)`.
int fdt_dup3(int old, int new_, int flags);

// Returns the host descriptor of a file, for calls that fdtable does not have. The file stays open
// in the table. Fails with `EINVAL` if it is not a host file.
int fdt_hostfd(int fd);

// Moves a host descriptor into the table, and returns its descriptor there. From now on the table
// owns it: closing the last descriptor of the file closes it. After an error it is unchanged.
int fdt_adopt(int host_fd);

// Returns a limit: `getrlimit(2)`.
int fdt_getrlimit(int resource, struct rlimit *limit);

// Sets a limit: `setrlimit(2)`.
int fdt_setrlimit(int resource, const struct rlimit *limit);

// Returns a limit, and optionally sets it: `prlimit(2)`.
int fdt_prlimit(pid_t process, int resource, const struct rlimit *new_, struct rlimit *old);

// Returns and changes the action for a signal: `sigaction(2)`.
int fdt_sigaction(int signal, const struct sigaction *new_, struct sigaction *old);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FDTABLE_POSIX_CALLS_H */
