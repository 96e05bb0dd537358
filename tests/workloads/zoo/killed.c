/* killed LOG [PAIRS [CALLS]]: allocates and frees PAIRS blocks; then eight threads train until the process is killed,
 * or each has called the driver as often as CALLS says.
 * Forward allocates activations, backward frees them in reverse, and every few steps a state grows. After each
 * call has returned, each thread writes its result into its part of the mapped file LOG: all of these must be
 * in the capture. */
#include "../hook_client.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { THREADS = 8, ENTRIES = 1 << 18, LAYERS = 12, STATES = 40, STATE = 1 << 20 };

struct part { /* of one thread */
    uint64_t thread;
    _Atomic uint64_t entries;
    struct { uint64_t kind, pointer, bytes; } entry[ENTRIES];
};

static alloc_t alloc;
static free_t release;
static struct part *parts;
static uint64_t calls = ENTRIES;

static void wrote(struct part *part, uint64_t kind, pointer_t pointer, uint64_t bytes) {
    uint64_t n = atomic_load_explicit(&part->entries, memory_order_relaxed);
    part->entry[n].kind = kind;
    part->entry[n].pointer = pointer;
    part->entry[n].bytes = bytes;
    atomic_store_explicit(&part->entries, n + 1, memory_order_release);
    while (n + 1 == calls)
        pause();
}

static pointer_t take(struct part *part, uint64_t bytes) {
    pointer_t pointer;
    CHECK(alloc(&pointer, bytes));
    wrote(part, 1, pointer, bytes);
    return pointer;
}

static void give(struct part *part, pointer_t pointer, uint64_t bytes) {
    CHECK(release(pointer));
    wrote(part, 2, pointer, bytes);
}

/* Bytes of an activation: less than a state, and another number each time. */
static uint64_t some(uint64_t *chance) {
    *chance = *chance * 6364136223846793005u + 1442695040888963407u;
    return 512 * (1 + (*chance >> 33) % 1024);
}

/* Fills the capture's log; none of it is logged here. */
static void before(uint64_t pairs) {
    pointer_t few[64] = {0};
    uint64_t chance = 0;
    for (uint64_t pair = 0; pair < pairs; pair++) {
        uint64_t size = some(&chance), place = chance >> 20 & 63;
        if (few[place] != 0)
            CHECK(release(few[place]));
        CHECK(alloc(&few[place], size));
    }
    for (int place = 0; place < 64; place++)
        if (few[place] != 0)
            CHECK(release(few[place]));
}

static void *train(void *argument) {
    struct part *part = argument;
    uint64_t unit = 512 * (uint64_t)(part - parts + 1), chance = unit, sizes[LAYERS];
    pointer_t activations[LAYERS], states[STATES] = {0};
    part->thread = (uint64_t)syscall(SYS_gettid);
    start();
    for (uint64_t step = 0;; step++) {
        for (uint64_t layer = 0; layer < LAYERS; layer++)
            activations[layer] = take(part, sizes[layer] = some(&chance));
        for (uint64_t layer = LAYERS; layer-- > 0;) {
            uint64_t size = some(&chance);
            pointer_t gradient = take(part, size);
            give(part, activations[layer], sizes[layer]);
            give(part, gradient, size);
        }
        uint64_t state = step / 3 % STATES;
        if (step % 3 == 0) {
            if (states[state] != 0)
                give(part, states[state], STATE + unit);
            states[state] = take(part, STATE + unit);
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t thread;
    int file = argc > 1 ? open(argv[1], O_RDWR | O_CREAT, 0644) : -1;
    if (file < 0 || ftruncate(file, sizeof(struct part) * THREADS) != 0)
        DIE("no log");
    parts = mmap(NULL, sizeof(struct part) * THREADS, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (parts == MAP_FAILED)
        DIE("no log");
    if (write(1, "ready\n", 6) != 6)
        return 2;
    if (argc > 3)
        calls = strtoull(argv[3], NULL, 10);
    alloc = need(driver(), "cuMemAlloc_v2");
    release = need(driver(), "cuMemFree_v2");
    start();
    before(argc > 2 ? strtoull(argv[2], NULL, 10) : 0);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread, NULL, train, &parts[i]);
    for (;;)
        pause();
}
