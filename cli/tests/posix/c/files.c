/* Opening files, and transfers at the file position. */
#include "check.h"
#include <linux/fs.h>

#ifndef F_CREATED_QUERY
#define F_CREATED_QUERY 1028
#endif

static void creating(void) {
    struct stat st = {0};
    CALL(open("a", O_RDONLY));
    CALL(open("a", O_RDWR | O_CREAT, 0666));
    CALL(fstat(3, &st));
    VALUE(st.st_mode);
    VALUE(st.st_nlink);
    VALUE(st.st_size);
    CALL(open("a", O_RDWR | O_CREAT | O_EXCL, 0666));
    CALL(open("a", O_RDWR | O_CREAT, 0600));
    CALL(fstat(4, &st));
    VALUE(st.st_mode);
    CALL(write(3, "hello", 5));
    CALL(open("a", O_RDONLY | O_TRUNC));
    CALL(fstat(3, &st));
    VALUE(st.st_size);
    CALL(creat("b", 04755));
    CALL(fstat(6, &st));
    VALUE(st.st_mode);
    VALUE(fcntl(6, F_GETFL) & O_ACCMODE);
    umask(077);
    CALL(open("c", O_RDWR | O_CREAT, 0666));
    CALL(fstat(7, &st));
    VALUE(st.st_mode);
    CALL(open("d", O_RDONLY | O_CREAT, 0));
    CALL(fstat(8, &st));
    VALUE(st.st_mode);
    CALL(write(8, "x", 1));
    CALL(open("e", O_WRONLY | O_CREAT, 0644));
    CALL(read(9, &st, 1));
}

static void open_errors(void) {
    char name[4200];
    make_file("file", "x");
    mkdir("dir", 0755);
    symlink("file", "to_file");
    symlink("dir", "to_dir");
    symlink("missing", "to_nothing");
    symlink("loop", "loop");
    CALL(open("", O_RDONLY));
    CALL(open("", O_RDWR | O_CREAT, 0644));
    CALL(open(null, O_RDONLY));
    CALL(open(bad, O_RDONLY));
    CALL(open(high, O_RDONLY));
    CALL(open("missing/file", O_RDWR | O_CREAT, 0644));
    CALL(open("file/", O_RDONLY));
    CALL(open("file/x", O_RDONLY));
    CALL(open("file/.", O_RDONLY));
    CALL(open("new/", O_RDWR | O_CREAT, 0644));
    CALL(open("file/x", O_RDWR | O_CREAT, 0644));
    CALL(open("dir", O_WRONLY));
    CALL(open("dir", O_RDWR));
    CALL(open("dir", O_RDONLY | O_TRUNC));
    CALL(open("dir", O_RDONLY | O_CREAT, 0644));
    CALL(open("dir", O_RDONLY | O_CREAT | O_EXCL, 0644));
    CALL(open("dir", O_RDONLY | O_CREAT | O_DIRECTORY, 0755));
    CALL(open("file", O_RDONLY | O_DIRECTORY));
    CALL(open("dir", O_RDONLY | O_DIRECTORY));
    CALL(open("dir/", O_RDONLY));
    CALL(open("dir/.", O_RDONLY));
    CALL(open("dir/..", O_RDONLY));
    CALL(open("to_file", O_RDONLY | O_NOFOLLOW));
    CALL(open("to_dir", O_RDONLY | O_NOFOLLOW));
    CALL(open("to_dir", O_RDONLY | O_NOFOLLOW | O_DIRECTORY));
    CALL(open("to_dir/", O_RDONLY | O_NOFOLLOW));
    CALL(open("to_dir/.", O_RDONLY | O_NOFOLLOW));
    CALL(open("to_file", O_PATH | O_NOFOLLOW));
    CALL(open("to_file/", O_RDONLY));
    CALL(open("loop", O_RDONLY));
    CALL(open("loop", O_RDWR | O_CREAT, 0644));
    CALL(open("loop/x", O_RDONLY));
    CALL(open("to_nothing", O_RDONLY));
    CALL(open("to_nothing", O_RDWR | O_CREAT | O_EXCL, 0644));
    CALL(open("to_nothing", O_RDWR | O_CREAT, 0644));
    CALL(access("missing", F_OK));
    memset(name, 'n', sizeof name);
    name[255] = 0;
    CALL(open(name, O_RDWR | O_CREAT, 0644));
    name[255] = 'n', name[256] = 0;
    CALL(open(name, O_RDWR | O_CREAT, 0644));
    CALL(open(name, O_RDONLY));
    for (int i = 0; i < 4096; i += 2) {
        name[i] = '.', name[i + 1] = '/';
    }
    name[4095] = 0;
    CALL(open(name, O_RDONLY));
    name[4095] = '/', name[4096] = 0;
    CALL(open(name, O_RDONLY));
    name[4096] = '/', name[4097] = 0;
    CALL(open(name, O_RDONLY));
    CALL(open("..", O_RDWR | O_CREAT, 0644));
    CALL(open("/", O_WRONLY));
    CALL(open("file", O_RDONLY | 0x40000000));
    CALL(open("file", 3));
}

