/* A plugin that calls CUDA from its ELF destructor: after every exit handler and after the recorder's end. */
#include "hook_client.h"

static alloc_t alloc;
static free_t release;
static pointer_t kept;

void use(const char *way) {
    (void)way;
    alloc = need(driver(), "cuMemAlloc_v2");
    release = need(driver(), "cuMemFree_v2");
    start();
    CHECK(alloc(&kept, 1 << 20));
}

__attribute__((destructor)) static void end(void) {
    pointer_t more;
    if (alloc == NULL)
        return;
    CHECK(release(kept));
    CHECK(alloc(&more, 2 << 20));
    CHECK(alloc(&more, 4 << 20));
    tell_books("in the destructor");
}
