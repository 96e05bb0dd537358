/* steady THREADS ROUNDS STATUS FILE: threads that allocate and release at a moderate pace through the driver, as
 * often as ROUNDS says and then until stdin is closed. Prints the results of the calls in these first rounds, the same
 * each time, and ends with STATUS.
 *
 * FILE, which is mapped, gets each thread's progress and the simulator's books (struct figures, then a struct part
 * of each thread), while the program runs. It must be in memory: on a disk, the threads could wait for it. */
#include "hook_client.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

enum { KEPT = 16, PACE_US = 2000 };

struct figures {
    uint64_t threads, rounds;
    _Atomic uint64_t started, ended;
    /* The first calls, in nanoseconds: a recorder opens during them. */
    uint64_t opening;
    uint64_t allocations, frees, live, peak;
};

struct part { /* of one thread, by itself */
    _Atomic uint64_t rounds;
    /* The longest call, in nanoseconds, and how often calls were left for another thread because they waited. */
    uint64_t longest, waits;
    uint64_t allocations, frees, checksum;
};

static alloc_t alloc;
static free_t release;
static struct figures *figures;
static struct part *parts;
static atomic_int stopped;

struct moment { uint64_t time, waits; };

static struct moment moment(void) {
    struct timespec time;
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (struct moment){(uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec, (uint64_t)usage.ru_nvcsw};
}

static void took(struct part *part, struct moment from) {
    struct moment to = moment();
    part->waits += to.waits - from.waits;
    if (to.time - from.time > part->longest)
        part->longest = to.time - from.time;
}

static uint64_t mixed(uint64_t sum, uint64_t value) {
    return (sum ^ value) * 0x100000001b3u;
}

static void *work(void *argument) {
    struct part *part = argument;
    uint64_t chance = (uint64_t)(part - parts) + 1, sum = 0xcbf29ce484222325u;
    pointer_t kept[KEPT] = {0};
    start();
    atomic_fetch_add(&figures->started, 1);
    for (uint64_t round = 0; round < figures->rounds || !atomic_load(&stopped); round++) {
        chance = chance * 6364136223846793005u + 1442695040888963407u;
        uint64_t slot = chance >> 20 & (KEPT - 1), bytes = 512 * (1 + (chance >> 33) % 64);
        int released = 0;
        if (kept[slot] != 0) {
            struct moment from = moment();
            released = release(kept[slot]);
            took(part, from);
            part->frees++;
        }
        struct moment from = moment();
        int made = alloc(&kept[slot], bytes);
        took(part, from);
        part->allocations++;
        if (made != 0 || released != 0)
            DIE("round %lu: cuMemFree_v2 gave %d, cuMemAlloc_v2 %d", round, released, made);
        if (round < figures->rounds)
            sum = mixed(mixed(sum, bytes), kept[slot] % 512);
        part->rounds = round + 1;
        usleep(PACE_US);
    }
    part->checksum = sum;
    atomic_fetch_add(&figures->ended, 1);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 5)
        DIE("usage: steady THREADS ROUNDS STATUS FILE");
    uint64_t threads = strtoull(argv[1], NULL, 10), sum = 0;
    size_t length = sizeof(struct figures) + threads * sizeof(struct part);
    int file = open(argv[4], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0 || ftruncate(file, (off_t)length) != 0)
        DIE("no file for the figures");
    figures = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
    if (figures == MAP_FAILED)
        DIE("no figures");
    parts = (struct part *)(figures + 1);
    figures->threads = threads;
    figures->rounds = strtoull(argv[2], NULL, 10);
    pthread_t *started = calloc(threads, sizeof *started);
    alloc = need(driver(), "cuMemAlloc_v2");
    release = need(driver(), "cuMemFree_v2");
    uint64_t from = moment().time;
    start();
    pointer_t first;
    CHECK(alloc(&first, 512));
    CHECK(release(first));
    figures->opening = moment().time - from;
    for (uint64_t i = 0; i < threads; i++)
        pthread_create(&started[i], NULL, work, &parts[i]);
    char byte;
    while (read(0, &byte, 1) > 0)
        ;
    atomic_store(&stopped, 1);
    for (uint64_t i = 0; i < threads; i++)
        pthread_join(started[i], NULL);
    figures->allocations = figures->frees = 1;
    for (uint64_t i = 0; i < threads; i++) {
        sum = mixed(sum, parts[i].checksum);
        figures->allocations += parts[i].allocations;
        figures->frees += parts[i].frees;
    }
    books(0, "driver", &figures->live, &figures->peak);
    printf("%lu threads, %lu rounds, checksum %016lx\n", threads, figures->rounds, sum);
    fflush(stdout);
    return atoi(argv[3]);
}
