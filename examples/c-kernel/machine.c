/* The services of this kernel for the library: memory, errno, a word for its thread, the end. */

#include <fdtable/platform.h>
#include <stdint.h>

#include "machine.h"

enum { MEMORY = 4 << 20, SMALLEST = 4, ORDERS = 32 };

struct block {
    struct block *next;
};

static _Alignas(4096) char memory[MEMORY];
static size_t used;
/* Free blocks of each power of two. */
static struct block *freed[ORDERS];
static void *word;

int errno_of_thread;
size_t allocated;
int is_exhausted;

/* Compilers demand these four of every environment. */
void *memset(void *to, int byte, size_t count)
{
    void *at = to;
    __asm__ volatile("rep stosb" : "+D"(at), "+c"(count) : "a"(byte) : "memory");
    return to;
}

void *memcpy(void *to, const void *from, size_t count)
{
    void *at = to;
    __asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(count) : : "memory");
    return to;
}

void *memmove(void *to, const void *from, size_t count)
{
    char *at = to;
    if ((uintptr_t)to - (uintptr_t)from >= count)
        return memcpy(to, from, count);
    while (count--)
        ((volatile char *)at)[count] = ((const char *)from)[count];
    return to;
}

int memcmp(const void *one, const void *other, size_t count)
{
    const volatile unsigned char *a = one, *b = other;
    for (size_t i = 0; i < count; i++)
        if (a[i] != b[i])
            return a[i] - b[i];
    return 0;
}

static void write_port(uint16_t port, uint8_t byte)
{
    __asm__ volatile("outb %0, %1" : : "a"(byte), "Nd"(port));
}

void print(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        write_port(0x3f8, text[i]);
}

/* QEMU ends with twice the status, plus 1. */
void power_off(int status)
{
    write_port(0xf4, status);
    for (;;)
        __asm__ volatile("hlt");
}

/* A block has the size of a power of two, and is at a multiple of it up to a page. */
static int order_of(size_t size, size_t align)
{
    int order = SMALLEST;
    while (((size_t)1 << order) < size || ((size_t)1 << order) < align)
        order++;
    return order;
}

static void *allocate(size_t size, size_t align)
{
    int order = order_of(size, align);
    size_t length = (size_t)1 << order;
    size_t multiple = length < 4096 ? length : 4096;
    if (is_exhausted)
        return NULL;
    struct block *block = freed[order];
    if (block) {
        freed[order] = block->next;
    } else {
        size_t start = (used + multiple - 1) / multiple * multiple;
        if (align > 4096 || length > MEMORY - start)
            return NULL;
        block = (struct block *)(memory + start);
        used = start + length;
    }
    allocated += size;
    return block;
}

static void free_block(void *memory, size_t size, size_t align)
{
    int order = order_of(size, align);
    struct block *block = memory;
    block->next = freed[order];
    freed[order] = block;
    allocated -= size;
}

static void panic(const char *text, size_t length)
{
    print(text, length);
    print("\n", 1);
    power_off(1);
}

static void set_errno(int error)
{
    errno_of_thread = error;
}

static void *thread_word(void)
{
    return word;
}

static void set_thread_word(void *new)
{
    word = new;
}

/* One CPU, whose one thread is never interrupted: a fence of this CPU reaches all. */
static void heavy_fence(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

const struct fdt_platform fdt_platform = {
    .allocate = allocate,
    .free = free_block,
    .panic = panic,
    .set_errno = set_errno,
    .thread_word = thread_word,
    .set_thread_word = set_thread_word,
    .heavy_fence = heavy_fence,
};
