/* Pools and physical handles that are not a device's own memory: host memory, host memory of a NUMA node, managed
 * memory. After each step the recorder's counters must be the simulator's books, on both devices and on the host.
 * "early": the first call that the recorder sees is the creation of a host pool. */
#include "hook_client.h"

enum { NONE, DEVICE, HOST, NODE, NODE_CURRENT };
enum { PINNED = 1, MANAGED = 2 };
enum { MIB = 1 << 20 };

struct pool_properties { /* CUmemPoolProps */
    uint32_t type, handle_types;
    struct location location;
    void *win32;
    size_t most;
    unsigned char rest[56];
};

static int (*create)(void **, const struct pool_properties *);
static int (*destroy)(void *);
static int (*from_pool)(pointer_t *, size_t, void *, void *);
static int (*release)(pointer_t, void *);
static int (*release_now)(pointer_t);
static int (*default_pool)(void **, const struct location *, unsigned);
static int (*set_pool)(const struct location *, unsigned, void *);
static int (*attribute)(void *, unsigned, void *);
static int (*make)(pointer_t *, size_t, const struct properties *, uint64_t);
static int (*unmake)(pointer_t);

/* The recorder's live bytes at a level (1 driver, 2 host); device 255: memory of no device. */
static uint64_t recorded(int device, int level) {
    static int (*ask)(int, int, struct counters *);
    static int looked;
    struct counters ours = {0, 0, 0, 0};
    if (!looked) {
        *(void **)&ask = dlsym(RTLD_DEFAULT, "gpumem_counters");
        looked = 1;
    }
    if (ask == NULL)
        return UINT64_MAX;
    ask(device, level, &ours);
    return ours.live;
}

static void agree(int line) {
    uint64_t now, peak;
    if (recorded(0, 1) == UINT64_MAX)
        return;
    for (int device = 0; device < 2; device++) {
        books(device, "driver", &now, &peak);
        if (recorded(device, 1) != now)
            DIE("line %d: device %d: recorder %llu, books %llu", line, device,
                (unsigned long long)recorded(device, 1), (unsigned long long)now);
    }
    books(0, "host", &now, &peak);
    if (recorded(0, 2) + recorded(255, 2) != now || recorded(1, 2) != 0)
        DIE("line %d: host: recorder %llu, books %llu", line, (unsigned long long)recorded(255, 2),
            (unsigned long long)now);
}
#define AGREED agree(__LINE__)

static int try_pool(void **pool, unsigned type, unsigned kind, int id, unsigned shared, size_t most) {
    struct pool_properties properties = {.type = type, .handle_types = shared, .location = {kind, id}, .most = most};
    return create(pool, &properties);
}

static void expect(int wanted, int line, int result) {
    if (result != wanted)
        DIE("line %d: %d instead of %d", line, result, wanted);
}
#define GIVES(wanted, call) expect(wanted, __LINE__, call)

/* Memory of a pool, released in both ways; the pool reports its type and location. */
static void use(void *pool, unsigned type, unsigned kind, int id) {
    pointer_t first, second;
    int found[3] = {-1, -1, -1};
    CHECK(attribute(pool, 9, &found[0]));
    CHECK(attribute(pool, 12, &found[1]));
    CHECK(attribute(pool, 11, &found[2]));
    if (found[0] != (int)type || found[1] != (int)kind || found[2] != id)
        DIE("a pool of type %u at %u %d says %d at %d %d", type, kind, id, found[0], found[1], found[2]);
    CHECK(from_pool(&first, 3 * MIB, pool, NULL));
    AGREED;
    CHECK(from_pool(&second, 5 * MIB, pool, NULL));
    AGREED;
    *(volatile char *)first = 1; /* the host can use it */
    CHECK(release(first, NULL));
    AGREED;
    CHECK(release_now(second));
    AGREED;
}

static void handle(unsigned kind, int id, unsigned shared) {
    pointer_t made;
    struct properties properties = {.type = PINNED, .handle_types = shared, .location = {kind, id}};
    CHECK(make(&made, 2 * MIB, &properties, 0));
    AGREED;
    CHECK(unmake(made));
    AGREED;
}

