/* fault_host STEP…: a program that uses CUDA and handles SIGBUS itself. Its output must be the same with and without
 * the recorder. The steps are the functions in the table at the end. */
#include "hook_client.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;
/* Not in every header: the other names of the same functions. */
extern int __sigaction(int, const struct sigaction *, struct sigaction *);
typedef void (*handler_t)(int);
extern handler_t bsd_signal(int, handler_t);
extern handler_t __sysv_signal(int, handler_t);

#define DEADLINE 20 /* seconds until the wait for a required state fails */

/* What a handler has seen, printed later. */
static struct {
    int calls, signal, code, is_in_mapping, is_ours, blocks_bus, blocks_usr1, on_stack;
    long distance;
    const char *who;
} seen;
static volatile char *mapping;
static sigjmp_buf again;
static volatile int jumps;
static struct sigaction before; /* of the chaining handler */

static void note(const char *who, int signal, siginfo_t *info, void *context, void *frame) {
    sigset_t mask;
    stack_t stack;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    sigaltstack(NULL, &stack);
    seen.calls++;
    seen.who = who;
    seen.signal = signal;
    seen.code = info->si_code;
    seen.is_in_mapping = mapping != NULL && (volatile char *)info->si_addr == mapping;
    seen.is_ours = info->si_code <= 0 && info->si_pid == getpid();
    seen.blocks_bus = sigismember(&mask, SIGBUS);
    seen.blocks_usr1 = sigismember(&mask, SIGUSR1);
    seen.on_stack = (stack.ss_flags & SS_ONSTACK) != 0;
    seen.distance = (char *)context - (char *)frame; /* the kernel's frame is right above the handler's */
}

static void leave(void) {
    if (jumps) {
        jumps = 0;
        siglongjmp(again, 1);
    }
}

#define FRAME __builtin_frame_address(0)
static void full(int signal, siginfo_t *info, void *context) {
    note("full", signal, info, context, FRAME);
    leave();
}
static void plain(int signal) {
    seen.calls++;
    seen.who = "plain";
    seen.signal = signal;
    leave();
}
static void chaining(int signal, siginfo_t *info, void *context) {
    note("chaining", signal, info, context, FRAME);
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(signal, info, context);
    } else if (before.sa_handler == SIG_DFL) {
        sigaction(signal, &before, NULL); /* the instruction faults again */
    } else if (before.sa_handler != SIG_IGN) {
        before.sa_handler(signal);
    }
}

static const char *name_of(void *handler) {
    if (handler == (void *)SIG_DFL) return "default";
    if (handler == (void *)SIG_IGN) return "ignored";
    if (handler == (void *)SIG_ERR) return "error";
    if (handler == (void *)2) return "held";
    if (handler == (void *)full) return "full";
    if (handler == (void *)plain) return "plain";
    if (handler == (void *)chaining) return "chaining";
    return "somebody else's";
}

static void told(const char *what) {
    printf("%s: %d calls", what, seen.calls);
    if (seen.calls)
        printf(", the last of %s: signal %d code %d in-mapping %d ours %d blocks %d %d on-stack %d distance %ld",
               seen.who, seen.signal, seen.code, seen.is_in_mapping, seen.is_ours, seen.blocks_bus,
               seen.blocks_usr1, seen.on_stack, seen.distance);
    printf("\n");
    memset(&seen, 0, sizeof seen);
}

/* CUDA */

static void cuda(void) {
    alloc_t alloc = need(driver(), "cuMemAlloc_v2");
    free_t release = need(driver(), "cuMemFree_v2");
    static int started;
    if (!started++)
        start();
    for (int n = 0; n < 200; n++) {
        pointer_t pointer;
        CHECK(alloc(&pointer, 1000 + n));
        errno = 77;
        CHECK(release(pointer));
        if (errno != 77)
            DIE("errno became %d", errno);
    }
    printf("cuda\n");
}