static void temporary(void) {
    struct stat st = {0};
    CALL(open(".", O_TMPFILE | O_RDWR, 0600));
    CALL(fstat(3, &st));
    VALUE(st.st_nlink);
    VALUE(st.st_mode);
    CALL(write(3, "temporary", 9));
    CALL(linkat(3, "", AT_FDCWD, "named", AT_EMPTY_PATH));
    TEXT(file_text("named"));
    CALL(open(".", O_TMPFILE | O_RDONLY, 0600));
    CALL(open("named", O_TMPFILE | O_RDWR, 0600));
    CALL(open("missing", O_TMPFILE | O_RDWR, 0600));
    CALL(open(".", O_TMPFILE | O_RDWR | O_EXCL, 0600));
    CALL(linkat(4, "", AT_FDCWD, "other", AT_EMPTY_PATH));
}

static void relative(void) {
    struct stat st = {0};
    mkdir("dir", 0755);
    make_file("file", "x");
    make_file("dir/inner", "inner");
    CALL(open("dir", O_RDONLY | O_DIRECTORY));
    CALL(openat(3, "inner", O_RDONLY));
    TEXT(read_text(4));
    CALL(openat(3, "../file", O_RDONLY));
    CALL(openat(3, "new", O_RDWR | O_CREAT | O_EXCL, 0644));
    CALL(access("dir/new", F_OK));
    CALL(openat(AT_FDCWD, "file", O_RDONLY));
    CALL(openat(4, "inner", O_RDONLY));
    CALL(openat(99, "inner", O_RDONLY));
    CALL(openat(-1, "inner", O_RDONLY));
    CALL(openat(99, check_root, O_RDONLY | O_DIRECTORY));
    CALL(openat(99, "", O_RDONLY));
    CALL(openat(3, "", O_RDONLY));
    CALL(openat(3, null, O_RDONLY));
    CALL(fstatat(3, "inner", &st, 0));
    VALUE(st.st_size);
    CALL(unlink("dir/inner"));
    CALL(unlink("dir/new"));
    CALL(rmdir("dir"));
    CALL(openat(3, "inner", O_RDWR | O_CREAT, 0644));
    CALL(openat(3, ".", O_RDONLY));
    CALL(fstat(3, &st));
    VALUE(st.st_nlink);
}

static void reading(void) {
    char buffer[16] = "................";
    make_file("a", "abcdefgh");
    CALL(open("a", O_RDONLY));
    CALL(read(3, buffer, 3));
    CALL(read(3, buffer + 3, 0));
    CALL(read(3, buffer + 3, 13));
    VALUE(memcmp(buffer, "abcdefgh........", 16));
    CALL(read(3, buffer, 16));
    CALL(lseek(3, 100, SEEK_SET));
    CALL(read(3, buffer, 16));
    CALL(lseek(3, 0, SEEK_SET));
    CALL(read(3, bad, 4));
    CALL(read(3, null, 4));
    CALL(read(3, high, 4));
    CALL(read(3, null, 0));
    CALL(lseek(3, 0, SEEK_CUR));
    CALL(read(99, buffer, 4));
    CALL(read(99, bad, 4));
    CALL(read(-1, buffer, 0));
    CALL(write(3, "x", 1));
    CALL(write(3, "x", 0));
    CALL(write(99, "x", 1));
    CALL(write(-1, "x", 0));
    CALL(open(".", O_RDONLY));
    CALL(read(4, buffer, 4));
    CALL(write(4, buffer, 4));
}

