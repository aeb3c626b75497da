/* fdtable: a table of descriptors, and POSIX calls on descriptors of its own.
 *
 * Each fdt_ function of the first part is the system call of that name; see its man page, and
 * docs/posix.md for what is different. <fdtable/posix.h> maps the plain names to them.
 *
 * Made from the Rust sources: FDTABLE_BLESS=1 cargo test -p fdtable-posix --test headers */

#ifndef FDTABLE_H
#define FDTABLE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/select.h>
#include "fdtable/types.h"
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
struct termios;
struct itimerspec;
struct __dirstream;
struct dirent;
struct _IO_FILE;

#ifdef __cplusplus
extern "C" {
#endif

// Opens a path: `open(2)`. The third argument is a `mode_t`, if the flags ask for one.
int fdt_open(const char *path, int flags, ...);

// Opens a path that is relative to a directory: `openat(2)`.
int fdt_openat(int directory, const char *path, int flags, ...);

// Runs a command on a descriptor: `fcntl(2)`.
int fdt_fcntl(int fd, int command, ...);

// Asks an open file for something: `ioctl(2)`.
int fdt_ioctl(int fd, unsigned long request, ...);

// Makes a system call by its number: `syscall(2)`.
long fdt_syscall(long number, ...);

#ifdef __cplusplus
}
#endif


// Reference to an open file.
struct fdt_file;

// Table of descriptors.
struct fdt_table;

// Function that a table calls with the pointer of an open file and what the table was made with.
typedef void (*fdt_callback)(void *object, void *user);

// Number that is taken and has no file yet.
struct fdt_reservation {
    // Not for the caller.
    size_t opaque[2];
};

