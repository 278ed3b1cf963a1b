// Loaded with LD_PRELOAD: counts what the process asks the C library for, between count_start and count_stop.
// Large blocks inside glibc's malloc are not counted a second time: it maps them by its own internal mmap.

#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

static int active;
static long count, bytes, largest;

static void note(size_t size) {
    if (!__atomic_load_n(&active, __ATOMIC_RELAXED)) return;
    __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&bytes, (long)size, __ATOMIC_RELAXED);
    long seen = __atomic_load_n(&largest, __ATOMIC_RELAXED);
    while ((long)size > seen &&
           !__atomic_compare_exchange_n(&largest, &seen, (long)size, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

void count_start(void) {
    count = bytes = largest = 0;
    __atomic_store_n(&active, 1, __ATOMIC_SEQ_CST);
}

void count_stop(long* out) {
    __atomic_store_n(&active, 0, __ATOMIC_SEQ_CST);
    out[0] = count;
    out[1] = bytes;
    out[2] = largest;
}

void* malloc(size_t size) {
    note(size);
    return __libc_malloc(size);
}

void* calloc(size_t n, size_t size) {
    note(n * size);
    return __libc_calloc(n, size);
}

void* realloc(void* old, size_t size) {
    note(size);
    return __libc_realloc(old, size);
}

void* memalign(size_t alignment, size_t size) {
    note(size);
    return __libc_memalign(alignment, size);
}

void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void** out, size_t alignment, size_t size) {
    void* found = memalign(alignment, size);
    if (!found) return ENOMEM;
    *out = found;
    return 0;
}

void* mmap(void* at, size_t size, int protection, int flags, int file, off_t offset) {
    note(size);
    return (void*)syscall(SYS_mmap, at, size, protection, flags, file, offset);
}
