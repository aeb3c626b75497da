/* Maps the names of POSIX calls to fdtable's: cc -include fdtable/posix.h
 *
 * The macros are object-like, so they also map a function whose address is taken. They come
 * after the system headers that redirect a function to another symbol (open64, __read_chk),
 * because such a redirection would bypass the macros. Feature macros (_GNU_SOURCE,
 * _FILE_OFFSET_BITS) therefore belong on the command line: a definition in a source comes too
 * late.
 *
 * This header includes as few headers as possible, because the program gets all their names. It
 * includes stdio.h and stdlib.h only where they redirect a mapped function.
 *
 * The block below is generated from names.txt:
 * FDTABLE_BLESS=1 cargo test -p fdtable-posix --test headers */
#ifndef FDTABLE_POSIX_H
#define FDTABLE_POSIX_H

#include <fdtable/types.h>

#if defined(__USE_FILE_OFFSET64) || defined(__USE_LARGEFILE64) || __USE_FORTIFY_LEVEL > 0
#define FDTABLE_REDIRECTED 1
#endif

/* Feature macros may hide these. */
struct mmsghdr;
struct timespec;

/* Generated. */

#include <fcntl.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <dirent.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#ifdef FDTABLE_REDIRECTED
#include <stdio.h>
#include <stdlib.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif
int fdt_name_to_handle_at(int directory, const char *path, void *handle, int *mount, int flags);
int fdt_open_by_handle_at(int mount, void *handle, int flags);
ssize_t fdt_splice(int from, off_t *from_offset, int to, off_t *to_offset, size_t count, unsigned int flags);
ssize_t fdt_tee(int from, int to, size_t count, unsigned int flags);
ssize_t fdt_vmsplice(int fd, const struct iovec *bufs, size_t count, unsigned int flags);
int fdt_fallocate(int fd, int how, off_t offset, off_t length);
int fdt_posix_fadvise(int fd, off_t offset, off_t length, int advice);
int fdt_posix_fallocate(int fd, off_t offset, off_t length);
ssize_t fdt_readahead(int fd, off_t _offset, size_t _count);
int fdt_sync_file_range(int fd, off_t offset, off_t length, unsigned int flags);
int fdt_open(const char *path, int flags, ...);
int fdt_openat(int directory, const char *path, int flags, ...);
int fdt_creat(const char *path, mode_t mode);
int fdt_fcntl(int fd, int command, ...);
long fdt_fpathconf(int fd, int name);
long fdt_pathconf(const char *path, int name);
int fdt_setegid(gid_t group);
int fdt_seteuid(uid_t user);
int fdt_setgid(gid_t group);
int fdt_setregid(gid_t real, gid_t effective);
int fdt_setresgid(gid_t real, gid_t effective, gid_t saved);
int fdt_setresuid(uid_t real, uid_t effective, uid_t saved);
int fdt_setreuid(uid_t real, uid_t effective);
int fdt_setuid(uid_t user);
char *fdt_ttyname(int fd);
int fdt_ttyname_r(int fd, char *buf, size_t size);
ssize_t fdt_copy_file_range(int from, off_t *from_offset, int to, off_t *to_offset, size_t count, unsigned int flags);
void fdt_sync(void);
int fdt_syncfs(int fd);
long fdt_syscall(long number, ...);
int fdt_access(const char *path, int mode);
int fdt_chdir(const char *path);
int fdt_chown(const char *path, uid_t owner, gid_t group);
int fdt_euidaccess(const char *path, int mode);
int fdt_faccessat(int directory, const char *path, int mode, int flags);
int fdt_fchdir(int fd);
int fdt_fchown(int fd, uid_t owner, gid_t group);
int fdt_fchownat(int directory, const char *path, uid_t owner, gid_t group, int flags);
char *fdt_get_current_dir_name(void);
char *fdt_getcwd(char *buf, size_t size);
int fdt_lchown(const char *path, uid_t owner, gid_t group);
int fdt_link(const char *old, const char *new_);
int fdt_linkat(int old_directory, const char *old, int new_directory, const char *new_, int flags);
ssize_t fdt_readlink(const char *path, char *buf, size_t size);
ssize_t fdt_readlinkat(int directory, const char *path, char *buf, size_t size);
int fdt_symlink(const char *target, const char *path);
int fdt_symlinkat(const char *target, int directory, const char *path);
int fdt_truncate(const char *path, off_t length);
int fdt_unlinkat(int directory, const char *path, int flags);
int fdt_lockf(int fd, int command, off_t length);
int fdt_close(int fd);
void fdt_closefrom(int first);
int fdt_close_range(unsigned int first, unsigned int last, int flags);
int fdt_dup(int old);
int fdt_dup2(int old, int new_);
int fdt_dup3(int old, int new_, int flags);
int fdt_fdatasync(int fd);
int fdt_fsync(int fd);
int fdt_ftruncate(int fd, off_t length);
int fdt_getdtablesize(void);
int fdt_isatty(int fd);
off_t fdt_lseek(int fd, off_t offset, int whence);
int fdt_pipe(int *fds);
int fdt_pipe2(int *fds, int flags);
ssize_t fdt_pread(int fd, void *buf, size_t count, off_t offset);
ssize_t fdt_pwrite(int fd, const void *bytes, size_t count, off_t offset);
ssize_t fdt_read(int fd, void *buf, size_t count);
int fdt_rmdir(const char *path);
long fdt_sysconf(int name);
int fdt_unlink(const char *path);
ssize_t fdt_write(int fd, const void *bytes, size_t count);
pid_t fdt_tcgetpgrp(int fd);
int fdt_tcsetpgrp(int fd, pid_t group);
int fdt_chmod(const char *path, mode_t mode);
int fdt_fchmod(int fd, mode_t mode);
int fdt_fchmodat(int directory, const char *path, mode_t mode, int flags);
int fdt_futimens(int fd, const struct timespec *times);
int fdt_mkdirat(int directory, const char *path, mode_t mode);
int fdt_mkfifo(const char *path, mode_t mode);
int fdt_mkfifoat(int directory, const char *path, mode_t mode);
int fdt_mknod(const char *path, mode_t mode, dev_t device);
int fdt_mknodat(int directory, const char *path, mode_t mode, dev_t device);
int fdt_statx(int directory, const char *path, int flags, unsigned int mask, struct fdt_statx *statx);
mode_t fdt_umask(mode_t mask);
int fdt_utimensat(int directory, const char *path, const struct timespec *times, int flags);
int fdt_stat(const char *path, struct fdt_stat *stat);
int fdt_lstat(const char *path, struct fdt_stat *stat);
int fdt_fstat(int fd, struct fdt_stat *stat);
int fdt_fstatat(int directory, const char *path, struct fdt_stat *stat, int flags);
int fdt_mkdir(const char *path, mode_t mode);
int fdt_accept(int fd, struct sockaddr *address, unsigned int *length);
int fdt_accept4(int fd, struct sockaddr *address, unsigned int *length, int flags);
int fdt_bind(int fd, const struct sockaddr *address, unsigned int length);
int fdt_connect(int fd, const struct sockaddr *address, unsigned int length);
int fdt_getpeername(int fd, struct sockaddr *address, unsigned int *length);
int fdt_getsockname(int fd, struct sockaddr *address, unsigned int *length);
int fdt_getsockopt(int fd, int level, int name, void *value, unsigned int *length);
int fdt_listen(int fd, int backlog);
ssize_t fdt_recv(int fd, void *buf, size_t count, int flags);
ssize_t fdt_recvfrom(int fd, void *buf, size_t count, int flags, struct sockaddr *from, unsigned int *length);
int fdt_recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags, struct timespec *timeout);
ssize_t fdt_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t fdt_send(int fd, const void *bytes, size_t count, int flags);
int fdt_sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags);
ssize_t fdt_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t fdt_sendto(int fd, const void *bytes, size_t count, int flags, const struct sockaddr *to, unsigned int length);
int fdt_setsockopt(int fd, int level, int name, const void *value, unsigned int length);
int fdt_shutdown(int fd, int how);
int fdt_socket(int domain, int kind, int protocol);
int fdt_socketpair(int domain, int kind, int protocol, int *fds);
int fdt_statfs(const char *path, struct fdt_statfs *statfs);
int fdt_fstatfs(int fd, struct fdt_statfs *statfs);
int fdt_statvfs(const char *path, struct fdt_statvfs *statvfs);
int fdt_fstatvfs(int fd, struct fdt_statvfs *statvfs);
int fdt_closedir(struct __dirstream *directory);
int fdt_dirfd(struct __dirstream *directory);
struct __dirstream *fdt_fdopendir(int fd);
struct __dirstream *fdt_opendir(const char *path);
struct dirent *fdt_readdir(struct __dirstream *directory);
int fdt_readdir_r(struct __dirstream *directory, struct dirent *entry, struct dirent **result);
void fdt_rewinddir(struct __dirstream *directory);
int fdt_scandir(const char *path, struct dirent ***list, int (*filter)(const struct dirent *entry), int (*compare)(const struct dirent **one, const struct dirent **other));
void fdt_seekdir(struct __dirstream *directory, long position);
long fdt_telldir(struct __dirstream *directory);
ssize_t fdt_getdents64(int fd, void *buf, size_t size);
int fdt_poll(struct pollfd *fds, unsigned long count, int milliseconds);
int fdt_ppoll(struct pollfd *fds, unsigned long count, const struct timespec *timeout, const sigset_t *mask);
int fdt_getrlimit(int resource, struct rlimit *limit);
int fdt_setrlimit(int resource, const struct rlimit *limit);
int fdt_prlimit(pid_t process, int resource, const struct rlimit *new_, struct rlimit *old);
int fdt_select(int count, fd_set *read, fd_set *write, fd_set *except, struct timeval *timeout);
int fdt_pselect(int count, fd_set *read, fd_set *write, fd_set *except, const struct timespec *timeout, const sigset_t *mask);
int fdt_memfd_create(const char *name, unsigned int flags);
void *fdt_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset);
ssize_t fdt_sendfile(int to, int from, off_t *offset, size_t count);
ssize_t fdt_preadv(int fd, const struct iovec *bufs, int count, off_t offset);
ssize_t fdt_preadv2(int fd, const struct iovec *bufs, int count, off_t offset, int flags);
ssize_t fdt_pwritev(int fd, const struct iovec *bufs, int count, off_t offset);
ssize_t fdt_pwritev2(int fd, const struct iovec *bufs, int count, off_t offset, int flags);
ssize_t fdt_readv(int fd, const struct iovec *bufs, int count);
ssize_t fdt_writev(int fd, const struct iovec *bufs, int count);
#ifdef FDTABLE_REDIRECTED
struct _IO_FILE *fdt_fdopen(int fd, const char *mode);
int fdt_fileno(struct _IO_FILE *stream);
struct _IO_FILE *fdt_fopen(const char *path, const char *mode);
struct _IO_FILE *fdt_freopen(const char *path, const char *mode, struct _IO_FILE *stream);
struct _IO_FILE *fdt_tmpfile(void);
int fdt_remove(const char *path);
int fdt_rename(const char *old, const char *new_);
int fdt_renameat(int old_directory, const char *old, int new_directory, const char *new_);
int fdt_renameat2(int old_directory, const char *old, int new_directory, const char *new_, unsigned int flags);
char *fdt_canonicalize_file_name(const char *path);
char *fdt_mkdtemp(char *template_);
int fdt_mkostemp(char *template_, int flags);
int fdt_mkostemps(char *template_, int suffix, int flags);
int fdt_mkstemp(char *template_);
int fdt_mkstemps(char *template_, int suffix);
char *fdt_realpath(const char *path, char *resolved);
int fdt_grantpt(int fd);
int fdt_posix_openpt(int flags);
char *fdt_ptsname(int fd);
int fdt_ptsname_r(int fd, char *buf, size_t size);
int fdt_unlockpt(int fd);
#endif
#ifdef __cplusplus
}
#endif