// Read-side section of a thread: what `fdt_read_lock` answers and `fdt_read_unlock` takes.
struct fdt_section {
    // Not for the caller.
    size_t opaque[2];
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Makes a counter: `eventfd(2)`.
int fdt_eventfd(unsigned int initial, int flags);

// Reads a counter: `eventfd_read(3)`.
int fdt_eventfd_read(int fd, uint64_t *value);

// Adds to a counter: `eventfd_write(3)`.
int fdt_eventfd_write(int fd, uint64_t value);

// Makes a timer: `timerfd_create(2)`.
int fdt_timerfd_create(int clock, int flags);

// Sets a timer: `timerfd_settime(2)`.
int fdt_timerfd_settime(int fd, int flags, const struct itimerspec *new_, struct itimerspec *old);

// Returns what a timer is set to: `timerfd_gettime(2)`.
int fdt_timerfd_gettime(int fd, struct itimerspec *spec);

// Makes a set of descriptors to wait for: `epoll_create(2)`.
int fdt_epoll_create(int size);

// Makes a set of descriptors to wait for: `epoll_create1(2)`.
int fdt_epoll_create1(int flags);

// Adds, changes or takes out a descriptor of a set: `epoll_ctl(2)`.
int fdt_epoll_ctl(int epfd, int operation, int fd, struct epoll_event *event);

// Waits for a set: `epoll_wait(2)`. A negative timeout is none.
int fdt_epoll_wait(int epfd, struct epoll_event *events, int most, int milliseconds);

// Waits for a set with other signals blocked: `epoll_pwait(2)`.
int fdt_epoll_pwait(int epfd,
                    struct epoll_event *events,
                    int most,
                    int milliseconds,
                    const sigset_t *mask);

// Waits for a set with other signals blocked, and nanoseconds: `epoll_pwait2(2)`.
int fdt_epoll_pwait2(int epfd,
                     struct epoll_event *events,
                     int most,
                     const struct timespec *timeout,
                     const sigset_t *mask);

// Waits until a descriptor is ready: `poll(2)`. A negative timeout is none.
int fdt_poll(struct pollfd *fds, unsigned long count, int milliseconds);

// Waits as `poll` does, with other signals blocked: `ppoll(2)`.
int fdt_ppoll(struct pollfd *fds,
              unsigned long count,
              const struct timespec *timeout,
              const sigset_t *mask);

// Waits until a descriptor of three sets is ready: `select(2)`. `timeout` is left with what is left of
// it.
int fdt_select(int count,
               fd_set *read,
               fd_set *write,
               fd_set *except,
               struct timeval *timeout);

// Waits as `select` does, with other signals blocked, and leaves the timeout as it is: `pselect(2)`.
int fdt_pselect(int count,
                fd_set *read,
                fd_set *write,
                fd_set *except,
                const struct timespec *timeout,
                const sigset_t *mask);

// Asks whether the process may use a path so: `access(2)`.
int fdt_access(const char *path, int mode);

// Asks the same, for the effective user: `euidaccess(3)`.
int fdt_euidaccess(const char *path, int mode);

// Asks whether the process may use a path below a directory so: `faccessat(2)`.
int fdt_faccessat(int directory, const char *path, int mode, int flags);

// Sets the permissions of a path: `chmod(2)`.
int fdt_chmod(const char *path, mode_t mode);

// Sets the permissions of an open file: `fchmod(2)`.
int fdt_fchmod(int fd, mode_t mode);

// Sets the permissions of a path below a directory: `fchmodat(2)`.
int fdt_fchmodat(int directory, const char *path, mode_t mode, int flags);

// Sets the owners of a path: `chown(2)`.
int fdt_chown(const char *path, uid_t owner, gid_t group);

// Sets the owners of a path, or of the symbolic link that it is: `lchown(2)`.
int fdt_lchown(const char *path, uid_t owner, gid_t group);

// Sets the owners of an open file: `fchown(2)`.
int fdt_fchown(int fd, uid_t owner, gid_t group);

// Sets the owners of a path below a directory: `fchownat(2)`.
int fdt_fchownat(int directory, const char *path, uid_t owner, gid_t group, int flags);

// Sets which permissions new files do not get, and returns which were: `umask(2)`.
mode_t fdt_umask(mode_t mask);

// Makes the file of a path longer or shorter: `truncate(2)`.
int fdt_truncate(const char *path, off_t length);

// Sets the times of a path below a directory, to the nanosecond: `utimensat(2)`. Without a path, of
// the open file `directory`.
int fdt_utimensat(int directory,
                  const char *path,
                  const struct timespec *times,
                  int flags);

// Sets the times of an open file, to the nanosecond: `futimens(3)`.
int fdt_futimens(int fd, const struct timespec *times);

// Sets the times of a path, to the microsecond: `utimes(2)`.
int fdt_utimes(const char *path, const struct timeval *times);

// Sets the times of a path, or of the symbolic link that it is: `lutimes(3)`.
int fdt_lutimes(const char *path, const struct timeval *times);

// Sets the times of an open file, to the microsecond: `futimes(3)`.
int fdt_futimes(int fd, const struct timeval *times);

// Sets the times of a path below a directory, to the microsecond: `futimesat(2)`.
int fdt_futimesat(int directory, const char *path, const struct timeval *times);

// Sets the times of a path, to the second: `utime(2)`.
int fdt_utime(const char *path, const struct utimbuf *times);

// Returns a value of the file system of a path: `pathconf(3)`.
long fdt_pathconf(const char *path, int name);

// Returns a value of the file system of an open file: `fpathconf(3)`.
long fdt_fpathconf(int fd, int name);

// Copies a file to another open file: `sendfile(2)`.
ssize_t fdt_sendfile(int to, int from, off_t *offset, size_t count);

// Copies a part of a file to another: `copy_file_range(2)`.
ssize_t fdt_copy_file_range(int from,
                            off_t *from_offset,
                            int to,
                            off_t *to_offset,
                            size_t count,
                            unsigned int flags);

// Gets room for a part of a file: `fallocate(2)`.
int fdt_fallocate(int fd, int how, off_t offset, off_t length);

// Gets room for a part of a file, and answers the error's number: `posix_fallocate(3)`.
int fdt_posix_fallocate(int fd, off_t offset, off_t length);

// Tells how a file will be used, which means nothing here, and answers the error's number:
// `posix_fadvise(2)`.
int fdt_posix_fadvise(int fd, off_t offset, off_t length, int advice);

// Reads ahead, which means nothing here: `readahead(2)`.
ssize_t fdt_readahead(int fd, off_t _offset, size_t _count);

// Waits until the host has written all: `sync(2)`.
void fdt_sync(void);

// Waits until the file system of a descriptor is written: `syncfs(2)`. Ours is in memory.
int fdt_syncfs(int fd);

// Waits until a part of a file is written: `sync_file_range(2)`. Ours is in memory.
int fdt_sync_file_range(int fd, off_t offset, off_t length, unsigned int flags);

// Changes the working directory: `chdir(2)`.
int fdt_chdir(const char *path);

// Changes the working directory to an open one: `fchdir(2)`.
int fdt_fchdir(int fd);

// Returns the path of the working directory: `getcwd(3)`. Without a buffer it is in memory of
// `malloc`.
char *fdt_getcwd(char *buf, size_t size);

// Returns the path of the working directory in memory of `malloc`: `get_current_dir_name(3)`.
char *fdt_get_current_dir_name(void);

// Reads names of a directory, as the system call has them: `getdents64(2)`.
ssize_t fdt_getdents64(int fd, void *buf, size_t size);

// Takes or gives up a lock of a whole file: `flock(2)`.
int fdt_flock(int fd, int operation);

// Takes, tests or gives up a lock of the bytes from the position on: `lockf(3)`.
int fdt_lockf(int fd, int command, off_t length);

// Makes a file without a name: `memfd_create(2)`.
int fdt_memfd_create(const char *name, unsigned int flags);

// Maps memory: `mmap(2)`.
void *fdt_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset);

