/* steady THREADS SECONDS STATUS FILE: threads that allocate and release at a moderate pace through the driver, for
 * the rounds that fit SECONDS and then until stdin is closed. Prints the results of the calls in the first rounds,
 * the same each time, and ends with STATUS.
 *
 * FILE, which is mapped, gets the calls' durations and the simulator's books (struct figures, then a struct part
 * of each thread), while the program runs. It must be in a file system without delays.
 *
 * The duration of a call: its elapsed time, less the time for which its thread was ready to run and had no
 * processor; only the thread's processor time where it never waited. So a busy machine adds nothing, but any other
 * wait of the thread counts. Long calls are listed, because a thread may also wait for another one that has no
 * processor. */
#include "hook_client.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

enum { KEPT = 16, PACE_US = 2000, LONG_NS = 500000, LONGS = 1000 };

struct figures {
    uint64_t threads, rounds;
    _Atomic uint64_t started, ended;
    uint64_t opening, allocations, frees, live, peak;
    /* CLOCK_MONOTONIC when all threads had ended. */
    uint64_t end;
};

struct part { /* of one thread, by itself; times in nanoseconds */
    _Atomic uint64_t rounds;
    /* The longest call, as defined above. */
    uint64_t held;
    uint64_t allocations, frees, checksum, longs;
    /* Calls that took or were kept from a processor for LONG_NS: what is beyond LONGS is only counted. */
    struct { uint64_t start, end, held, ready; } of[LONGS];
};

static alloc_t alloc;
static free_t release;
static struct figures *figures;
static struct part *parts;
static atomic_int stopped;

static uint64_t now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

struct moment { uint64_t wall, cpu, ready, waits; };

/* A thread may lose its processor between two of these readings: then it was ready for longer than the call has
 * of it, and the call seems shorter, not longer.
 * `schedstat`: this thread's file of /proc, whose second number is the time it was ready and did not run. */
static struct moment moment(int schedstat) {
    char text[96];
    struct rusage usage;
    struct moment found = {0, 0, 0, 0};
    ssize_t length = pread(schedstat, text, sizeof text - 1, 0);
    text[length < 0 ? 0 : length] = 0;
    sscanf(text, "%*u %lu", &found.ready);
    getrusage(RUSAGE_THREAD, &usage);
    found.waits = (uint64_t)usage.ru_nvcsw;
    found.cpu = now(CLOCK_THREAD_CPUTIME_ID);
    found.wall = now(CLOCK_MONOTONIC);
    return found;
}

static void took(struct part *part, int schedstat, struct moment from) {
    /* Read first: what the others take is not the call's. */
    uint64_t wall = now(CLOCK_MONOTONIC) - from.wall;
    struct moment to = moment(schedstat);
    uint64_t ready = to.ready - from.ready;
    uint64_t held = to.waits == from.waits ? to.cpu - from.cpu : wall - (ready < wall ? ready : wall);
    if (held > wall)
        held = wall;
    if (held > part->held)
        part->held = held;
    if (held > LONG_NS || ready > LONG_NS) {
        uint64_t n = part->longs++;
        if (n < LONGS) {
            part->of[n].start = from.wall;
            part->of[n].end = from.wall + wall;
            part->of[n].held = held;
            part->of[n].ready = ready;
        }
    }
}

static uint64_t mixed(uint64_t sum, uint64_t value) {
    return (sum ^ value) * 0x100000001b3u;
}

static void *work(void *argument) {
    struct part *part = argument;
    uint64_t chance = (uint64_t)(part - parts) + 1, sum = 0xcbf29ce484222325u;
    pointer_t kept[KEPT] = {0};
    int schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    start();
    atomic_fetch_add(&figures->started, 1);
    for (uint64_t round = 0; round < figures->rounds || !atomic_load(&stopped); round++) {
        chance = chance * 6364136223846793005u + 1442695040888963407u;
        uint64_t slot = chance >> 20 & (KEPT - 1), bytes = 512 * (1 + (chance >> 33) % 64);
        int released = 0;
        if (kept[slot] != 0) {
            struct moment from = moment(schedstat);
            released = release(kept[slot]);
            took(part, schedstat, from);
            part->frees++;
        }
        struct moment from = moment(schedstat);
        int made = alloc(&kept[slot], bytes);
        took(part, schedstat, from);
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
        DIE("usage: steady THREADS SECONDS STATUS FILE");
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
    figures->rounds = (uint64_t)(strtod(argv[2], NULL) * 1e6 / PACE_US);
    pthread_t *started = calloc(threads, sizeof *started);
    alloc = need(driver(), "cuMemAlloc_v2");
    release = need(driver(), "cuMemFree_v2");
    /* What the first calls take, among it a recorder's opening; less the time without a processor. */
    int schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    struct moment from = moment(schedstat);
    start();
    pointer_t first;
    CHECK(alloc(&first, 512));
    CHECK(release(first));
    struct moment to = moment(schedstat);
    uint64_t wall = to.wall - from.wall, ready = to.ready - from.ready;
    figures->opening = wall - (ready < wall ? ready : wall);
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
    figures->end = now(CLOCK_MONOTONIC);
    return atoi(argv[3]);
}
