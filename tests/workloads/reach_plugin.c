/* A library that reaches the driver in one of many ways and uses it once: `use(WAY)` allocates 3 MiB
 * and releases them. Built with -DLINKED it depends on libcuda.so.1. With -DEARLY its constructor
 * looks the functions up, before any code of the program, and `use` has no others. With
 * REACH_UNSEEN, the recorder is not expected to see it. */
#include "hook_client.h"

#ifdef LINKED
extern int cuMemAlloc_v2(pointer_t *, size_t);
extern int cuMemFree_v2(pointer_t);
#endif

static alloc_t allocate;
static free_t release;

static void find(const char *way) {
    void *library = NULL;
    if (strcmp(way, "deep") == 0) {
        if ((library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND)) == NULL)
            DIE("%s", dlerror());
        way = "handle";
    }
    if (strcmp(way, "handle") == 0) {
        library = library != NULL ? library : driver();
        allocate = (alloc_t)need(library, "cuMemAlloc_v2");
        release = (free_t)need(library, "cuMemFree_v2");
    } else if (strcmp(way, "versioned") == 0) {
        allocate = (alloc_t)dlvsym(driver(), "cuMemAlloc_v2", "libcuda.so.1");
        release = (free_t)dlvsym(driver(), "cuMemFree_v2", "libcuda.so.1");
    } else if (strcmp(way, "proc") == 0) {
        proc2_t ask = (proc2_t)need(driver(), "cuGetProcAddress_v2");
        CHECK(ask("cuMemAlloc", (void **)&allocate, 12000, 0, NULL));
        CHECK(ask("cuMemFree", (void **)&release, 12000, 0, NULL));
    } else if (strcmp(way, "default") == 0 || strcmp(way, "next") == 0) {
        void *where = strcmp(way, "next") == 0 ? RTLD_NEXT : RTLD_DEFAULT;
        if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) == NULL)
            DIE("%s", dlerror());
        allocate = (alloc_t)need(where, "cuMemAlloc_v2");
        release = (free_t)need(where, "cuMemFree_v2");
#ifdef LINKED
    } else if (strcmp(way, "linked") == 0) {
        allocate = cuMemAlloc_v2;
        release = cuMemFree_v2;
#endif
    } else {
        DIE("no such way: %s", way);
    }
}

#ifdef EARLY
__attribute__((constructor)) static void early(void) { find(EARLY); }
#endif

void use(const char *way) {
    if (allocate == NULL)
        find(way);
    if (allocate == NULL || release == NULL)
        DIE("not found");
    start();
    pointer_t pointer = 0;
    CHECK(allocate(&pointer, 3 << 20));
    if (getenv("REACH_UNSEEN") == NULL)
        AGREE("the allocation");
    CHECK(release(pointer));
    if (getenv("REACH_UNSEEN") == NULL)
        AGREE("the release");
    tell_books(way);
}