// Makes an empty file system in memory, and has all paths below `path` lead there, whatever the host
// has there. `EBUSY` if there is a mount already; `EINVAL` for the root.
int fdt_mount(const char *path);

// Takes a mount away, with all that is in it: its paths are the host's again. `EINVAL` if there is no
// mount of this path; `EBUSY` while a file in it is open, or it is the working directory.
int fdt_umount(const char *path);

// Makes a directory: `mkdir(2)`.
int fdt_mkdir(const char *path, mode_t mode);

// Makes a directory below another: `mkdirat(2)`.
int fdt_mkdirat(int directory, const char *path, mode_t mode);

// Makes a FIFO: `mkfifo(3)`.
int fdt_mkfifo(const char *path, mode_t mode);

// Makes a FIFO below a directory: `mkfifoat(3)`.
int fdt_mkfifoat(int directory, const char *path, mode_t mode);

// Makes a file or a FIFO: `mknod(2)`.
int fdt_mknod(const char *path, mode_t mode, dev_t device);

// Makes a file or a FIFO below a directory: `mknodat(2)`.
int fdt_mknodat(int directory, const char *path, mode_t mode, dev_t device);

// Removes the name of a file: `unlink(2)`.
int fdt_unlink(const char *path);

// Removes an empty directory: `rmdir(2)`.
int fdt_rmdir(const char *path);

// Removes a name below a directory: `unlinkat(2)`.
int fdt_unlinkat(int directory, const char *path, int flags);

// Removes a name, be it of a file or of an empty directory: `remove(3)`.
int fdt_remove(const char *path);

// Gives a file another name: `rename(2)`.
int fdt_rename(const char *old, const char *new_);

// Gives a file another name, below directories: `renameat(2)`.
int fdt_renameat(int old_directory, const char *old, int new_directory, const char *new_);

// Gives a file another name, with flags: `renameat2(2)`.
int fdt_renameat2(int old_directory,
                  const char *old,
                  int new_directory,
                  const char *new_,
                  unsigned int flags);

// Gives a file one name more: `link(2)`.
int fdt_link(const char *old, const char *new_);

// Gives a file one name more, below directories: `linkat(2)`.
int fdt_linkat(int old_directory, const char *old, int new_directory, const char *new_, int flags);