static int (*recording)(void);
static int is_recording(void) {
    static int looked;
    if (!looked++)
        *(void **)&recording = dlsym(RTLD_DEFAULT, "gpumem_recording");
    return recording != NULL && recording();
}

/* The recorder's ring loses all but its first page. */
static void lose(void) {
    char line[600], *path;
    FILE *maps = is_recording() ? fopen("/proc/self/maps", "r") : NULL;
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        if ((path = strstr(line, "/dev/shm/gpumem-ring-")) == NULL)
            continue;
        path[strcspn(path, "\n")] = 0;
        CHECK(truncate(path, 4096));
        break;
    }
    if (maps != NULL)
        fclose(maps);
    printf("lost\n");
}

static void until(int (*reached)(void), const char *what) {
    time_t end = time(NULL) + DEADLINE;
    while (!reached()) {
        if (time(NULL) > end)
            DIE("%s did not come", what);
        sched_yield();
    }
}

/* The thread that reports the end of recording ends after it. */
static int has_ended(void) {
    DIR *threads = opendir("/proc/self/task");
    struct dirent *thread;
    int ended = !is_recording();
    while (ended && (thread = readdir(threads)) != NULL) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", thread->d_name);
        FILE *file = fopen(path, "r");
        if (file != NULL) {
            ended = fgets(name, sizeof name, file) == NULL || strcmp(name, "gpumem-drain\n") != 0;
            fclose(file);
        }
    }
    closedir(threads);
    return ended;
}
/* Until the recorder notices the loss, only its own threads touch its memory. */
static void ended(void) {
    until(has_ended, "the end of recording");
    printf("not recorded\n");
}

/* The loss while threads are active, each in a different part of the recorder's memory. */
#define WORKERS 6
static volatile long calls[WORKERS], work_is_over;
static void *work(void *number) {
    alloc_t alloc = need(driver(), "cuMemAlloc_v2");
    free_t release = need(driver(), "cuMemFree_v2");
    start();
    for (volatile long *count = &calls[(long)number]; !work_is_over; ++*count) {
        pointer_t pointer;
        CHECK(alloc(&pointer, 512));
        CHECK(release(pointer));
    }
    return NULL;
}
static long goal;
static int all_reach_goal(void) {
    for (int n = 0; n < WORKERS; n++)
        if (calls[n] < goal)
            return 0;
    return 1;
}
static void lose_at_work(void) {
    pthread_t threads[WORKERS];
    for (long n = 0; n < WORKERS; n++)
        CHECK(pthread_create(&threads[n], NULL, work, (void *)n));
    goal = 200;
    until(all_reach_goal, "work");
    lose();
    goal = 10000;
    until(all_reach_goal, "work after the loss");
    work_is_over = 1;
    for (int n = 0; n < WORKERS; n++)
        CHECK(pthread_join(threads[n], NULL));
}

/* Installing */

static void install(void (*function)(int, siginfo_t *, void *), int flags) {
    struct sigaction action = {.sa_sigaction = function, .sa_flags = SA_SIGINFO | flags}, old;
    sigaddset(&action.sa_mask, SIGUSR1);
    CHECK(sigaction(SIGBUS, &action, &old));
    printf("before: %s, flags %#x\n", name_of((void *)old.sa_sigaction), old.sa_flags);
    if (function == chaining)
        before = old;
}
static void with_sigaction(void) { install(full, 0); }
static void with_nodefer(void) { install(full, SA_NODEFER | SA_RESTART); }
static void with_resethand(void) { install(full, SA_RESETHAND); }
static void with_chaining(void) { install(chaining, 0); }
static void with_onstack(void) {
    static char room[1 << 16];
    stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
    CHECK(sigaltstack(&stack, NULL));
    install(full, SA_ONSTACK);
}
static void with_stack_unused(void) {
    with_onstack();
    install(full, 0);
}
static void with_internal_name(void) {
    struct sigaction action = {.sa_handler = plain}, old;
    CHECK(__sigaction(SIGBUS, &action, &old));
    printf("before: %s\n", name_of((void *)old.sa_handler));
}
#define FORM(function, handler) printf("before: %s\n", name_of((void *)function(SIGBUS, handler)))
static void with_signal(void) { FORM(signal, plain); }
static void with_default(void) { FORM(signal, SIG_DFL); }
static void with_ignored(void) { FORM(signal, SIG_IGN); }
static void with_error(void) { FORM(signal, SIG_ERR); }
static void with_ssignal(void) { FORM(ssignal, plain); }
static void with_bsd_signal(void) { FORM(bsd_signal, plain); }
static void with_sysv_signal(void) { FORM(__sysv_signal, plain); }
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void with_sigset(void) { FORM(sigset, plain); }
static void with_sighold(void) { FORM(sigset, SIG_HOLD); }
static void with_sigignore(void) { CHECK(sigignore(SIGBUS)); }
static void interrupts(void) { CHECK(siginterrupt(SIGBUS, 1)); }
static void restarts(void) { CHECK(siginterrupt(SIGBUS, 0)); }

