/* fdtable's versions of the structs whose tags are also names of calls.
 *
 * They have the layout of the system's structs. In a program that is compiled with
 * <fdtable/posix.h>, `struct stat` means `struct fdt_stat`. */
#ifndef FDTABLE_TYPES_H
#define FDTABLE_TYPES_H

#include <linux/stat.h>
#include <sys/types.h>
#include <time.h>

#if !defined(__linux__) || !defined(__LP64__)
#error "fdtable's C interface is for 64-bit Linux"
#endif

struct fdt_stat {
    __dev_t st_dev;
    __ino_t st_ino;
#if defined(__x86_64__)
    __nlink_t st_nlink;
    __mode_t st_mode;
    __uid_t st_uid;
    __gid_t st_gid;
    int __pad0;
    __dev_t st_rdev;
    __off_t st_size;
    __blksize_t st_blksize;
    __blkcnt_t st_blocks;
#else
    __mode_t st_mode;
    __nlink_t st_nlink;
    __uid_t st_uid;
    __gid_t st_gid;
    __dev_t st_rdev;
    __dev_t __pad1;
    __off_t st_size;
    __blksize_t st_blksize;
    int __pad2;
    __blkcnt_t st_blocks;
#endif
#if defined(__USE_XOPEN2K8)
    struct timespec st_atim;
    struct timespec st_mtim;
    struct timespec st_ctim;
#else
    __time_t st_atime;
    unsigned long st_atimensec;
    __time_t st_mtime;
    unsigned long st_mtimensec;
    __time_t st_ctime;
    unsigned long st_ctimensec;
#endif
#if defined(__x86_64__)
    long __glibc_reserved[3];
#else
    int __glibc_reserved[2];
#endif
};

struct fdt_flock {
    short l_type;
    short l_whence;
    __off_t l_start;
    __off_t l_len;
    __pid_t l_pid;
};

struct fdt_statx {
    __u32 stx_mask;
    __u32 stx_blksize;
    __u64 stx_attributes;
    __u32 stx_nlink;
    __u32 stx_uid;
    __u32 stx_gid;
    __u16 stx_mode;
    __u16 __spare0[1];
    __u64 stx_ino;
    __u64 stx_size;
    __u64 stx_blocks;
    __u64 stx_attributes_mask;
    struct statx_timestamp stx_atime;
    struct statx_timestamp stx_btime;
    struct statx_timestamp stx_ctime;
    struct statx_timestamp stx_mtime;
    __u32 stx_rdev_major;
    __u32 stx_rdev_minor;
    __u32 stx_dev_major;
    __u32 stx_dev_minor;
    __u64 stx_mnt_id;
    __u32 stx_dio_mem_align;
    __u32 stx_dio_offset_align;
    __u64 __spare3[12];
};

struct fdt_statfs {
    __fsword_t f_type;
    __fsword_t f_bsize;
    __fsblkcnt64_t f_blocks;
    __fsblkcnt64_t f_bfree;
    __fsblkcnt64_t f_bavail;
    __fsfilcnt64_t f_files;
    __fsfilcnt64_t f_ffree;
    __fsid_t f_fsid;
    __fsword_t f_namelen;
    __fsword_t f_frsize;
    __fsword_t f_flags;
    __fsword_t f_spare[4];
};

struct fdt_statvfs {
    unsigned long f_bsize;
    unsigned long f_frsize;
    __fsblkcnt64_t f_blocks;
    __fsblkcnt64_t f_bfree;
    __fsblkcnt64_t f_bavail;
    __fsfilcnt64_t f_files;
    __fsfilcnt64_t f_ffree;
    __fsfilcnt64_t f_favail;
    unsigned long f_fsid;
    unsigned long f_flag;
    unsigned long f_namemax;
    int __f_spare[6];
};

#endif
