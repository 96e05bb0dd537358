/* composed SEED STEPS ENDING PLUGIN: a random program of the zoo's traits. The seed decides the steps: threads with
 * small stacks, fibers, cancelled threads, forked and spawned children, a library that is loaded and unloaded, signals
 * and jumps out of their handlers, and memory of every kind. After each step the recorder's counters, where there is
 * one, are the simulator's books. -DTHREAD_LOCAL=bytes: thread-local data of the program. */
#include "../hook_client.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>

#ifndef THREAD_LOCAL
#define THREAD_LOCAL 64
#endif
static __thread volatile char own[THREAD_LOCAL];

enum { KIB = 1 << 10, MIB = 1 << 20, KEPT = 12 };
typedef int (*async_t)(pointer_t *, size_t, void *);
typedef int (*free_async_t)(pointer_t, void *);

static alloc_t alloc;
static free_t release;
static async_t alloc_async;
static free_async_t release_async;
static int (*alloc_host)(void **, size_t, unsigned);
static int (*release_host)(void *);
static int (*alloc_managed)(pointer_t *, size_t, unsigned);
static void *context;
static const char *plugin;
static pointer_t kept[KEPT];
static uint64_t state;

static unsigned below(unsigned end) { /* SplitMix64 */
    uint64_t word = state += 0x9e3779b97f4a7c15;
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9;
    word = (word ^ word >> 27) * 0x94d049bb133111eb;
    return (unsigned)((word ^ word >> 31) >> 33) % end;
}

static size_t some_bytes(void) { return 1 + below(below(3) == 0 ? 6 * MIB : 64 * KIB); }

/* One allocation more, instead of an older one. */
static void plain(void) {
    unsigned place = below(KEPT);
    own[below(THREAD_LOCAL)]++;
    if (kept[place] != 0)
        CHECK(release(kept[place]));
    kept[place] = 0;
    if (below(5) != 0)
        CHECK(below(6) == 0 ? alloc_managed(&kept[place], some_bytes(), 1) : alloc(&kept[place], some_bytes()));
}

static void ordered(void) {
    pointer_t one, two;
    CHECK(alloc_async(&one, some_bytes(), NULL));
    CHECK(alloc_async(&two, some_bytes(), NULL));
    CHECK(release_async(one, NULL));
    CHECK(below(2) ? release(two) : release_async(two, NULL));
}

static void pinned(void) {
    void *pointer;
    CHECK(alloc_host(&pointer, some_bytes(), 0));
    CHECK(release_host(pointer));
}

static void too_much(void) {
    pointer_t unused;
    if (alloc(&unused, (size_t)1 << 50) != 2)
        DIE("there is room for a petabyte");
}

static void *in_thread(void *steps) {
    CHECK(((int (*)(void *))need(driver(), "cuCtxSetCurrent"))(context));
    for (int i = 0; i < *(int *)steps; i++)
        below(3) ? plain() : ordered();
    return steps;
}

/* Threads one after another, because the order of their calls would change the peak. */
static void threads(void) {
    static const size_t stacks[] = {48 * KIB, 64 * KIB, 256 * KIB, 8 * MIB};
    pthread_attr_t attributes;
    int count = 1 + below(4);
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        int steps = below(8);
        pthread_attr_init(&attributes);
        /* The C library takes thread-local data from the stack. */
        CHECK(pthread_attr_setstacksize(&attributes, stacks[below(4)] + THREAD_LOCAL / 4096 * 4096));
        CHECK(pthread_create(&thread, &attributes, in_thread, &steps));
        CHECK(pthread_join(thread, NULL));
        pthread_attr_destroy(&attributes);
    }
}

static ucontext_t caller, fiber;
static void in_fiber(void) {
    plain();
    swapcontext(&fiber, &caller);
    ordered();
}

static void fibers(void) {
    size_t bytes = below(2) ? 64 * KIB : 256 * KIB;
    char *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED)
        DIE("no stack");
    getcontext(&fiber);
    fiber.uc_stack.ss_sp = stack;
    fiber.uc_stack.ss_size = bytes;
    fiber.uc_link = &caller;
    makecontext(&fiber, in_fiber, 0);
    swapcontext(&caller, &fiber);
    plain();
    if (below(3) != 0)
        swapcontext(&caller, &fiber);
    munmap(stack, bytes);
}

/* A cancellation that is pending while the driver is called acts at the next cancellation point of the program. */
static void *in_cancelled(void *unused) {
    pthread_cancel(pthread_self());
    CHECK(((int (*)(void *))need(driver(), "cuCtxSetCurrent"))(context));
    plain();
    plain();
    pthread_testcancel();
    return unused;
}