static void writing(void) {
    struct stat st = {0};
    CALL(open("a", O_RDWR | O_CREAT, 0644));
    CALL(write(3, "abcd", 4));
    CALL(write(3, "", 0));
    CALL(write(3, bad, 4));
    CALL(write(3, null, 4));
    CALL(write(3, high, 4));
    CALL(write(3, null, 0));
    CALL(lseek(3, 0, SEEK_CUR));
    CALL(lseek(3, 8, SEEK_SET));
    CALL(write(3, "ij", 2));
    CALL(fstat(3, &st));
    VALUE(st.st_size);
    CALL(lseek(3, 0, SEEK_SET));
    char buffer[16];
    CALL(read(3, buffer, 16));
    VALUE(memcmp(buffer, "abcd\0\0\0\0ij", 10));
    CALL(open("a", O_WRONLY | O_APPEND));
    CALL(lseek(4, 0, SEEK_SET));
    CALL(write(4, "kl", 2));
    CALL(lseek(4, 0, SEEK_CUR));
    CALL(pwrite(4, "mn", 2, 0));
    CALL(lseek(4, 0, SEEK_CUR));
    CALL(fstat(3, &st));
    VALUE(st.st_size);
    CALL(fcntl(3, F_SETFL, O_APPEND));
    CALL(lseek(3, 0, SEEK_SET));
    CALL(write(3, "o", 1));
    CALL(lseek(3, 0, SEEK_CUR));
    CALL(read(4, buffer, 1));
    CALL(open("a", O_WRONLY | O_SYNC));
    CALL(write(5, "z", 1));
    CALL(open("a", O_WRONLY | O_DSYNC));
    CALL(write(6, "z", 1));
}

static void vectors(void) {
    char first[4] = "....", second[8] = "........";
    struct iovec in[3] = {{first, 4}, {NULL, 0}, {second, 8}};
    struct iovec out[3] = {{"abc", 3}, {"", 0}, {"defgh", 5}};
    struct iovec wild[2] = {{first, 4}, {bad, 4}};
    struct iovec wild_first[2] = {{bad, 4}, {first, 4}};
    struct iovec huge[2] = {{first, SSIZE_MAX}, {second, 1}};
    static struct iovec many[1025];
    CALL(open("a", O_RDWR | O_CREAT, 0644));
    CALL(writev(3, out, 3));
    CALL(lseek(3, 0, SEEK_SET));
    CALL(readv(3, in, 3));
    VALUE(memcmp(first, "abcd", 4));
    VALUE(memcmp(second, "efgh....", 8));
    CALL(readv(3, in, 3));
    CALL(lseek(3, 0, SEEK_SET));
    CALL(readv(3, in, 0));
    CALL(writev(3, out, 0));
    CALL(readv(3, in, -1));
    CALL(writev(3, out, -1));
    CALL(readv(3, many, 1024));
    CALL(readv(3, many, 1025));
    CALL(writev(3, many, 1025));
    CALL(readv(3, bad, 1));
    CALL(readv(3, null, 1));
    CALL(writev(3, bad, 1));
    CALL(readv(3, wild_first, 2));
    CALL(readv(3, wild, 2));
    CALL(lseek(3, 0, SEEK_CUR));
    CALL(writev(3, wild_first, 2));
    CALL(writev(3, huge, 2));
    huge[0].iov_len = (size_t)-1;
    CALL(writev(3, huge, 2));
    CALL(readv(3, huge, 2));
    CALL(readv(99, in, 3));
    CALL(writev(99, out, 3));
    CALL(open("a", O_WRONLY));
    CALL(readv(4, in, 3));
    CALL(open("a", O_RDONLY));
    CALL(writev(5, out, 3));
}

static void syncing(void) {
    int ends[2];
    CALL(open("a", O_RDWR | O_CREAT, 0644));
    CALL(fsync(3));
    CALL(fdatasync(3));
    CALL(syncfs(3));
    CALL(fsync(99));
    CALL(fdatasync(99));
    CALL(syncfs(99));
    CALL(open(".", O_RDONLY));
    CALL(fsync(4));
    CALL(fdatasync(4));
    CALL(pipe(ends));
    CALL(fsync(ends[0]));
    CALL(fdatasync(ends[1]));
    CALL(eventfd(0, 0));
    CALL(fsync(7));
    CALL(sync_file_range(3, 0, 0, SYNC_FILE_RANGE_WRITE));
}

