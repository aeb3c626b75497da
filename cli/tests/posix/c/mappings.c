/* Memory mappings of files. */
#include "check.h"

static const char *mapped(void *address) {
    if (address == MAP_FAILED) {
        return strerrorname_np(errno);
    }
    return "mapped";
}

static void private_mappings(void) {
    static char page[4096];
    memset(page, 'p', sizeof page);
    CALL(open("a", O_RDWR | O_CREAT, 0644));
    CALL(write(3, page, 4096));
    CALL(write(3, "tail", 4));
    char *both = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, 3, 0);
    TEXT(mapped(both));
    VALUE(both[0]);
    TEXT(both + 4096);
    both[0] = 'q';
    CALL(pread(3, page, 1, 0));
    VALUE(page[0]);
    CALL(munmap(both, 8192));
    char *tail = mmap(NULL, 4, PROT_READ, MAP_PRIVATE, 3, 4096);
    TEXT(mapped(tail));
    TEXT(tail);
    CALL(close(3));
    TEXT(tail);
    CALL(munmap(tail, 4));
}

/* Returns the signal that ends a child which reads a byte of a mapping, or 0. */
static int fault_of(const volatile char *at);

static void private_ends(void) {
    static char page[4096];
    memset(page, 'p', sizeof page);
    CALL(open("a", O_RDWR | O_CREAT, 0644));
    CALL(write(3, page, 4096));
    CALL(write(3, "tail", 4));
    char *map = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE, 3, 0);
    TEXT(mapped(map));
    VALUE(map[4095]);
    TEXT(map + 4096);
    VALUE(fault_of(map + 8191));
    VALUE(fault_of(map + 8192));
    VALUE(fault_of(map + 16383));
    map[0] = map[4099] = 'q';
    TEXT(map + 4096);
    CALL(pread(3, page, 1, 4099));
    VALUE(page[0]);
    char *moved = mremap(map, 16384, 32768, MREMAP_MAYMOVE);
    TEXT(mapped(moved));
    VALUE(moved[0]);
    CALL(munmap(moved, 32768));
    map = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 3, 4096);
    TEXT(map);
    VALUE(fault_of(map + 4096));
    CALL(mprotect(map, 8192, PROT_READ | PROT_WRITE));
    TEXT(mapped(mmap(map, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, 3, 8192)));
    VALUE(fault_of(map));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 3, 0x7fffffffffffe000)));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 3, 0x7ffffffffffff000)));
    TEXT(mapped(mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 3, 0x7fffffffffffe000)));
    TEXT(mapped(mmap(NULL, 4097, PROT_READ, MAP_SHARED, 3, 0x7fffffffffffe000)));
}

static void shared_mappings(void) {
    make_file("a", "shared");
    CALL(open("a", O_RDWR));
    char *read_only = mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3, 0);
    TEXT(mapped(read_only));
    TEXT(read_only);
    char *both = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
    TEXT(mapped(both));
    memcpy(both, "mapped", 6);
    TEXT(read_only);
    TEXT(file_text("a"));
    CALL(pwrite(3, "written", 7, 0));
    TEXT(both);
    CALL(lseek(3, 0, SEEK_END));
    CALL(write(3, " appended", 9));
    TEXT(read_only);
    CALL(msync(both, 4096, MS_SYNC));
    CALL(munmap(read_only, 4096));
    CALL(close(3));
    memcpy(both, "W", 1);
    TEXT(file_text("a"));
    CALL(munmap(both, 4096));
    TEXT(file_text("a"));
}

/* A large file with holes, mapped in the middle. */
static void shared_pages(void) {
    static char page[4096];
    struct stat st = {0};
    memset(page, 'p', sizeof page);
    CALL(open("a", O_RDWR | O_CREAT, 0644));
    for (int i = 0; i < 8; i++) {
        page[0] = (char)('0' + i);
        if (pwrite(3, page, 4096, i * 8192L) != 4096) {
            CALL(-1);
        }
    }
    CALL(ftruncate(3, 100000));
    char *map = mmap(NULL, 20000, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 16384);
    TEXT(mapped(map));
    VALUE(map[0]);
    VALUE(map[4096]);
    VALUE(map[8192]);
    CALL(fstat(3, &st));
    VALUE(st.st_size);
    VALUE(st.st_blocks);
    CALL(lseek(3, 16384, SEEK_HOLE));
    map[4096] = 'x';
    CALL(lseek(3, 16384, SEEK_HOLE));
    CALL(lseek(3, 60000, SEEK_DATA));
    CALL(lseek(3, 100000, SEEK_DATA));
    CALL(lseek(3, 50000, SEEK_HOLE));
    CALL(pread(3, page, 2, 16384 + 4096));
    VALUE(page[0]);
    VALUE(page[1]);
    CALL(fallocate(3, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 16384, 8192));
    VALUE(map[0]);
    VALUE(map[4096]);
    VALUE(map[8192]);
    CALL(fallocate(3, 0, 100000, 10000));
    CALL(fstat(3, &st));
    VALUE(st.st_size);
    VALUE(st.st_blocks);
    CALL(mprotect(map, 4096, PROT_READ));
    /* The first page is a mapping of its own now. */
    char *moved = mremap(map + 4096, 16384, 24576, MREMAP_MAYMOVE);
    TEXT(mapped(moved));
    VALUE(moved[4096]);
    VALUE(moved[12288]);
    VALUE(moved[20480]);
    moved[20480] = 'm';
    CALL(pread(3, page, 1, 16384 + 4096 + 20480));
    VALUE(page[0]);
    CALL(munmap(moved, 24576));
}

