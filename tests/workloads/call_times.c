/* Calls of every kind that is timed at the driver, each a known number of times: some succeed, some fail. */
#include "hook_client.h"

enum { BLOCKS = 6 };

#define F(name, ...) int (*name)(__VA_ARGS__) = (int (*)(__VA_ARGS__))need(driver(), #name)

struct access { struct location location; uint32_t flags; };

int main(void) {
    F(cuMemAlloc_v2, pointer_t *, size_t);
    F(cuMemFree_v2, pointer_t);
    F(cuMemAddressReserve, pointer_t *, size_t, size_t, pointer_t, uint64_t);
    F(cuMemAddressFree, pointer_t, size_t);
    F(cuMemCreate, pointer_t *, size_t, const struct properties *, uint64_t);
    F(cuMemRelease, pointer_t);
    F(cuMemMap, pointer_t, size_t, size_t, pointer_t, uint64_t);
    F(cuMemSetAccess, pointer_t, size_t, const struct access *, size_t);
    F(cuMemUnmap, pointer_t, size_t);
    struct properties properties = {.type = 1, .location = {1, 0}};
    struct access access = {{1, 0}, 3};
    size_t unit = (size_t)2 << 20;
    pointer_t blocks[BLOCKS], none, address, handles[2];

    start();
    for (int i = 0; i < BLOCKS; i++)
        CHECK(cuMemAlloc_v2(&blocks[i], 1000 * (size_t)(i + 1)));
    printf("too much: %d\n", cuMemAlloc_v2(&none, (size_t)1 << 46));
    printf("too much: %d\n", cuMemAlloc_v2(&none, (size_t)1 << 47));
    for (int i = 0; i < BLOCKS; i++)
        CHECK(cuMemFree_v2(blocks[i]));
    CHECK(cuMemFree_v2(0));

    CHECK(cuMemAddressReserve(&address, 2 * unit, 0, 0, 0));
    for (size_t i = 0; i < 2; i++) {
        CHECK(cuMemCreate(&handles[i], unit, &properties, 0));
        CHECK(cuMemMap(address + i * unit, unit, 0, handles[i], 0));
    }
    CHECK(cuMemSetAccess(address, 2 * unit, &access, 1));
    printf("not mapped: %d\n", cuMemSetAccess(address + 2 * unit, unit, &access, 1));
    CHECK(cuMemUnmap(address, 2 * unit));
    for (size_t i = 0; i < 2; i++)
        CHECK(cuMemRelease(handles[i]));
    CHECK(cuMemAddressFree(address, 2 * unit));
    tell_books("end");
    return 0;
}