// Makes a symbolic link: `symlink(2)`.
int fdt_symlink(const char *target, const char *path);

// Makes a symbolic link below a directory: `symlinkat(2)`.
int fdt_symlinkat(const char *target, int directory, const char *path);

// Reads where a symbolic link leads: `readlink(2)`.
ssize_t fdt_readlink(const char *path, char *buf, size_t size);

// Reads where a symbolic link below a directory leads: `readlinkat(2)`.
ssize_t fdt_readlinkat(int directory, const char *path, char *buf, size_t size);

// Makes or empties a file, and opens it for writing: `creat(2)`.
int fdt_creat(const char *path, mode_t mode);

// Returns the path without links, in `resolved` (4,096 bytes) or in memory of `malloc`:
// `realpath(3)`.
char *fdt_realpath(const char *path, char *resolved);

// Returns the path without links in memory of `malloc`: `canonicalize_file_name(3)`.
char *fdt_canonicalize_file_name(const char *path);

// Describes a path: `stat(2)`.
int fdt_stat(const char *path, struct fdt_stat *stat);

// Describes a path, or the symbolic link that it is: `lstat(2)`.
int fdt_lstat(const char *path, struct fdt_stat *stat);

// Describes an open file: `fstat(2)`.
int fdt_fstat(int fd, struct fdt_stat *stat);

// Describes a path below a directory: `fstatat(2)`.
int fdt_fstatat(int directory, const char *path, struct fdt_stat *stat, int flags);

// Describes a path below a directory, with the time of its making: `statx(2)`.
int fdt_statx(int directory,
              const char *path,
              int flags,
              unsigned int mask,
              struct fdt_statx *statx);

// Describes the file system of a path: `statfs(2)`.
int fdt_statfs(const char *path, struct fdt_statfs *statfs);

// Describes the file system of an open file: `fstatfs(2)`.
int fdt_fstatfs(int fd, struct fdt_statfs *statfs);

// Describes the file system of a path, as POSIX has it: `statvfs(3)`.
int fdt_statvfs(const char *path, struct fdt_statvfs *statvfs);

// Describes the file system of an open file, as POSIX has it: `fstatvfs(3)`.
int fdt_fstatvfs(int fd, struct fdt_statvfs *statvfs);

// Makes and opens a file whose name replaces the last six letters, `XXXXXX`: `mkstemp(3)`.
int fdt_mkstemp(char *template_);

// Does as `mkstemp`, with flags: `mkostemp(3)`.
int fdt_mkostemp(char *template_, int flags);

// Does as `mkstemp`, with so many letters after the six: `mkstemps(3)`.
int fdt_mkstemps(char *template_, int suffix);

// Does as `mkstemps`, with flags: `mkostemps(3)`.
int fdt_mkostemps(char *template_, int suffix, int flags);

// Makes a directory whose name replaces the last six letters, `XXXXXX`: `mkdtemp(3)`.
char *fdt_mkdtemp(char *template_);

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

// Makes a file longer or shorter: `ftruncate(2)`.
int fdt_ftruncate(int fd, off_t length);

// Waits until what was written would outlive a crash: `fsync(2)`.
int fdt_fsync(int fd);

// Does as `fsync`: `fdatasync(2)`.
int fdt_fdatasync(int fd);

// Reads into several buffers: `readv(2)`.
ssize_t fdt_readv(int fd, const struct iovec *bufs, int count);

// Writes from several buffers: `writev(2)`.
ssize_t fdt_writev(int fd, const struct iovec *bufs, int count);

// Reads into several buffers at an offset: `preadv(2)`.
ssize_t fdt_preadv(int fd, const struct iovec *bufs, int count, off_t offset);

// Writes from several buffers at an offset: `pwritev(2)`.
ssize_t fdt_pwritev(int fd, const struct iovec *bufs, int count, off_t offset);

// Reads as `preadv`, or with -1 as `readv`: `preadv2(2)`.
ssize_t fdt_preadv2(int fd, const struct iovec *bufs, int count, off_t offset, int flags);

