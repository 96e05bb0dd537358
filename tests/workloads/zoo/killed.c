/* killed LOG: eight threads train until the process is killed: forward makes activations, backward gives them
 * back in reverse, and every few steps a state grows. Each thread writes into its part of the file LOG, which
 * is mapped, what a call has done once it has returned: whatever stands there must be in the capture. */
#include "../hook_client.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { THREADS = 8, ENTRIES = 1 << 16, LAYERS = 12, STATES = 40 };

struct part { /* of one thread */
    uint64_t thread;
    _Atomic uint64_t entries;
    struct { uint64_t kind, pointer, bytes; } entry[ENTRIES];
};

static alloc_t alloc;
static free_t release;
static struct part *parts;

static void wrote(struct part *part, uint64_t kind, pointer_t pointer, uint64_t bytes) {
    uint64_t n = atomic_load_explicit(&part->entries, memory_order_relaxed);
    if (n == ENTRIES)
        for (;;)
            pause();
    part->entry[n].kind = kind;
    part->entry[n].pointer = pointer;
    part->entry[n].bytes = bytes;
    atomic_store_explicit(&part->entries, n + 1, memory_order_release);
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

static void *train(void *argument) {
    struct part *part = argument;
    uint64_t unit = 512 * (uint64_t)(part - parts + 1);
    pointer_t activations[LAYERS], states[STATES] = {0};
    part->thread = (uint64_t)syscall(SYS_gettid);
    start();
    for (uint64_t step = 0;; step++) {
        for (uint64_t layer = 0; layer < LAYERS; layer++)
            activations[layer] = take(part, unit * (1 + (layer + step) % 5));
        for (uint64_t layer = LAYERS; layer-- > 0;) {
            uint64_t size = unit * (1 + layer % 3);
            pointer_t gradient = take(part, size);
            give(part, activations[layer], unit * (1 + (layer + step) % 5));
            give(part, gradient, size);
        }
        uint64_t state = step / 3 % STATES;
        if (step % 3 == 0) {
            if (states[state] != 0)
                give(part, states[state], unit * 7);
            states[state] = take(part, unit * 7);
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
    alloc = need(driver(), "cuMemAlloc_v2");
    release = need(driver(), "cuMemFree_v2");
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread, NULL, train, &parts[i]);
    for (;;)
        pause();
}
