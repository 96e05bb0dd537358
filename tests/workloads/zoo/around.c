/* What each hook of NAMES leaves behind on the calling thread, from the first call of a process on: the bytes of its stack
 * that were written, errno, dlerror, the signal mask, the state of the floating-point units, and how it may be cancelled.
 *
 * The first argument is where the calls run: "thread", whose stack has 1 MiB, or "fiber", on a stack that is not the
 * thread's. The others are the libraries of around_driver.c. Each function runs in a separate child, and is one line. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include <xmmintrin.h>

enum { STACK = 1 << 20, PAINTED = 192 << 10, UNSEEN = 1024, RED_ZONE = 256 };
#define PAINT 0xa5a5a5a5a5a5a5a5
typedef int call_t(long, long, long, long, long, long, long, long, long, long, long, long, long, long, long, long);

#define NAME(name) #name,
static const char *names[] = {NAMES(NAME)};
static int *results[8];
static unsigned char *stack;
static long most;

struct state {
    int error, cancel_state, cancel_type;
    unsigned mxcsr;
    unsigned short x87[14];
    uint64_t mask;
    char told[200];
};

static void look(struct state *at) {
    at->error = errno;
    at->mxcsr = _mm_getcsr();
    __asm__ volatile("fnstenv %0\n\tfldenv %0" : "+m"(at->x87));
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &at->mask, sizeof at->mask);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &at->cancel_state);
    pthread_setcancelstate(at->cancel_state, NULL);
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &at->cancel_type);
    pthread_setcanceltype(at->cancel_type, NULL);
}

static void compare(const char *name, const struct state *was, const struct state *is) {
#define SAME(what, condition)                                                                                          \
    if (!(condition))                                                                                                  \
        printf("%s changes %s\n", name, what)
    SAME("errno", was->error == is->error);
    SAME("the cancellation", was->cancel_state == is->cancel_state && was->cancel_type == is->cancel_type);
    SAME("MXCSR", was->mxcsr == is->mxcsr);
    /* Control, status and tag word. */
    SAME("the x87 state", was->x87[0] == is->x87[0] && was->x87[2] == is->x87[2] && was->x87[4] == is->x87[4]);
    SAME("the signal mask", was->mask == is->mask);
    SAME("dlerror", strcmp(was->told, is->told) == 0);
}

/* One call, with unusual states before it, and the lowest byte that it writes. */
__attribute__((noinline)) static void once(const char *name, call_t *call, int result, int odd) {
    struct state was = {0}, is = {0};
    for (int i = 0; results[i]; i++)
        *results[i] = result;
    unsigned char *here = (unsigned char *)__builtin_frame_address(0) - sizeof was - sizeof is - RED_ZONE;
    pthread_setcancelstate(odd ? PTHREAD_CANCEL_DISABLE : PTHREAD_CANCEL_ENABLE, NULL);
    _mm_setcsr(odd ? 0xff80 : 0x3f80); /* denormals are zeros, rounding; no exception so far */
    unsigned short control = odd ? 0x0c7f : 0x077f;
    __asm__ volatile("fninit\n\tfldcw %0" : : "m"(control));
    sigset_t some;
    sigemptyset(&some);
    sigaddset(&some, odd ? SIGUSR1 : SIGPROF);
    pthread_sigmask(SIG_SETMASK, &some, NULL);
    dlerror();
    if (odd)
        dlsym(RTLD_DEFAULT, "a name that no library has");
    /* By a loop, because a call would write there, too. */
    volatile uint64_t *end = (uint64_t *)((uintptr_t)(here - UNSEEN) & ~7UL), *lowest = end - PAINTED / 8;
    for (volatile uint64_t *at = lowest; at < end; at++)
        *at = PAINT;
    errno = 77;
    look(&was);
    errno = 77;
    const long a = AREA;
    call(a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a);
    look(&is);
    while (lowest < end && *lowest == PAINT)
        lowest++;
    if (here - (unsigned char *)lowest > most)
        most = here - (unsigned char *)lowest;
    if (odd) {
        const char *told = dlerror();
        snprintf(is.told, sizeof is.told, "%s", told ? told : "");
        dlsym(RTLD_DEFAULT, "a name that no library has");
        snprintf(was.told, sizeof was.told, "%s", dlerror());
    } else {
        snprintf(is.told, sizeof is.told, "%s", dlerror() ? "an error" : "");
    }
    compare(name, &was, &is);
}

static const char *running;

static void *all(void *none) {
    static const char *const before[] = {"cuMemAlloc_v2", "cuMemCreate", "cuMemPoolCreate"};
    static const int returned[] = {0, 2, 1, 0};
    call_t *call = (call_t *)dlsym(RTLD_DEFAULT, running);
    if (!call)
        return printf("%s is missing\n", running), none;
    for (unsigned i = 0; i < sizeof returned / sizeof *returned; i++)
        once(running, call, returned[i], i & 1);
    for (unsigned i = 0; i < sizeof before / sizeof *before; i++)
        once(before[i], (call_t *)dlsym(RTLD_DEFAULT, before[i]), 0, 0);
    once(running, call, 0, 0);
    return none;
}

static ucontext_t back, fiber;

static void on_fiber(void) {
    all(NULL);
    swapcontext(&fiber, &back);
}

static void run(int is_fiber) {
    stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (is_fiber) {
        getcontext(&fiber);
        fiber.uc_stack.ss_sp = stack;
        fiber.uc_stack.ss_size = STACK;
        fiber.uc_link = &back;
        makecontext(&fiber, on_fiber, 0);
        swapcontext(&back, &fiber);
    } else {
        pthread_attr_t attributes;
        pthread_t thread;
        pthread_attr_init(&attributes);
        pthread_attr_setstack(&attributes, stack, STACK);
        pthread_create(&thread, &attributes, all, NULL);
        pthread_join(thread, NULL);
    }
    printf("%s %ld\n", running, most);
    fflush(stdout);
}

int main(int count, char **arguments) {
    for (int i = 2; i < count; i++) {
        void *library = dlopen(arguments[i], RTLD_NOW | RTLD_GLOBAL);
        if (!library)
            return printf("%s\n", dlerror()), 1;
        results[i - 2] = dlsym(library, "stub_result");
    }
    /* An address that is also a plausible number of bytes or elements. */
    void *area = mmap((void *)AREA, 32 << 20, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (area != (void *)AREA)
        return puts("no area"), 1;
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        running = names[i];
        pid_t child = fork();
        if (child == 0) {
            run(strcmp(arguments[1], "fiber") == 0);
            _exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        if (status)
            printf("%s ends with %d\n", running, status);
        fflush(stdout);
    }
    return 0;
}