int main(int argc, char **argv) {
    static const struct { unsigned type, kind; int id; } places[] = {
        {PINNED, HOST, 0}, {PINNED, NODE, 0}, {PINNED, NODE, 1}, {MANAGED, DEVICE, 0}, {MANAGED, DEVICE, 1},
        {MANAGED, HOST, 0}, {MANAGED, NODE, 1}, {MANAGED, NONE, 0}, {PINNED, DEVICE, 1},
    };
    void *pool;
    pointer_t kept, other;
    int early = argc > 1 && strcmp(argv[1], "early") == 0;
    *(void **)&create = need(driver(), "cuMemPoolCreate");
    *(void **)&destroy = need(driver(), "cuMemPoolDestroy");
    *(void **)&from_pool = need(driver(), "cuMemAllocFromPoolAsync");
    *(void **)&release = need(driver(), "cuMemFreeAsync");
    *(void **)&release_now = need(driver(), "cuMemFree_v2");
    *(void **)&default_pool = need(driver(), "cuMemGetDefaultMemPool");
    *(void **)&set_pool = need(driver(), "cuMemSetMemPool");
    *(void **)&attribute = need(driver(), "cuMemPoolGetAttribute");
    *(void **)&make = need(driver(), "cuMemCreate");
    *(void **)&unmake = need(driver(), "cuMemRelease");
    start();
    if (!early) {
        CHECK(((alloc_t)need(driver(), "cuMemAlloc_v2"))(&other, MIB));
        AGREED;
    }
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        CHECK(try_pool(&pool, places[i].type, places[i].kind, places[i].id, 0, 0));
        use(pool, places[i].type, places[i].kind, places[i].id);
        CHECK(destroy(pool)); /* its handle is the next pool's */
    }
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct location location = {places[i].kind, places[i].id};
        CHECK(default_pool(&pool, &location, places[i].type)); /* not created by the program */
        use(pool, places[i].type, places[i].kind, places[i].id);
        GIVES(1, destroy(pool));
        CHECK(set_pool(&location, places[i].type, pool));
        GIVES(1, set_pool(&(struct location){HOST, 0}, MANAGED + 1, pool));
    }
    handle(HOST, 1, 0);
    handle(NODE, 1, 1);
    handle(NODE_CURRENT, 1, 0);
    handle(DEVICE, 1, 1);

    GIVES(1, try_pool(&pool, PINNED, HOST, 0, 1, 0));          /* cannot be shared */
    GIVES(1, try_pool(&pool, MANAGED, DEVICE, 0, 1, 0));
    GIVES(1, try_pool(&pool, MANAGED, DEVICE, 0, 0, MIB));     /* has no largest size */
    GIVES(1, try_pool(&pool, PINNED, NODE_CURRENT, 0, 0, 0));
    GIVES(1, try_pool(&pool, PINNED, NODE, 9, 0, 0));
    GIVES(1, try_pool(&pool, PINNED, NONE, 0, 0, 0));
    GIVES(101, try_pool(&pool, MANAGED, DEVICE, 9, 0, 0));
    GIVES(1, make(&kept, 2 * MIB, &(struct properties){.type = PINNED, .handle_types = 1, .location = {HOST, 0}}, 0));
    GIVES(801, make(&kept, 2 * MIB, &(struct properties){.type = MANAGED, .location = {DEVICE, 0}}, 0));
    AGREED;

    /* A destroyed pool keeps its memory; host memory outlives the pool. */
    CHECK(try_pool(&pool, PINNED, NODE, 1, 0, 0));
    CHECK(from_pool(&kept, 7 * MIB, pool, NULL));
    CHECK(destroy(pool));
    AGREED;
    CHECK(try_pool(&pool, MANAGED, DEVICE, 1, 0, 0));
    CHECK(from_pool(&other, 9 * MIB, pool, NULL));
    AGREED;
    GIVES(1, ((int (*)(void *))need(driver(), "cuMemFreeHost"))((void *)kept));
    AGREED;
    printf("host 7 MiB, managed 9 MiB\n");
    return 0;
}
