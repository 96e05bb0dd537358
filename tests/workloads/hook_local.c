/* A library with a dependency on libcuda.so.1 that a program loads with RTLD_LOCAL: neither is in
 * the global scope. `use` allocates 3 MiB in the given way and releases them. */
#include "hook_client.h"

extern int cuMemAlloc_v2(pointer_t *, size_t);
extern int cuMemFree_v2(pointer_t);

void use(const char *way) {
    alloc_t allocate = cuMemAlloc_v2;
    free_t release = cuMemFree_v2;
    if (strcmp(way, "direct") != 0) {
        void *where = strcmp(way, "next") == 0 ? RTLD_NEXT : RTLD_DEFAULT;
        allocate = need(where, "cuMemAlloc_v2");
        release = need(where, "cuMemFree_v2");
    }
    start();
    pointer_t pointer = 0;
    CHECK(allocate(&pointer, 3 << 20));
    CHECK(release(pointer));
    tell_books(way);
}
