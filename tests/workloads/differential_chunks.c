/* A replacement for libcudart whose cudaMalloc returns parts of a chunk, which a separate thread
 * has allocated from the driver before. A recorder that hooks both levels and does not know the
 * chunk counts each part as an additional allocation, so memory is counted twice. The differential
 * test must detect it. Preloaded after libgpumem.so. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

enum { CHUNK = 8 << 20, PART = 4096 };

static uint64_t chunk;
static size_t used;

int cudaMalloc(void **pointer, size_t size)
{
    (void)size;
    if (chunk == 0) {
        int (*alloc)(uint64_t *, size_t) = dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
        if (alloc == NULL || alloc(&chunk, CHUNK) != 0)
            return 2;
        used = PART;
    }
    if (used + PART > CHUNK)
        return 2;
    *pointer = (void *)(uintptr_t)(chunk + used);
    used += PART;
    return 0;
}