// Writes as `pwritev`, or with -1 as `writev`: `pwritev2(2)`.
ssize_t fdt_pwritev2(int fd, const struct iovec *bufs, int count, off_t offset, int flags);

// Moves bytes between files without copying: `splice(2)`. Between files of the host only; `EINVAL`
// with one of ours, as from files that do not know how.
ssize_t fdt_splice(int from,
                   off_t *from_offset,
                   int to,
                   off_t *to_offset,
                   size_t count,
                   unsigned int flags);

// Copies bytes between pipes: `tee(2)`. Between those of the host only, as `splice`.
ssize_t fdt_tee(int from, int to, size_t count, unsigned int flags);

// Gives memory to a pipe: `vmsplice(2)`. To one of the host only, as `splice`.
ssize_t fdt_vmsplice(int fd, const struct iovec *bufs, size_t count, unsigned int flags);

// Makes a file that tells of changes of files of the host: `inotify_init(2)`.
int fdt_inotify_init(void);

// Makes a file that tells of changes of files of the host: `inotify_init1(2)`.
int fdt_inotify_init1(int flags);

// Begins to watch a path of the host: `inotify_add_watch(2)`. `EOPNOTSUPP` for one of ours.
int fdt_inotify_add_watch(int fd, const char *path, uint32_t mask);

// Ends to watch a path: `inotify_rm_watch(2)`.
int fdt_inotify_rm_watch(int fd, int watch);

// Makes a file that tells of signals, or changes of which: `signalfd(2)`.
int fdt_signalfd(int fd, const sigset_t *mask, int flags);

// Copies the path of a terminal, and answers the error's number: `ttyname_r(3)`.
int fdt_ttyname_r(int fd, char *buf, size_t size);

// Returns the path of a terminal, good until the next call: `ttyname(3)`.
char *fdt_ttyname(int fd);

// Tells how a terminal is set: `tcgetattr(3)`.
int fdt_tcgetattr(int fd, struct termios *settings);

// Sets a terminal: `tcsetattr(3)`.
int fdt_tcsetattr(int fd, int when, const struct termios *settings);

// Drops what was not read or not sent: `tcflush(3)`.
int fdt_tcflush(int fd, int which);

// Waits until all is sent: `tcdrain(3)`.
int fdt_tcdrain(int fd);

// Holds what is sent or received, or lets it go on: `tcflow(3)`.
int fdt_tcflow(int fd, int action);

// Sends a break: `tcsendbreak(3)`.
int fdt_tcsendbreak(int fd, int duration);

// Returns the process group in front: `tcgetpgrp(3)`.
pid_t fdt_tcgetpgrp(int fd);

// Sets the process group in front: `tcsetpgrp(3)`.
int fdt_tcsetpgrp(int fd, pid_t group);

// Returns the session of a terminal: `tcgetsid(3)`.
pid_t fdt_tcgetsid(int fd);

// Opens a new terminal, from its other end: `posix_openpt(3)`.
int fdt_posix_openpt(int flags);

// Gives a new terminal to the user: `grantpt(3)`.
int fdt_grantpt(int fd);

// Allows a new terminal to be opened: `unlockpt(3)`.
int fdt_unlockpt(int fd);

// Returns the path of a new terminal, good until the next call: `ptsname(3)`.
char *fdt_ptsname(int fd);

// Copies the path of a new terminal, and answers the error's number: `ptsname_r(3)`.
int fdt_ptsname_r(int fd, char *buf, size_t size);

// Sends bytes to whom a socket is connected with: `send(2)`.
ssize_t fdt_send(int fd, const void *bytes, size_t count, int flags);

// Sends bytes to an address: `sendto(2)`.
ssize_t fdt_sendto(int fd,
                   const void *bytes,
                   size_t count,
                   int flags,
                   const struct sockaddr *to,
                   unsigned int length);

// Sends a message: `sendmsg(2)`.
ssize_t fdt_sendmsg(int fd, const struct msghdr *message, int flags);

// Receives bytes: `recv(2)`.
ssize_t fdt_recv(int fd, void *buf, size_t count, int flags);