static void copying(void) {
    int ends[2];
    loff_t from = 2, to = 10;
    off_t offset = 1;
    make_file("a", "abcdefgh");
    CALL(open("a", O_RDONLY));
    CALL(open("b", O_RDWR | O_CREAT, 0644));
    CALL(copy_file_range(3, NULL, 4, NULL, 3, 0));
    CALL(lseek(3, 0, SEEK_CUR));
    CALL(lseek(4, 0, SEEK_CUR));
    CALL(copy_file_range(3, &from, 4, &to, 100, 0));
    VALUE(from);
    VALUE(to);
    CALL(lseek(4, 0, SEEK_CUR));
    CALL(copy_file_range(3, &from, 4, &to, 100, 0));
    CALL(copy_file_range(3, NULL, 4, NULL, 3, 1));
    CALL(copy_file_range(4, NULL, 3, NULL, 3, 0));
    CALL(copy_file_range(99, NULL, 4, NULL, 3, 0));
    CALL(copy_file_range(3, NULL, 99, NULL, 3, 0));
    from = 0, to = 1;
    CALL(copy_file_range(4, &from, 4, &to, 8, 0));
    to = 20;
    CALL(copy_file_range(4, &from, 4, &to, 8, 0));
    CALL(open("b", O_WRONLY | O_APPEND));
    CALL(copy_file_range(3, NULL, 5, NULL, 3, 0));
    CALL(pipe(ends));
    CALL(copy_file_range(ends[0], NULL, 4, NULL, 3, 0));
    CALL(open(".", O_RDONLY));
    CALL(copy_file_range(8, NULL, 4, NULL, 3, 0));
    CALL(lseek(3, 0, SEEK_SET));
    CALL(ftruncate(4, 0));
    CALL(lseek(4, 0, SEEK_SET));
    CALL(sendfile(4, 3, NULL, 4));
    CALL(lseek(3, 0, SEEK_CUR));
    CALL(sendfile(4, 3, &offset, 100));
    VALUE(offset);
    CALL(lseek(3, 0, SEEK_CUR));
    TEXT(file_text("b"));
    CALL(sendfile(ends[1], 3, NULL, 2));
    TEXT(read_text(ends[0]));
    CALL(sendfile(4, ends[0], NULL, 2));
    CALL(sendfile(3, 4, NULL, 2));
    CALL(sendfile(99, 3, NULL, 2));
    CALL(sendfile(4, 99, NULL, 2));
    CALL(sendfile(5, 3, NULL, 2));
    offset = -1;
    CALL(sendfile(4, 3, &offset, 2));
    CALL(sendfile(4, 3, bad, 2));
}

static void memory_files(void) {
    struct stat st = {0};
    char name[256];
    CALL(memfd_create("name", 0));
    CALL(fcntl(3, F_GETFD));
    CALL(write(3, "abc", 3));
    CALL(pwrite(3, "x", 1, 9));
    CALL(fstat(3, &st));
    VALUE(st.st_size);
    VALUE(st.st_mode);
    VALUE(st.st_nlink);
    CALL(ftruncate(3, 2));
    CALL(lseek(3, 0, SEEK_END));
    CALL(memfd_create("name", MFD_CLOEXEC));
    CALL(fcntl(4, F_GETFD));
    CALL(memfd_create("name", 0x800000));
    CALL(memfd_create(bad, 0));
    memset(name, 'm', sizeof name);
    name[249] = 0;
    CALL(memfd_create(name, 0));
    name[249] = 'm', name[250] = 0;
    CALL(memfd_create(name, 0));
}

static char long_text[6000];