/* Another signal is not the recorder's business; and its first call must not take away what dlerror has to say. */
static void another_signal(void) {
    struct sigaction action = {.sa_handler = plain, .sa_flags = SA_RESETHAND}, old;
    if (dlopen("libthat-is-not-there.so", RTLD_NOW) != NULL)
        DIE("it is there");
    CHECK(sigaction(SIGUSR1, &action, &old));
    printf("before: %s; dlerror: %s\n", name_of((void *)old.sa_handler), dlerror());
    CHECK(raise(SIGUSR1));
    CHECK(sigaction(SIGUSR1, NULL, &old));
    printf("after: %s\n", name_of((void *)old.sa_handler));
    told("another");
}

static void other_library(void) {
    int (*calls)(void);
    *(void **)&calls = need(RTLD_DEFAULT, "calls_of_the_other");
    printf("the other had %d calls\n", calls());
}

/* The kernel's own state, by a system call, which cannot be hooked. */
struct in_kernel { void *handler; unsigned long flags; void *restorer; uint64_t mask; };
static struct in_kernel raw_before, raw;

static int raw_sigaction(const struct in_kernel *new, struct in_kernel *old) {
    return syscall(SYS_rt_sigaction, SIGBUS, new, old, 8);
}
static int is_taken_over(void) {
    struct in_kernel now;
    CHECK(raw_sigaction(NULL, &now));
    return now.handler != raw.handler;
}
static void take_over(void *handler) {
    struct in_kernel usr2; /* a signal of no matter, for the place that glibc has handlers return to */
    signal(SIGUSR2, plain);
    CHECK(syscall(SYS_rt_sigaction, SIGUSR2, NULL, &usr2, 8));
    signal(SIGUSR2, SIG_DFL);
    CHECK(raw_sigaction(NULL, &raw_before));
    raw = (struct in_kernel){handler, SA_SIGINFO | 0x04000000, usr2.restorer, 0};
    CHECK(raw_sigaction(&raw, NULL));
}
static void with_raw(void) {
    take_over((void *)full);
    printf("by system call\n");
}
/* Hands on what is not its own to what it has read from the kernel. */
static void raw_chaining(int signal, siginfo_t *info, void *context) {
    note("raw chaining", signal, info, context, FRAME);
    if (raw_before.handler == (void *)SIG_DFL) {
        raw_sigaction(&raw_before, NULL);
        kill(getpid(), signal);
    } else {
        ((void (*)(int, siginfo_t *, void *))raw_before.handler)(signal, info, context);
    }
}
static void with_raw_chaining(void) {
    take_over((void *)raw_chaining);
    printf("by system call\n");
}
static void taken_over(void) {
    if (is_recording())
        until(is_taken_over, "the recorder's handler");
    printf("taken over\n");
}

/* Faults and signals */