// Receives bytes, and from whom: `recvfrom(2)`.
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

// Receives several messages, until the time is up, which is looked at after each: `recvmmsg(2)`.
int fdt_recvmmsg(int fd,
                 struct mmsghdr *messages,
                 unsigned int count,
                 int flags,
                 struct timespec *timeout);

// Makes a pipe: `pipe(2)`.
int fdt_pipe(int *fds);

// Makes a pipe with flags: `pipe2(2)`.
int fdt_pipe2(int *fds, int flags);

// Makes a socket: `socket(2)`.
int fdt_socket(int domain, int kind, int protocol);

// Makes a connected pair of sockets: `socketpair(2)`.
int fdt_socketpair(int domain, int kind, int protocol, int *fds);

// Gives a socket an address: `bind(2)`.
int fdt_bind(int fd, const struct sockaddr *address, unsigned int length);

// Begins to listen: `listen(2)`.
int fdt_listen(int fd, int backlog);

// Takes a connection: `accept(2)`.
int fdt_accept(int fd, struct sockaddr *address, unsigned int *length);

// Takes a connection, with flags: `accept4(2)`.
int fdt_accept4(int fd, struct sockaddr *address, unsigned int *length, int flags);

// Connects a socket: `connect(2)`.
int fdt_connect(int fd, const struct sockaddr *address, unsigned int length);

// Ends receiving or sending: `shutdown(2)`.
int fdt_shutdown(int fd, int how);

// Returns the address of a socket: `getsockname(2)`.
int fdt_getsockname(int fd, struct sockaddr *address, unsigned int *length);

// Returns the address of the other end: `getpeername(2)`.
int fdt_getpeername(int fd, struct sockaddr *address, unsigned int *length);

// Returns the value of an option: `getsockopt(2)`.
int fdt_getsockopt(int fd, int level, int name, void *value, unsigned int *length);

// Sets an option: `setsockopt(2)`.
int fdt_setsockopt(int fd, int level, int name, const void *value, unsigned int length);

// Closes a descriptor: `close(2)`.
int fdt_close(int fd);

// Closes a range of descriptors, both ends included, or marks it: `close_range(2)`.
int fdt_close_range(unsigned int first, unsigned int last, int flags);

// Closes all descriptors from `first` on: `closefrom(3)`.
void fdt_closefrom(int first);

// Gives an open file the lowest free number too: `dup(2)`.
int fdt_dup(int old);

// Gives an open file the number `new` too: `dup2(2)`.
int fdt_dup2(int old, int new_);

// Gives an open file the number `new` too, with `O_CLOEXEC` or without: `dup3(2)`.
int fdt_dup3(int old, int new_, int flags);

// Returns the host's number of a descriptor, which stays ours: for calls that this library does not
// have. `EINVAL` if it is not the host's.
int fdt_hostfd(int fd);

// Takes a descriptor of the host into the table, and returns its number here. From now on it is
// the table's: closing the last descriptor closes it. On an error it is left as it is.
int fdt_adopt(int host_fd);

// Returns how many descriptors the process can have: `getdtablesize(3)`.
int fdt_getdtablesize(void);

// Tells with 1 whether a descriptor is a terminal, otherwise 0 with the reason in errno: `isatty(3)`.
int fdt_isatty(int fd);

// Sets the user: `setuid(2)`.
int fdt_setuid(uid_t user);

// Sets the group: `setgid(2)`.
int fdt_setgid(gid_t group);

// Sets the effective user: `seteuid(2)`.
int fdt_seteuid(uid_t user);

// Sets the effective group: `setegid(2)`.
int fdt_setegid(gid_t group);

// Sets the real and the effective user: `setreuid(2)`.
int fdt_setreuid(uid_t real, uid_t effective);

// Sets the real and the effective group: `setregid(2)`.
int fdt_setregid(gid_t real, gid_t effective);

// Sets the real, the effective and the saved user: `setresuid(2)`.
int fdt_setresuid(uid_t real, uid_t effective, uid_t saved);