static void seals(void) {
    CALL(memfd_create("plain", 0));
    CALL(fcntl(3, F_GET_SEALS));
    CALL(fcntl(3, F_ADD_SEALS, F_SEAL_WRITE));
    CALL(memfd_create("sealed", MFD_ALLOW_SEALING));
    CALL(write(4, "abc", 3));
    CALL(fcntl(4, F_GET_SEALS));
    CALL(fcntl(4, F_ADD_SEALS, F_SEAL_SHRINK));
    CALL(ftruncate(4, 1));
    CALL(ftruncate(4, 8));
    CALL(fcntl(4, F_ADD_SEALS, F_SEAL_GROW));
    CALL(pwritev(4, ((struct iovec[]){{long_text, 1}, {long_text, 6000}}), 2, 7));
    CALL(ftruncate(4, 16));
    CALL(pwrite(4, "abc", 3, 6));
    CALL(fcntl(4, F_ADD_SEALS, F_SEAL_WRITE));
    CALL(pwrite(4, "abc", 3, 0));
    CALL(fcntl(4, F_GET_SEALS));
    CALL(fcntl(4, F_ADD_SEALS, F_SEAL_SEAL));
    CALL(fcntl(4, F_ADD_SEALS, F_SEAL_SEAL));
    CALL(fcntl(4, F_ADD_SEALS, 0x10000));
    CALL(open("a", O_RDWR | O_CREAT, 0644));
    CALL(fcntl(5, F_ADD_SEALS, 0));
}

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#define MFD_EXEC 16U
#endif
#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x20
#endif

static void more_seals(void) {
    static char page[20000];
    struct stat st = {0};
    int ends[2];
    CALL(memfd_create("data", MFD_NOEXEC_SEAL));
    CALL(fcntl(3, F_GET_SEALS));
    CALL(fstat(3, &st));
    VALUE(st.st_mode);
    CALL(fchmod(3, 0700));
    CALL(fchmod(3, 0600));
    CALL(memfd_create("both", MFD_NOEXEC_SEAL | MFD_EXEC));
    CALL(memfd_create("code", MFD_EXEC));
    CALL(fcntl(4, F_GET_SEALS));
    CALL(memfd_create("code", MFD_EXEC | MFD_ALLOW_SEALING));
    CALL(fcntl(5, F_ADD_SEALS, F_SEAL_EXEC));
    CALL(fcntl(5, F_GET_SEALS));
    CALL(write(5, "x", 1));
    CALL(memfd_create("grown", MFD_ALLOW_SEALING));
    CALL(ftruncate(6, 10000));
    CALL(fcntl(6, F_ADD_SEALS, F_SEAL_GROW));
    CALL(pwrite(6, page, 20000, 0));
    CALL(pwrite(6, page, 20000, 9000));
    CALL(pwrite(6, page, 0, 9000));
    CALL(pwrite(6, page, 1, 9999));
    CALL(fallocate(6, FALLOC_FL_KEEP_SIZE, 0, 20000));
    CALL(fallocate(6, FALLOC_FL_KEEP_SIZE, 0, 10000));
    CALL(fallocate(6, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, 9000, 20000));
    CALL(fcntl(6, F_ADD_SEALS, F_SEAL_FUTURE_WRITE));
    CALL(pwrite(6, page, 1, 0));
    CALL(fallocate(6, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, 0, 4096));
    CALL(ftruncate(6, 5000));
    CALL(fcntl(6, F_ADD_SEALS, F_SEAL_SHRINK));
    CALL(open("/proc/self/fd/6", O_RDONLY));
    CALL(fcntl(7, F_GET_SEALS));
    CALL(fcntl(7, F_ADD_SEALS, 0));
    CALL(open("/proc/self/fd/6", O_RDWR | O_TRUNC));
    CALL(fstat(6, &st));
    VALUE(st.st_size);
    CALL(pipe(ends));
    CALL(fcntl(ends[0], F_ADD_SEALS, 0));
    CALL(fcntl(ends[1], F_ADD_SEALS, 0));
    CALL(fcntl(ends[1], F_GET_SEALS));
    CALL(open(".", O_RDONLY));
    CALL(fcntl(10, F_GET_SEALS));
    CALL(open(".", O_PATH));
    CALL(fcntl(11, F_GET_SEALS));
    CALL(fcntl(11, F_ADD_SEALS, 0));
    CALL(fcntl(12, F_GET_SEALS));
}

