/* A stand-in for libcudart with a cudaMalloc that hands out parts of a chunk, which it takes from the
 * driver beforehand, on a thread of its own. To a recorder that hooks both levels and knows nothing of
 * the chunk, each part looks like an allocation beside it: memory that is counted twice. The
 * differential test must notice. Preloaded after libgpumem.so. */
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