// Sets the real, the effective and the saved group: `setresgid(2)`.
int fdt_setresgid(gid_t real, gid_t effective, gid_t saved);

// Returns a limit: `getrlimit(2)`.
int fdt_getrlimit(int resource, struct rlimit *limit);

// Sets a limit: `setrlimit(2)`.
int fdt_setrlimit(int resource, const struct rlimit *limit);

// Returns a limit, and sets it: `prlimit(2)`.
int fdt_prlimit(pid_t process, int resource, const struct rlimit *new_, struct rlimit *old);

// Returns a value of the system: `sysconf(3)`.
long fdt_sysconf(int name);

// Opens a directory: `opendir(3)`.
struct __dirstream *fdt_opendir(const char *path);

// Makes a stream of an open directory, which is the stream's from now on: `fdopendir(3)`.
struct __dirstream *fdt_fdopendir(int fd);

// Closes a stream and its descriptor: `closedir(3)`.
int fdt_closedir(struct __dirstream *directory);

// Returns the descriptor of a stream: `dirfd(3)`.
int fdt_dirfd(struct __dirstream *directory);

// Returns the next entry, which is good until the next call, or null at the end: `readdir(3)`.
struct dirent *fdt_readdir(struct __dirstream *directory);

// Copies the next entry to where the caller says: `readdir_r(3)`.
int fdt_readdir_r(struct __dirstream *directory, struct dirent *entry, struct dirent **result);

// Begins a stream anew: `rewinddir(3)`.
void fdt_rewinddir(struct __dirstream *directory);

// Returns the position of a stream: `telldir(3)`.
long fdt_telldir(struct __dirstream *directory);

// Goes to a position that `telldir` has told: `seekdir(3)`.
void fdt_seekdir(struct __dirstream *directory, long position);

// Lists the entries of a directory that `filter` chooses, in the order of `compare`, in memory of
// `malloc`: `scandir(3)`.
int fdt_scandir(const char *path,
                struct dirent ***list,
                int (*filter)(const struct dirent *entry),
                int (*compare)(const struct dirent **one, const struct dirent **other));

// Opens a path as a stream: `fopen(3)`.
struct _IO_FILE *fdt_fopen(const char *path, const char *mode);

// Makes a stream of a descriptor, which is the stream's from now on: `fdopen(3)`.
struct _IO_FILE *fdt_fdopen(int fd, const char *mode);

// Opens a file without a name, in memory: `tmpfile(3)`.
struct _IO_FILE *fdt_tmpfile(void);

// Returns the descriptor of a stream: `fileno(3)`. Those of streams of the C library are the host's.
int fdt_fileno(struct _IO_FILE *stream);

// Makes an empty table whose numbers are below `limit`. `release` is called when the last reference to
// an open file goes; `free` when no read-side section can see it any more: at the latest in
// `fdt_barrier`, at the end of the last table that was forked from this one, at the end of a thread that
// has used it, or in `exit(3)`. Each may be null, and is called on any thread, also as that ends. `user`
// may go when the last `fdt_table_free` of this table and its forks has returned, and if a reference of
// `fdt_table_get` was put after that, then `fdt_barrier`. Answers null with `ENOMEM`.
struct fdt_table *fdt_table_new(unsigned int limit,
                                fdt_callback release,
                                fdt_callback free,
                                void *user);

// Closes every descriptor of a table, and frees it. Null is no table. If it is the last of those that
// were forked from one another, waits for sections as `fdt_barrier` does: then `free` has been called
// for every object of theirs that was released. Inside a section or a call of `free` it does not wait.
void fdt_table_free(struct fdt_table *table);

// Waits until `free` has been called for every object that was released before, of any table, by any
// thread; and so for sections of all threads. Calls some itself. Answers 0, or -1 with `EDEADLK` inside a
// section of this thread, or inside a call of `free`.
//
// The caller holds no lock that a `free` function takes, or that a thread takes inside a section.
int fdt_barrier(void);