static void made_names(void) {
    char first[] = "prefix-XXXXXX", second[] = "XXXXXX.c", third[] = "short-XXXXX", dir[] = "dXXXXXX";
    char fourth[] = "prefix-XXXXXX", fifth[] = "missing/XXXXXX";
    struct stat st = {0};
    CALL(mkstemp(first));
    VALUE(strncmp(first, "prefix-", 7) == 0 && strstr(first, "XXXXXX") == NULL);
    CALL(fstat(3, &st));
    VALUE(st.st_mode);
    CALL(access(first, F_OK));
    VALUE(fcntl(3, F_GETFL) & (O_ACCMODE | O_APPEND));
    CALL(mkstemps(second, 2));
    VALUE(strcmp(second + 6, ".c"));
    CALL(mkstemp(third));
    CALL(mkostemp(fourth, O_APPEND | O_CLOEXEC));
    VALUE(fcntl(5, F_GETFL) & (O_ACCMODE | O_APPEND));
    CALL(fcntl(5, F_GETFD));
    CALL(mkstemp(fifth));
    POINTER(mkdtemp(dir));
    CALL(stat(dir, &st));
    VALUE(st.st_mode);
    POINTER(mkdtemp(third));
}

static void deleted(void) {
    struct stat st = {0};
    make_file("a", "still here");
    CALL(open("a", O_RDWR));
    CALL(unlink("a"));
    CALL(fstat(3, &st));
    VALUE(st.st_nlink);
    TEXT(read_text(3));
    CALL(write(3, "!", 1));
    make_file("a", "another");
    CALL(lseek(3, 0, SEEK_SET));
    TEXT(read_text(3));
    TEXT(file_text("a"));
}

/* An open file knows whether its open has created the name. */
static void created(void) {
    int ends[2];
    CALL(open("a", O_RDWR | O_CREAT, 0666));
    CALL(open("a", O_RDWR | O_CREAT, 0666));
    CALL(open("a", O_PATH));
    CALL(open(".", O_RDONLY | O_DIRECTORY));
    CALL(dup(3));
    CALL(pipe(ends));
    for (int fd = 3; fd < 11; fd++) {
        CALL(fcntl(fd, F_CREATED_QUERY));
    }
    CALL(fcntl(3, F_GETFL));
    CALL(open("b", O_WRONLY | O_CREAT | O_EXCL, 0666));
    CALL(fcntl(10, F_CREATED_QUERY));
    CALL(open("b", O_WRONLY | O_CREAT | O_TRUNC, 0666));
    CALL(fcntl(11, F_CREATED_QUERY));
}

/* Blocks are not shared on the file systems of the test. */
static void clones(void) {
    struct file_clone_range range = {4, 0, 0, 0};
    make_file("a", "abc");
    CALL(open("a", O_RDWR));
    CALL(open("b", O_RDWR | O_CREAT, 0666));
    CALL(open("a", O_RDONLY));
    CALL(open("b", O_WRONLY | O_APPEND));
    CALL(open(".", O_RDONLY));
    CALL(open("a", O_PATH));
    CALL(ioctl(4, FICLONE, 3));
    CALL(ioctl(5, FICLONE, 4));
    CALL(ioctl(3, FICLONE, 6));
    CALL(ioctl(6, FICLONE, 3));
    CALL(ioctl(3, FICLONE, 99));
    CALL(ioctl(3, FICLONE, 7));
    CALL(ioctl(7, FICLONE, 3));
    CALL(ioctl(3, FICLONE, 3));
    CALL(ioctl(3, FICLONE, 8));
    CALL(ioctl(8, FICLONE, 3));
    CALL(ioctl(3, FICLONERANGE, &range));
    range.src_fd = 99;
    CALL(ioctl(3, FICLONERANGE, &range));
    CALL(ioctl(3, FICLONERANGE, NULL));
}

static const struct section sections[] = {
    {"creating", creating},   {"open_errors", open_errors},   {"temporary", temporary},
    {"relative", relative},   {"reading", reading},           {"writing", writing},
    {"vectors", vectors},     {"syncing", syncing},           {"copying", copying},
    {"memory_files", memory_files}, {"seals", seals}, {"more_seals", more_seals}, {"made_names", made_names}, {"deleted", deleted},
    {"created", created}, {"clones", clones},
    {NULL, NULL},
};
const struct theme files = {"files", sections};
