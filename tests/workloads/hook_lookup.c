/* hook_lookup WAY [VERSION FLAGS]: reaches cuMemAlloc and cuMemFree in one of the ways that programs use, and
 * calls them once: 3 MiB, released again. */
#include "hook_client.h"

#ifdef LINKED
extern int cuMemAlloc_v2(pointer_t *, size_t);
extern int cuMemFree_v2(pointer_t);
#endif

static alloc_t allocate;
static free_t release;

/* Both functions from cuGetProcAddress of one or the other generation. */
static void by_version(proc1_t first, proc2_t second, int version, uint64_t flags, int with_status) {
    int status = -1;
    void *found[2] = {NULL, NULL};
    const char *names[2] = {"cuMemAlloc", "cuMemFree"};
    for (int i = 0; i < 2; i++)
        CHECK(first != NULL ? first(names[i], &found[i], version, flags)
                            : second(names[i], &found[i], version, flags, with_status ? &status : NULL));
    allocate = (alloc_t)found[0];
    release = (free_t)found[1];
}

int main(int argc, char **argv) {
    const char *way = argc > 1 ? argv[1] : "";
    int version = argc > 2 ? atoi(argv[2]) : 12000;
    uint64_t flags = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
    void *found = NULL;

    if (strcmp(way, "handle") == 0) {
        allocate = need(driver(), "cuMemAlloc_v2");
        release = need(driver(), "cuMemFree_v2");
    } else if (strcmp(way, "versioned") == 0) {
        allocate = dlvsym(driver(), "cuMemAlloc_v2", "libcuda.so.1");
        release = dlvsym(driver(), "cuMemFree_v2", "libcuda.so.1");
    } else if (strcmp(way, "default") == 0) {
        dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
        allocate = need(RTLD_DEFAULT, "cuMemAlloc_v2");
        release = need(RTLD_DEFAULT, "cuMemFree_v2");
    } else if (strcmp(way, "next") == 0) {
        dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
        allocate = need(RTLD_NEXT, "cuMemAlloc_v2");
        release = need(RTLD_NEXT, "cuMemFree_v2");
    } else if (strcmp(way, "first") == 0) { /* CUDA 11.3's cuGetProcAddress */
        by_version((proc1_t)need(driver(), "cuGetProcAddress"), NULL, version, flags, 0);
    } else if (strcmp(way, "second") == 0) {
        by_version(NULL, (proc2_t)need(driver(), "cuGetProcAddress_v2"), version, flags, 1);
    } else if (strcmp(way, "no status") == 0) {
        by_version(NULL, (proc2_t)need(driver(), "cuGetProcAddress_v2"), version, flags, 0);
    } else if (strcmp(way, "nested") == 0) { /* as libcudart 12 and 13 */
        proc2_t outer = (proc2_t)need(driver(), "cuGetProcAddress_v2"), inner;
        CHECK(outer("cuGetProcAddress", &found, 12000, 0, NULL));
        inner = (proc2_t)found;
        by_version(NULL, inner, version, flags, 1);
    } else if (strcmp(way, "nested old") == 0) { /* as libcudart 11 */
        proc1_t outer = (proc1_t)need(driver(), "cuGetProcAddress"), inner;
        CHECK(outer("cuGetProcAddress", &found, 11030, 0));
        inner = (proc1_t)found;
        by_version(inner, NULL, version, flags, 0);
    } else if (strcmp(way, "nested across") == 0) { /* the second generation from the first */
        proc1_t outer = (proc1_t)need(driver(), "cuGetProcAddress");
        CHECK(outer("cuGetProcAddress", &found, 12000, 0));
        by_version(NULL, (proc2_t)found, version, flags, 1);
#ifdef LINKED
    } else if (strcmp(way, "linked") == 0) {
        allocate = cuMemAlloc_v2;
        release = cuMemFree_v2;
#endif
    } else {
        DIE("no such way: %s", way);
    }
    if (allocate == NULL || release == NULL)
        DIE("not found");

    start();
    pointer_t pointer = 0;
    CHECK(allocate(&pointer, 3 << 20));
    AGREE("the allocation");
    CHECK(release(pointer));
    AGREE("the release");
    tell_books(way);
    return 0;
}