static void cancelled(void) {
    pthread_t thread;
    void *result;
    CHECK(pthread_create(&thread, NULL, in_cancelled, NULL));
    CHECK(pthread_join(thread, &result));
    if (result != PTHREAD_CANCELED)
        DIE("a thread was not cancelled");
}

static void child(void) {
    int status, how = below(4);
    pid_t pid;
    fflush(stdout);
    if (how == 3) {
        char *words[] = {"true", NULL}, *none[] = {NULL};
        CHECK(posix_spawn(&pid, "/bin/true", NULL, NULL, words, none));
    } else if ((pid = fork()) == 0) {
        pointer_t unused;
        if (how == 0)
            _exit(3);
        if (alloc(&unused, 4096) == 0)
            _exit(5); /* CUDA does not work in a forked child */
        if (how == 1)
            raise(SIGKILL);
        exit(4);
    }
    if (waitpid(pid, &status, 0) != pid)
        DIE("no child");
    printf("a child ended with %x\n", status);
}

static void reload(void) {
    for (int i = below(3); i >= 0; i--) {
        void *library = dlopen(plugin, RTLD_NOW | (below(2) ? RTLD_LOCAL : RTLD_GLOBAL));
        if (library == NULL)
            DIE("%s", dlerror());
        int (*use)(alloc_t, free_t) = need(library, "plugin_use");
        CHECK(use(alloc, release));
        dlclose(library);
    }
}

static sigjmp_buf back;
static volatile sig_atomic_t handled;
static void count(int unused) { handled += unused != 0; }
static void jump(int unused) { siglongjmp(back, unused); }

static void signals(void) {
    struct sigaction action = {.sa_handler = count, .sa_flags = below(2) ? SA_RESTART : SA_ONSTACK}, before;
    int before_handled = handled;
    sigaction(SIGUSR1, &action, NULL);
    plain();
    raise(SIGUSR1);
    plain();
    pthread_kill(pthread_self(), SIGUSR1);
    if (handled != before_handled + 2)
        DIE("a signal was lost");
    action.sa_handler = jump;
    sigaction(SIGSEGV, &action, &before);
    if (sigsetjmp(back, 1) == 0) {
        plain();
        *(volatile int *)8 = 1;
        DIE("a fault was lost");
    }
    sigaction(SIGSEGV, &before, NULL);
    plain();
}

static void *last_thread(void *how) {
    if (strcmp(how, "main ends") == 0)
        pthread_detach(pthread_self());
    else
        exit(31);
    return NULL;
}

static void end(const char *how) {
    pthread_t thread;
    if (strcmp(how, "exit") == 0)
        exit(32);
    if (strcmp(how, "_exit") == 0)
        _exit(33);
    if (strcmp(how, "quick_exit") == 0)
        quick_exit(34);
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(how, "main ends") == 0 || strcmp(how, "thread") == 0) {
        CHECK(pthread_create(&thread, NULL, last_thread, (void *)how));
        pthread_exit(NULL);
    }
}

int main(int argc, char **argv) {
    static const struct { const char *name; void (*run)(void); } steps[] = {
        {"plain", plain}, {"ordered", ordered}, {"pinned", pinned}, {"too much", too_much}, {"threads", threads},
        {"fibers", fibers}, {"cancelled", cancelled}, {"child", child}, {"reload", reload}, {"signals", signals},
    };
    if (argc != 5)
        DIE("usage: composed SEED STEPS ENDING PLUGIN");
    state = strtoull(argv[1], NULL, 10);
    plugin = argv[4];
    *(void **)&alloc = need(driver(), "cuMemAlloc_v2");
    *(void **)&release = need(driver(), "cuMemFree_v2");
    *(void **)&alloc_async = need(driver(), "cuMemAllocAsync");
    *(void **)&release_async = need(driver(), "cuMemFreeAsync");
    *(void **)&alloc_host = need(driver(), "cuMemHostAlloc");
    *(void **)&release_host = need(driver(), "cuMemFreeHost");
    *(void **)&alloc_managed = need(driver(), "cuMemAllocManaged");
    context = start();
    for (int left = atoi(argv[2]); left > 0; left--) {
        unsigned step = below(sizeof steps / sizeof *steps);
        printf("%s\n", steps[step].name);
        steps[step].run();
        AGREE(steps[step].name);
    }
    plain();
    tell_books("end");
    end(argv[3]);
    return 30;
}