static int fault_of(const volatile char *at) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(8);
        char byte = *at;
        _exit(byte == 1);
    }
    int status = wait_for(child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void shared_sizes(void) {
    struct stat st = {0};
    CALL(open("a", O_RDWR | O_CREAT, 0644));
    char *map = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
    TEXT(mapped(map));
    VALUE(fault_of(map));
    CALL(ftruncate(3, 5000));
    VALUE(fault_of(map));
    VALUE(fault_of(map + 8191));
    VALUE(fault_of(map + 8192));
    memset(map, 'a', 8192);
    CALL(fstat(3, &st));
    VALUE(st.st_size);
    CALL(ftruncate(3, 100));
    VALUE(map[99]);
    VALUE(map[100]);
    VALUE(fault_of(map + 4096));
    CALL(ftruncate(3, 5000));
    VALUE(map[99]);
    VALUE(map[4096]);
    map[10] = 'b';
    CALL(pwrite(3, "end", 3, 8190));
    VALUE(map[8192]);
    CALL(write(3, map + 8192, 4096));
    CALL(ftruncate(3, 4096));
    CALL(write(3, map + 8192, 1));
    CALL(open("a", O_RDWR | O_TRUNC));
    VALUE(fault_of(map));
    CALL(write(3, "again", 5));
    CALL(ftruncate(3, 0));
    CALL(pwrite(4, "again", 5, 0));
    TEXT(map);
}

static void shared_with_children(void) {
    CALL(open("a", O_RDWR | O_CREAT, 0644));
    CALL(ftruncate(3, 4096));
    char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
    TEXT(mapped(map));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(8);
        memcpy(map, "from the child", 14);
        _exit(pwrite(3, "F", 1, 0) == 1 ? ftruncate(3, 8192) : 1);
    }
    VALUE(wait_for(child));
    TEXT(map);
    struct stat st = {0};
    CALL(fstat(3, &st));
    VALUE(st.st_size);
    TEXT(file_text("a"));
}

static void removed_and_mapped(void) {
    make_file("a", "here");
    CALL(open("a", O_RDWR));
    char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
    TEXT(mapped(map));
    CALL(unlink("a"));
    make_file("a", "other");
    CALL(close(3));
    TEXT(map);
    memcpy(map, "still", 5);
    TEXT(map);
    TEXT(file_text("a"));
    CALL(munmap(map, 4096));
}

static void private_and_shared(void) {
    make_file("a", "text");
    CALL(open("a", O_RDWR));
    char *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
    char *private = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, 3, 0);
    TEXT(mapped(private));
    memcpy(shared, "T", 1);
    TEXT(private);
    private[1] = 'E';
    TEXT(private);
    TEXT(shared);
    TEXT(file_text("a"));
    CALL(open("a", O_RDONLY));
    char *reader = mmap(NULL, 4096, PROT_READ, MAP_SHARED, 4, 0);
    TEXT(mapped(reader));
    TEXT(reader);
    CALL(mprotect(reader, 4096, PROT_READ | PROT_WRITE));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, 4, 0)));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, 4, 0)));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ, MAP_SHARED_VALIDATE, 4, 0)));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ, MAP_SHARED_VALIDATE | (int)0x80000000, 4, 0)));
    TEXT(mapped(mmap(shared, 4096, PROT_READ, MAP_SHARED | MAP_FIXED, 4, 0)));
    TEXT(shared);
    CALL(pwrite(3, "new", 3, 0));
    TEXT(shared);
}

