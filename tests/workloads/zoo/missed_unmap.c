/* Memory is unmapped by the driver's own function, which the recorder does not see. Then the driver gives the same address
 * for a smaller, ordinary allocation. */
#include "of_driver.h"

enum { BYTES = 4 << 20, TRIES = 64 };

int main(void) {
    struct properties properties = {.type = 1, .location = {1, 0}};
    pointer_t handle, at, pointer;
    start();
    CHECK(((int (*)(pointer_t *, size_t, const struct properties *, uint64_t))need(driver(), "cuMemCreate"))(
        &handle, BYTES, &properties, 0));
    CHECK(((int (*)(pointer_t *, size_t, size_t, pointer_t, uint64_t))need(driver(), "cuMemAddressReserve"))(
        &at, BYTES, 0, 0, 0));
    CHECK(((int (*)(pointer_t, size_t, size_t, pointer_t, uint64_t))need(driver(), "cuMemMap"))(at, BYTES, 0, handle, 0));
    AGREE("a mapping");
    CHECK(((free_t)need(driver(), "cuMemRelease"))(handle));
    CHECK(((int (*)(pointer_t, size_t))of_driver(driver(), "cuMemUnmap"))(at, BYTES));
    CHECK(((int (*)(pointer_t, size_t))need(driver(), "cuMemAddressFree"))(at, BYTES));
    alloc_t alloc = (alloc_t)need(driver(), "cuMemAlloc_v2");
    for (int i = 0; i < TRIES; i++) {
        CHECK(alloc(&pointer, BYTES / 2));
        if (pointer - at >= BYTES)
            continue; /* elsewhere; kept, so that the next one is not there again */
        uint64_t live, peak;
        struct counters ours;
        int (*ask)(int, int, struct counters *) = (int (*)(int, int, struct counters *))dlsym(RTLD_DEFAULT, "gpumem_counters");
        books(0, "driver", &live, &peak);
        if (ask != NULL && (ask(0, 1, &ours) != 0 || ours.live != live))
            DIE("recorder %llu, books %llu", (unsigned long long)ours.live, (unsigned long long)live);
        tell_books("reused");
        return 21;
    }
    DIE("the address is not used again");
}