#undef name_to_handle_at
#define name_to_handle_at fdt_name_to_handle_at
#undef open_by_handle_at
#define open_by_handle_at fdt_open_by_handle_at
#undef splice
#define splice fdt_splice
#undef tee
#define tee fdt_tee
#undef vmsplice
#define vmsplice fdt_vmsplice
#undef fallocate
#define fallocate fdt_fallocate
#undef fallocate64
#define fallocate64 fdt_fallocate
#undef posix_fadvise
#define posix_fadvise fdt_posix_fadvise
#undef posix_fadvise64
#define posix_fadvise64 fdt_posix_fadvise
#undef posix_fallocate
#define posix_fallocate fdt_posix_fallocate
#undef posix_fallocate64
#define posix_fallocate64 fdt_posix_fallocate
#undef readahead
#define readahead fdt_readahead
#undef sync_file_range
#define sync_file_range fdt_sync_file_range
#undef open
#define open fdt_open
#undef open64
#define open64 fdt_open
#undef openat
#define openat fdt_openat
#undef openat64
#define openat64 fdt_openat
#undef creat
#define creat fdt_creat
#undef creat64
#define creat64 fdt_creat
#undef fcntl
#define fcntl fdt_fcntl
#undef fcntl64
#define fcntl64 fdt_fcntl
#undef fpathconf
#define fpathconf fdt_fpathconf
#undef pathconf
#define pathconf fdt_pathconf
#undef setegid
#define setegid fdt_setegid
#undef seteuid
#define seteuid fdt_seteuid
#undef setgid
#define setgid fdt_setgid
#undef setregid
#define setregid fdt_setregid
#undef setresgid
#define setresgid fdt_setresgid
#undef setresuid
#define setresuid fdt_setresuid
#undef setreuid
#define setreuid fdt_setreuid
#undef setuid
#define setuid fdt_setuid
#undef ttyname
#define ttyname fdt_ttyname
#undef ttyname_r
#define ttyname_r fdt_ttyname_r
#undef copy_file_range
#define copy_file_range fdt_copy_file_range
#undef sync
#define sync fdt_sync
#undef syncfs
#define syncfs fdt_syncfs
#undef syscall
#define syscall fdt_syscall
#undef access
#define access fdt_access
#undef chdir
#define chdir fdt_chdir
#undef chown
#define chown fdt_chown
#undef euidaccess
#define euidaccess fdt_euidaccess
#undef eaccess
#define eaccess fdt_euidaccess
#undef faccessat
#define faccessat fdt_faccessat
#undef fchdir
#define fchdir fdt_fchdir
#undef fchown
#define fchown fdt_fchown
#undef fchownat
#define fchownat fdt_fchownat
#undef get_current_dir_name
#define get_current_dir_name fdt_get_current_dir_name
#undef getcwd
#define getcwd fdt_getcwd
#undef lchown
#define lchown fdt_lchown
#undef link
#define link fdt_link
#undef linkat
#define linkat fdt_linkat
#undef readlink
#define readlink fdt_readlink
#undef readlinkat
#define readlinkat fdt_readlinkat
#undef symlink
#define symlink fdt_symlink
#undef symlinkat
#define symlinkat fdt_symlinkat
#undef truncate
#define truncate fdt_truncate
#undef truncate64
#define truncate64 fdt_truncate
#undef unlinkat
#define unlinkat fdt_unlinkat
#undef lockf
#define lockf fdt_lockf
#undef lockf64
#define lockf64 fdt_lockf
#undef close
#define close fdt_close
#undef closefrom
#define closefrom fdt_closefrom
#undef close_range
#define close_range fdt_close_range
#undef dup
#define dup fdt_dup
#undef dup2
#define dup2 fdt_dup2
#undef dup3
#define dup3 fdt_dup3
#undef fdatasync
#define fdatasync fdt_fdatasync
#undef fsync
#define fsync fdt_fsync
#undef ftruncate
#define ftruncate fdt_ftruncate
#undef ftruncate64
#define ftruncate64 fdt_ftruncate
#undef getdtablesize
#define getdtablesize fdt_getdtablesize
#undef isatty
#define isatty fdt_isatty
#undef lseek
#define lseek fdt_lseek
#undef lseek64
#define lseek64 fdt_lseek
#undef pipe
#define pipe fdt_pipe
#undef pipe2
#define pipe2 fdt_pipe2
#undef pread
#define pread fdt_pread
#undef pread64
#define pread64 fdt_pread
#undef pwrite
#define pwrite fdt_pwrite
#undef pwrite64
#define pwrite64 fdt_pwrite
#undef read
#define read fdt_read
#undef rmdir
#define rmdir fdt_rmdir
#undef sysconf
#define sysconf fdt_sysconf
#undef unlink
#define unlink fdt_unlink
#undef write
#define write fdt_write
#undef tcgetpgrp
#define tcgetpgrp fdt_tcgetpgrp
#undef tcsetpgrp
#define tcsetpgrp fdt_tcsetpgrp
#undef chmod
#define chmod fdt_chmod
#undef fchmod
#define fchmod fdt_fchmod
#undef fchmodat
#define fchmodat fdt_fchmodat
#undef futimens
#define futimens fdt_futimens
#undef mkdirat
#define mkdirat fdt_mkdirat
#undef mkfifo
#define mkfifo fdt_mkfifo
#undef mkfifoat
#define mkfifoat fdt_mkfifoat
#undef mknod
#define mknod fdt_mknod
#undef mknodat
#define mknodat fdt_mknodat
#undef statx
#define statx fdt_statx
#undef umask
#define umask fdt_umask
#undef utimensat
#define utimensat fdt_utimensat
#undef stat
#define stat fdt_stat
#undef stat64
#define stat64 fdt_stat
#undef lstat
#define lstat fdt_lstat
#undef lstat64
#define lstat64 fdt_lstat
#undef fstat
#define fstat fdt_fstat
#undef fstat64
#define fstat64 fdt_fstat
#undef fstatat
#define fstatat fdt_fstatat
#undef fstatat64
#define fstatat64 fdt_fstatat
#undef mkdir
#define mkdir fdt_mkdir
#undef accept
#define accept fdt_accept
#undef accept4
#define accept4 fdt_accept4
#undef bind
#define bind fdt_bind
#undef connect
#define connect fdt_connect
#undef getpeername
#define getpeername fdt_getpeername
#undef getsockname
#define getsockname fdt_getsockname
#undef getsockopt
#define getsockopt fdt_getsockopt
#undef listen
#define listen fdt_listen
#undef recv
#define recv fdt_recv
#undef recvfrom
#define recvfrom fdt_recvfrom
#undef recvmmsg
#define recvmmsg fdt_recvmmsg
#undef recvmsg
#define recvmsg fdt_recvmsg
#undef send
#define send fdt_send
#undef sendmmsg
#define sendmmsg fdt_sendmmsg
#undef sendmsg
#define sendmsg fdt_sendmsg
#undef sendto
#define sendto fdt_sendto
#undef setsockopt
#define setsockopt fdt_setsockopt
#undef shutdown
#define shutdown fdt_shutdown
#undef socket
#define socket fdt_socket
#undef socketpair
#define socketpair fdt_socketpair
#undef fdopen
#define fdopen fdt_fdopen
#undef fileno
#define fileno fdt_fileno
#undef fileno_unlocked
#define fileno_unlocked fdt_fileno
#undef fopen
#define fopen fdt_fopen
#undef fopen64
#define fopen64 fdt_fopen
#undef freopen
#define freopen fdt_freopen
#undef freopen64
#define freopen64 fdt_freopen
#undef tmpfile
#define tmpfile fdt_tmpfile
#undef tmpfile64
#define tmpfile64 fdt_tmpfile
#undef remove
#define remove fdt_remove
#undef rename
#define rename fdt_rename
#undef renameat
#define renameat fdt_renameat
#undef renameat2
#define renameat2 fdt_renameat2
#undef statfs
#define statfs fdt_statfs
#undef statfs64
#define statfs64 fdt_statfs
#undef fstatfs
#define fstatfs fdt_fstatfs
#undef fstatfs64
#define fstatfs64 fdt_fstatfs
#undef statvfs
#define statvfs fdt_statvfs
#undef statvfs64
#define statvfs64 fdt_statvfs
#undef fstatvfs
#define fstatvfs fdt_fstatvfs
#undef fstatvfs64
#define fstatvfs64 fdt_fstatvfs
#undef futimes
#define futimes fdt_futimes
#undef futimesat
#define futimesat fdt_futimesat
#undef lutimes
#define lutimes fdt_lutimes
#undef utimes
#define utimes fdt_utimes
#undef utime
#define utime fdt_utime
#undef closedir
#define closedir fdt_closedir
#undef dirfd
#define dirfd fdt_dirfd
#undef fdopendir
#define fdopendir fdt_fdopendir
#undef opendir
#define opendir fdt_opendir
#undef readdir
#define readdir fdt_readdir
#undef readdir64
#define readdir64 fdt_readdir
#undef readdir_r
#define readdir_r fdt_readdir_r
#undef readdir64_r
#define readdir64_r fdt_readdir_r
#undef rewinddir
#define rewinddir fdt_rewinddir
#undef scandir
#define scandir fdt_scandir
#undef scandir64
#define scandir64 fdt_scandir
#undef seekdir
#define seekdir fdt_seekdir
#undef telldir
#define telldir fdt_telldir
#undef getdents64
#define getdents64 fdt_getdents64
#undef poll
#define poll fdt_poll
#undef ppoll
#define ppoll fdt_ppoll
#undef getrlimit
#define getrlimit fdt_getrlimit
#undef getrlimit64
#define getrlimit64 fdt_getrlimit
#undef setrlimit
#define setrlimit fdt_setrlimit
#undef setrlimit64
#define setrlimit64 fdt_setrlimit
#undef prlimit
#define prlimit fdt_prlimit
#undef prlimit64
#define prlimit64 fdt_prlimit
#undef select
#define select fdt_select
#undef pselect
#define pselect fdt_pselect
#undef epoll_create
#define epoll_create fdt_epoll_create
#undef epoll_create1
#define epoll_create1 fdt_epoll_create1
#undef epoll_ctl
#define epoll_ctl fdt_epoll_ctl
#undef epoll_wait
#define epoll_wait fdt_epoll_wait
#undef epoll_pwait
#define epoll_pwait fdt_epoll_pwait
#undef epoll_pwait2
#define epoll_pwait2 fdt_epoll_pwait2
#undef eventfd
#define eventfd fdt_eventfd
#undef eventfd_read
#define eventfd_read fdt_eventfd_read
#undef eventfd_write
#define eventfd_write fdt_eventfd_write
#undef flock
#define flock fdt_flock
#undef canonicalize_file_name
#define canonicalize_file_name fdt_canonicalize_file_name
#undef mkdtemp
#define mkdtemp fdt_mkdtemp
#undef mkostemp
#define mkostemp fdt_mkostemp
#undef mkostemp64
#define mkostemp64 fdt_mkostemp
#undef mkostemps
#define mkostemps fdt_mkostemps
#undef mkostemps64
#define mkostemps64 fdt_mkostemps
#undef mkstemp
#define mkstemp fdt_mkstemp
#undef mkstemp64
#define mkstemp64 fdt_mkstemp
#undef mkstemps
#define mkstemps fdt_mkstemps
#undef mkstemps64
#define mkstemps64 fdt_mkstemps
#undef realpath
#define realpath fdt_realpath
#undef grantpt
#define grantpt fdt_grantpt
#undef posix_openpt
#define posix_openpt fdt_posix_openpt
#undef ptsname
#define ptsname fdt_ptsname
#undef ptsname_r
#define ptsname_r fdt_ptsname_r
#undef unlockpt
#define unlockpt fdt_unlockpt
#undef memfd_create
#define memfd_create fdt_memfd_create
#undef mmap
#define mmap fdt_mmap
#undef mmap64
#define mmap64 fdt_mmap
#undef sendfile
#define sendfile fdt_sendfile
#undef sendfile64
#define sendfile64 fdt_sendfile
#undef timerfd_create
#define timerfd_create fdt_timerfd_create
#undef timerfd_gettime
#define timerfd_gettime fdt_timerfd_gettime
#undef timerfd_settime
#define timerfd_settime fdt_timerfd_settime
#undef preadv
#define preadv fdt_preadv
#undef preadv64
#define preadv64 fdt_preadv
#undef preadv2
#define preadv2 fdt_preadv2
#undef preadv64v2
#define preadv64v2 fdt_preadv2
#undef pwritev
#define pwritev fdt_pwritev
#undef pwritev64
#define pwritev64 fdt_pwritev
#undef pwritev2
#define pwritev2 fdt_pwritev2
#undef pwritev64v2
#define pwritev64v2 fdt_pwritev2
#undef readv
#define readv fdt_readv
#undef writev
#define writev fdt_writev
#undef ioctl
#define ioctl fdt_ioctl
#undef tcdrain
#define tcdrain fdt_tcdrain
#undef tcflow
#define tcflow fdt_tcflow
#undef tcflush
#define tcflush fdt_tcflush
#undef tcgetattr
#define tcgetattr fdt_tcgetattr
#undef tcgetsid
#define tcgetsid fdt_tcgetsid
#undef tcsendbreak
#define tcsendbreak fdt_tcsendbreak
#undef tcsetattr
#define tcsetattr fdt_tcsetattr
#undef inotify_add_watch
#define inotify_add_watch fdt_inotify_add_watch
#undef inotify_init
#define inotify_init fdt_inotify_init
#undef inotify_init1
#define inotify_init1 fdt_inotify_init1
#undef inotify_rm_watch
#define inotify_rm_watch fdt_inotify_rm_watch
#undef signalfd
#define signalfd fdt_signalfd
#undef sigaction
#define sigaction fdt_sigaction
#undef signal
#define signal fdt_signal
#undef ssignal
#define ssignal fdt_signal
#undef bsd_signal
#define bsd_signal fdt_signal
#undef sysv_signal
#define sysv_signal fdt_sysv_signal
#undef sigset
#define sigset fdt_sigset
#undef sigignore
#define sigignore fdt_sigignore
#undef siginterrupt
#define siginterrupt fdt_siginterrupt
#undef capset
#define capset fdt_capset
#undef setfsgid
#define setfsgid fdt_setfsgid
#undef setfsuid
#define setfsuid fdt_setfsuid
#undef pidfd_getfd
#define pidfd_getfd fdt_pidfd_getfd
#undef pidfd_open
#define pidfd_open fdt_pidfd_open
#undef pidfd_send_signal
#define pidfd_send_signal fdt_pidfd_send_signal

/* End of what is generated. */

#endif