static void map(void) {
    FILE *file = tmpfile();
    CHECK(ftruncate(fileno(file), 8192));
    mapping = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    mapping[0] = 1;
    CHECK(ftruncate(fileno(file), 0));
}
static void fault(void) {
    if (mapping == NULL)
        map();
    fflush(stdout);
    jumps = 1;
    if (sigsetjmp(again, 1) == 0)
        mapping[0] = 2;
    told("fault");
}
static void fatal(void) {
    if (mapping == NULL)
        map();
    fflush(stdout);
    mapping[0] = 2;
    printf("it ran\n");
}
static void sent(void) {
    fflush(stdout);
    CHECK(kill(getpid(), SIGBUS));
    told("sent");
}
static void *fault_here(void *unused) {
    fault();
    return unused;
}
static void in_thread(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, fault_here, NULL));
    CHECK(pthread_join(thread, NULL));
}
static void *fatal_here(void *unused) {
    fatal();
    return unused;
}
static void fatal_in_thread(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, fatal_here, NULL));
    CHECK(pthread_join(thread, NULL));
}

/* Handlers that are constantly replaced while threads fault: each fault is handled. */
#define STORM 4000
static volatile int storm_is_over;
static int storms[2];
static void storm(int which, void *address) {
    void *page = (void *)((uintptr_t)address & ~4095UL);
    int error = errno;
    if (mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != page)
        abort();
    errno = error;
    __atomic_add_fetch(&storms[which], 1, __ATOMIC_RELAXED);
}
static void storm_full(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    storm(0, info->si_addr);
}
static void storm_nodefer(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    storm(1, info->si_addr);
}
static void *exchange(void *unused) {
    struct sigaction actions[2] = {
        {.sa_sigaction = storm_full, .sa_flags = SA_SIGINFO},
        {.sa_sigaction = storm_nodefer, .sa_flags = SA_SIGINFO | SA_NODEFER},
    };
    for (int n = 0; !storm_is_over; n ^= 1) {
        struct sigaction old;
        CHECK(sigaction(SIGBUS, &actions[n], &old));
        int of = old.sa_sigaction == storm_nodefer;
        if (!(old.sa_flags & SA_SIGINFO) || old.sa_sigaction != actions[of].sa_sigaction ||
            (old.sa_flags & SA_NODEFER) != (actions[of].sa_flags & SA_NODEFER))
            DIE("an answer of two halves");
    }
    return unused;
}
static void *fault_often(void *unused) {
    FILE *file = tmpfile();
    CHECK(ftruncate(fileno(file), 0));
    for (int n = 0; n < STORM; n++) {
        char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
        *(volatile char *)page = 1;
        CHECK(munmap(page, 4096));
    }
    return unused;
}
static void in_storm(void) {
    pthread_t threads[4];
    struct sigaction action = {.sa_sigaction = storm_full, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGBUS, &action, NULL));
    for (int n = 0; n < 4; n++)
        CHECK(pthread_create(&threads[n], NULL, n < 2 ? exchange : fault_often, NULL));
    for (int n = 3; n >= 0; n--) {
        storm_is_over = n < 2;
        CHECK(pthread_join(threads[n], NULL));
    }
    printf("storm: %d faults\n", storms[0] + storms[1]);
}

/* All threads of the program's block it, and one waits for it: ours must not take it. */
static void waited_for(void) {
    sigset_t set, old;
    siginfo_t info;
    struct timespec patience = {DEADLINE, 0};
    sigemptyset(&set);
    sigaddset(&set, SIGBUS);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, &old));
    CHECK(kill(getpid(), SIGBUS));
    int got = sigtimedwait(&set, &info, &patience);
    printf("waited for: %d from %s\n", got, info.si_pid == getpid() ? "here" : "elsewhere");
    CHECK(pthread_sigmask(SIG_SETMASK, &old, NULL));
}

/* The signal state that the host sees */

static void show(void) {
    struct sigaction now;
    memset(&now, 0, sizeof now);
    CHECK(sigaction(SIGBUS, NULL, &now));
    printf("disposition: %s, flags %#x, mask", name_of((void *)now.sa_sigaction), now.sa_flags);
    for (int signal = 1; signal < 65; signal++)
        if (sigismember(&now.sa_mask, signal) == 1)
            printf(" %d", signal);
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    printf(", restorer %s, blocked %d\n", now.sa_restorer ? "set" : "none", sigismember(&mask, SIGBUS));
}