// Opens `object` at the lowest free number, with `FD_CLOEXEC` or 0. Answers the number, or -1 with
// `EINVAL` for other flags, `EMFILE` or `ENOMEM`; the object is the caller's again then, and no function is called for it.
int fdt_table_open(const struct fdt_table *table,
                   void *object,
                   unsigned int flags);

// Takes a reference to the open file of a number. Answers null with `EBADF`.
struct fdt_file *fdt_table_get(const struct fdt_table *table, int fd);

// Drops a reference. Null is none. If it was the last one, the table's `release` is called here, and
// `free` later: see `fdt_barrier`.
void fdt_file_put(struct fdt_file *file);

// Takes one reference more to the same open file.
struct fdt_file *fdt_file_clone(struct fdt_file *file);

// Returns the object of an open file, which stays as long as the reference.
void *fdt_file_object(struct fdt_file *file);

// Closes a descriptor. Answers 0, or -1 with `EBADF` or `ENOMEM`.
int fdt_table_close(const struct fdt_table *table, int fd);

// Closes all descriptors from `first` to `last`. Answers 0, or -1 with `EINVAL` or `ENOMEM`.
int fdt_table_close_range(const struct fdt_table *table, unsigned int first, unsigned int last);

// Opens the file of `old` under the lowest free number too: `dup(2)`.
int fdt_table_dup(const struct fdt_table *table, int old);

// Opens the file of `old` under the number `new` too: `dup2(2)`.
int fdt_table_dup2(const struct fdt_table *table, int old, int new_);

// Opens the file of `old` under the number `new` too, with `FD_CLOEXEC` or 0: `dup3(2)`.
int fdt_table_dup3(const struct fdt_table *table, int old, int new_, unsigned int flags);

// Returns the flags of a descriptor, 0 or `FD_CLOEXEC`, or -1 with `EBADF`.
int fdt_table_get_flags(const struct fdt_table *table, int fd);

// Sets the flags of a descriptor. Answers 0, or -1 with `EBADF`, `EINVAL` or `ENOMEM`.
int fdt_table_set_flags(const struct fdt_table *table, int fd, unsigned int flags);

// Takes the lowest free number, for a file that comes later, with `FD_CLOEXEC` or 0, and fills in
// `reservation`. Answers the number, or -1 with `EINVAL` for other flags, `EMFILE` or `ENOMEM`.
int fdt_table_reserve(const struct fdt_table *table,
                      unsigned int flags,
                      struct fdt_reservation *reservation);

// Puts `object` behind a number that was taken. Answers the number, or -1 with `ENOMEM`: then the
// object is the caller's again, and the number still taken.
int fdt_table_install(const struct fdt_table *table,
                      const struct fdt_reservation *reservation,
                      void *object);

// Gives a number back that was taken.
void fdt_table_cancel(const struct fdt_reservation *reservation);

// Makes a table with the same open files under the same numbers: `fork(2)`. Answers null with
// `ENOMEM`.
struct fdt_table *fdt_table_fork(const struct fdt_table *table);

// Closes the descriptors that have `FD_CLOEXEC`: `execve(2)`. Answers 0, or -1 with `ENOMEM`.
int fdt_table_exec(const struct fdt_table *table);

// Returns the lowest open descriptor that is `from` or more, or -1, without an error, if there is none.
int fdt_table_next_open(const struct fdt_table *table,
                        int from);

// Sets the limit below which new numbers are. Answers 0.
int fdt_table_set_limit(const struct fdt_table *table, unsigned int limit);

// Begins a read-side section of the calling thread. It must be short, and must not block; sections
// nest. A fork of the host process waits for its end.
struct fdt_section fdt_read_lock(void);

// Ends a section, on the thread that began it; the last one first.
void fdt_read_unlock(struct fdt_section section);

// Returns the object of a descriptor, inside of a section of this thread: it is good until that ends.
// Answers null with `EBADF`.
void *fdt_table_borrow(const struct fdt_table *table,
                       int fd,
                       const struct fdt_section *section);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FDTABLE_H */
