/* Checks that the structs of types.h have the layout of the system's. */
#define _GNU_SOURCE
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <fcntl.h>
#include <stddef.h>
#include <fdtable/types.h>
#define SAME(a,b) _Static_assert(sizeof(struct a)==sizeof(struct b),#a)
#define AT(a,b,f) _Static_assert(offsetof(struct a,f)==offsetof(struct b,f),#f)
SAME(stat,fdt_stat);AT(stat,fdt_stat,st_ctim);AT(stat,fdt_stat,st_mode);AT(stat,fdt_stat,st_size);AT(stat,fdt_stat,st_blocks);
SAME(statx,fdt_statx);AT(statx,fdt_statx,stx_dev_minor);AT(statx,fdt_statx,stx_size);
SAME(statfs,fdt_statfs);AT(statfs,fdt_statfs,f_flags);SAME(statvfs,fdt_statvfs);AT(statvfs,fdt_statvfs,f_namemax);
SAME(flock,fdt_flock);AT(flock,fdt_flock,l_pid);
