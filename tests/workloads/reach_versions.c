/* reach_versions: calls cuGetProcAddress of both generations, directly and through itself, for each
 * CUDA version from 11.3 to 13.5 and each kind of stream, and uses the result: a block by cuMemAlloc
 * and one by cuMemAllocAsync each time, released again. Prints the number of rounds. With an
 * argument it uses libcudart.so.13's cudaGetDriverEntryPoint ("entry") or its ByVersion ("version"). */
#include "hook_client.h"

typedef int (*async_alloc_t)(pointer_t *, size_t, void *);
typedef int (*async_free_t)(pointer_t, void *);
typedef int (*entry_t)(const char *, void **, unsigned long long, int *);
typedef int (*entry_by_version_t)(const char *, void **, unsigned, unsigned long long, int *);

static const int VERSIONS[] = {11030, 11040, 11050, 11060, 11070, 11080, 12000, 12010, 12020, 12030, 12040,
                               12050, 12060, 12070, 12080, 12090, 13000, 13010, 13020, 13030, 13040, 13050};
static int rounds;

static void use(void *found[4]) {
    size_t size = 4096 + 256 * (size_t)rounds++;
    pointer_t pointer = 0, ordered = 0;
    for (int i = 0; i < 4; i++)
        if (found[i] == NULL)
            DIE("round %d: function %d is not there", rounds, i);
    CHECK(((alloc_t)found[0])(&pointer, size));
    CHECK(((async_alloc_t)found[2])(&ordered, size, NULL));
    AGREE("two allocations");
    CHECK(((free_t)found[1])(pointer));
    CHECK(((async_free_t)found[3])(ordered, NULL));
    AGREE("two releases");
}

static const char *NAMES[4] = {"cuMemAlloc", "cuMemFree", "cuMemAllocAsync", "cuMemFreeAsync"};

static void by_first(proc1_t ask, int version, uint64_t flags) {
    void *found[4] = {NULL, NULL, NULL, NULL};
    for (int i = 0; i < 4; i++)
        CHECK(ask(NAMES[i], &found[i], version, flags));
    use(found);
}

static void by_second(proc2_t ask, int version, uint64_t flags, int with_status) {
    void *found[4] = {NULL, NULL, NULL, NULL};
    int status = -1;
    for (int i = 0; i < 4; i++) {
        CHECK(ask(NAMES[i], &found[i], version, flags, with_status ? &status : NULL));
        if (with_status && status != 0)
            DIE("%s of %d: status %d", NAMES[i], version, status);
    }
    use(found);
}

static void by_runtime(const char *way, int version, uint64_t flags) {
    void *found[4] = {NULL, NULL, NULL, NULL};
    int status = -1;
    for (int i = 0; i < 4; i++) {
        if (strcmp(way, "entry") == 0)
            CHECK(((entry_t)need(RTLD_DEFAULT, "cudaGetDriverEntryPoint"))(NAMES[i], &found[i], flags, &status));
        else
            CHECK(((entry_by_version_t)need(RTLD_DEFAULT, "cudaGetDriverEntryPointByVersion"))(
                NAMES[i], &found[i], (unsigned)version, flags, &status));
    }
    use(found);
}

int main(int argc, char **argv) {
    start();
    proc1_t first = (proc1_t)need(driver(), "cuGetProcAddress");
    proc2_t second = (proc2_t)need(driver(), "cuGetProcAddress_v2");
    for (size_t i = 0; i < sizeof VERSIONS / sizeof *VERSIONS; i++)
        for (uint64_t flags = 0; flags <= 2; flags++) {
            int version = VERSIONS[i];
            if (argc > 1) {
                by_runtime(argv[1], version, flags);
                continue;
            }
            by_first(first, version, flags);
            by_second(second, version, flags, 1);
            by_second(second, version, flags, 0);
            /* a lookup of itself: before 12.0 its name means the form without a status */
            void *itself = NULL;
            CHECK(second("cuGetProcAddress", &itself, version, flags, NULL));
            if (version < 12000)
                by_first((proc1_t)itself, version, flags);
            else
                by_second((proc2_t)itself, version, flags, 1);
            CHECK(first("cuGetProcAddress", &itself, version, flags));
            if (version < 12000)
                by_first((proc1_t)itself, version, flags);
            else
                by_second((proc2_t)itself, version, flags, 1);
        }
    printf("%d rounds\n", rounds);
    tell_books("all");
    return 0;
}