/* Transfers between files, one of which is mapped, and from and to its mapping. */
static void shared_transfers(void) {
    char text[100] = "";
    make_file("a", "one two three");
    make_file("b", "");
    CALL(open("a", O_RDWR));
    CALL(open("b", O_RDWR));
    char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
    TEXT(mapped(map));
    CALL(copy_file_range(3, NULL, 4, NULL, 7, 0));
    TEXT(file_text("b"));
    CALL(sendfile(4, 3, NULL, 100));
    TEXT(file_text("b"));
    CALL(pwrite(3, map, 7, 4));
    TEXT(map);
    CALL(pread(3, map + 20, 11, 0));
    TEXT(map + 20);
    CALL(pwrite(4, map, 5, 0));
    TEXT(file_text("b"));
    CALL(pread(4, map, 3, 4));
    TEXT(map);
    struct iovec parts[] = {{text, 2}, {text + 2, 3}};
    CALL(preadv(3, parts, 2, 0));
    TEXT(text);
    CALL(fcntl(3, F_SETFL, O_APPEND));
    CALL(write(3, "!", 1));
    TEXT(file_text("a"));
    CALL(lseek(3, 0, SEEK_END));
    CALL(read(3, (char *)NULL + 1, 10));
    CALL(pread(3, (char *)NULL + 1, 10, 0));
}

static void sealed_and_mapped(void) {
    CALL(memfd_create("sealed", MFD_ALLOW_SEALING));
    CALL(ftruncate(3, 8192));
    char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
    TEXT(mapped(map));
    memcpy(map, "mapped", 6);
    CALL(fcntl(3, F_ADD_SEALS, F_SEAL_WRITE));
    CALL(fcntl(3, F_GET_SEALS));
    CALL(fcntl(3, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK));
    CALL(fcntl(3, F_GET_SEALS));
    CALL(pwrite(3, "x", 1, 0));
    CALL(ftruncate(3, 1));
    CALL(ftruncate(3, 12288));
    CALL(fallocate(3, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
    map[0] = 'M';
    TEXT(map);
    TEXT(mapped(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0)));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3, 0)));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, 3, 0)));
    CALL(munmap(map, 8192));
    CALL(fcntl(3, F_ADD_SEALS, F_SEAL_WRITE));
    CALL(fcntl(3, F_GET_SEALS));
    CALL(memfd_create("other", MFD_ALLOW_SEALING));
    CALL(write(4, "text", 4));
    CALL(fcntl(4, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 4, 0)));
    map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, 4, 0);
    TEXT(mapped(map));
    TEXT(map);
    CALL(mprotect(map, 4096, PROT_READ | PROT_WRITE));
    CALL(fcntl(4, F_GET_SEALS));
}

/* Mappings of the device of zeros are memory of their own. */
static void zeros(void) {
    CALL(open("/dev/zero", O_RDWR));
    char *shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
    TEXT(mapped(shared));
    VALUE(shared[8191]);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        shared[0] = 'c';
        _exit(0);
    }
    VALUE(wait_for(child));
    VALUE(shared[0]);
    TEXT(mapped(mmap(NULL, 4096, PROT_READ, MAP_SHARED_VALIDATE, 3, 0)));
    char *private = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, 3, 0);
    TEXT(mapped(private));
    VALUE(private[0]);
    CALL(open("/dev/zero", O_RDONLY));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, 4, 0)));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 4, 0)));
    CALL(open("/dev/full", O_RDWR));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 5, 0)));
}

static void mapping_errors(void) {
    int ends[2];
    make_file("a", "text");
    CALL(open("a", O_RDONLY));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 99, 0)));
    TEXT(mapped(mmap(NULL, 0, PROT_READ, MAP_PRIVATE, 3, 0)));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 3, 1)));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ, 0, 3, 0)));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0)));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, 3, 0)));
    CALL(open("a", O_WRONLY));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 4, 0)));
    CALL(pipe(ends));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, ends[0], 0)));
    CALL(open(".", O_RDONLY));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 7, 0)));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, -1, 0)));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, -1, 1)));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 3, -4096)));
    TEXT(mapped(mmap(NULL, 1L << 62, PROT_READ, MAP_SHARED, 3, 0)));
    CALL(open("a", O_PATH));
    TEXT(mapped(mmap(NULL, 0, PROT_READ, MAP_PRIVATE, 8, 0)));
    CALL(eventfd(0, 0));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 9, 0)));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, 9, 0)));
    TEXT(mapped(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, 7, 0)));
}

static const struct section sections[] = {
    {"private_mappings", private_mappings},
    {"private_ends", private_ends},
    {"shared_mappings", shared_mappings},
    {"shared_pages", shared_pages},
    {"shared_sizes", shared_sizes},
    {"shared_with_children", shared_with_children},
    {"removed_and_mapped", removed_and_mapped},
    {"private_and_shared", private_and_shared},
    {"shared_transfers", shared_transfers},
    {"sealed_and_mapped", sealed_and_mapped},
    {"zeros", zeros},
    {"mapping_errors", mapping_errors},
    {NULL, NULL},
};
const struct theme mappings = {"mappings", sections};