static void reap(const char *what, pid_t child) {
    int status;
    if (waitpid(child, &status, 0) != child)
        DIE("no child");
    printf("%s: %#x\n", what, status & 0xff7f); /* whether a core was written is the machine's business */
}
static void forked(void) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        show();
        fault();
        sent();
        with_default();
        show();
        fflush(stdout);
        fatal();
        _exit(3);
    }
    reap("forked", child);
}
static void vforked(void) {
    fflush(stdout);
    volatile int is_same = 0;
    struct sigaction was, now, reset = {.sa_handler = SIG_DFL};
    CHECK(sigaction(SIGBUS, NULL, &was));
    pid_t child = vfork();
    if (child == 0) { /* shares all memory */
        struct sigaction old;
        sigaction(SIGBUS, &reset, &old);
        is_same = old.sa_handler == was.sa_handler && old.sa_flags == was.sa_flags;
        sigaction(SIGBUS, NULL, &old);
        is_same += old.sa_handler == SIG_DFL;
        kill(getpid(), SIGBUS);
        _exit(3);
    }
    reap("vforked", child);
    CHECK(sigaction(SIGBUS, NULL, &now));
    printf("the child saw %d of 2; here it is %s\n", is_same,
           now.sa_handler == was.sa_handler && now.sa_flags == was.sa_flags ? "the same" : "another");
}
static void spawned(void) {
    char *command[] = {"sh", "-c", "grep SigIgn /proc/self/status; kill -BUS $$", NULL};
    posix_spawnattr_t attributes;
    sigset_t set;
    pid_t child;
    fflush(stdout);
    sigemptyset(&set);
    sigaddset(&set, SIGBUS);
    CHECK(posix_spawnattr_init(&attributes));
    CHECK(posix_spawnattr_setsigdefault(&attributes, &set));
    CHECK(posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF));
    CHECK(posix_spawn(&child, "/bin/sh", NULL, &attributes, command, environ));
    reap("spawned", child);
}

static const struct { const char *name; void (*run)(void); } steps[] = {
    {"cuda", cuda}, {"lose", lose}, {"ended", ended}, {"lose-at-work", lose_at_work},
    {"fatal-in-thread", fatal_in_thread}, {"storm", in_storm},
    {"another-signal", another_signal}, {"other-library", other_library}, {"show", show}, {"fault", fault}, {"fatal", fatal},
    {"sent", sent}, {"in-thread", in_thread}, {"waited-for", waited_for}, {"fork", forked}, {"vfork", vforked},
    {"spawn", spawned}, {"sigaction", with_sigaction}, {"nodefer", with_nodefer}, {"resethand", with_resethand},
    {"chaining", with_chaining}, {"onstack", with_onstack}, {"stack-unused", with_stack_unused},
    {"__sigaction", with_internal_name}, {"signal", with_signal}, {"default", with_default},
    {"ignored", with_ignored}, {"error", with_error}, {"ssignal", with_ssignal}, {"bsd_signal", with_bsd_signal},
    {"sysv_signal", with_sysv_signal}, {"sigset", with_sigset}, {"sighold", with_sighold},
    {"sigignore", with_sigignore}, {"interrupts", interrupts}, {"restarts", restarts}, {"raw", with_raw},
    {"raw-chaining", with_raw_chaining}, {"taken-over", taken_over},
};

int main(int argc, char **argv) {
    for (int n = 1; n < argc; n++) {
        unsigned long step = 0, count = sizeof steps / sizeof *steps;
        while (step < count && strcmp(steps[step].name, argv[n]) != 0)
            step++;
        if (step == count)
            DIE("no step %s", argv[n]);
        steps[step].run();
        fflush(stdout);
    }
    printf("end\n");
    return 5;
}
