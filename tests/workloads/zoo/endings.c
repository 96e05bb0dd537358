/* endings HOW: a process with live memory that ends, or nearly ends, by a fault, a signal or on an
 * unusual stack. Its last output is the simulator's books at that moment. */
#include "../hook_client.h"
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>

static alloc_t alloc;
static free_t release;
static sigjmp_buf back;
static atomic_int under_way;

static pointer_t use(size_t bytes) {
    pointer_t pointer = 0;
    CHECK(alloc(&pointer, bytes));
    return pointer;
}

static void fault(void) {
    int *volatile nowhere = NULL;
    *(volatile int *)nowhere = 1;
}

static void at_once(int signal) { /* a crash reporter that uses the card once more, and leaves */
    (void)signal;
    CHECK(release(use(4000)));
    use(5000);
    tell_books("reporter");
    _exit(13);
}

static void and_back(int signal) { /* leaves its stack by a jump, while no call of CUDA runs */
    (void)signal;
    CHECK(release(use(6000)));
    use(7000);
    siglongjmp(back, 1);
}

static void on_its_own_stack(int number, void (*handler)(int)) {
    stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    if (sigaltstack(&stack, NULL) != 0 || sigaction(number, &action, NULL) != 0)
        DIE("no stack for the handler");
}

static void *churn(void *unused) {
    start();
    for (int round = 0;; round++) {
        CHECK(release(use(512 + 512 * (size_t)(round % 7))));
        if (round == 50)
            atomic_fetch_add(&under_way, 1);
    }
    return unused;
}

static void *aborts(void *unused) {
    (void)unused;
    abort();
}

static void *little(void *unused) {
    start();
    for (int i = 0; i < 200; i++)
        CHECK(release(use(1000)));
    use(2000);
    return unused;
}

static int deeper(int level) {
    volatile char room[4096];
    room[0] = (char)level;
    if (level % 100 == 0)
        CHECK(release(use(3000)));
    return deeper(level + 1) + room[0];
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    pthread_t thread;
    alloc = need(driver(), "cuMemAlloc_v2");
    release = need(driver(), "cuMemFree_v2");
    start();
    use(1000000);
    CHECK(release(use(500000)));
    if (strstr(how, "while others allocate") != NULL) {
        for (int i = 0; i < 4; i++)
            pthread_create(&thread, NULL, churn, NULL);
        while (atomic_load(&under_way) < 4)
            usleep(1000);
    } else {
        AGREE("what is live");
        tell_books(how);
    }
    if (strncmp(how, "segv", 4) == 0) {
        fault();
    } else if (strncmp(how, "abort", 5) == 0) {
        pthread_create(&thread, NULL, aborts, NULL);
        pthread_join(thread, NULL);
    } else if (strncmp(how, "kill", 4) == 0) {
        raise(SIGKILL);
    } else if (strcmp(how, "reporter") == 0) {
        on_its_own_stack(SIGSEGV, at_once);
        fault();
    } else if (strcmp(how, "jumps back") == 0) {
        on_its_own_stack(SIGUSR1, and_back);
        for (volatile int i = 0; i < 20; i++)
            if (sigsetjmp(back, 1) == 0)
                raise(SIGUSR1);
        AGREE("the jumps");
        tell_books(how);
    } else if (strcmp(how, "little stack") == 0) {
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        if (pthread_attr_setstacksize(&attributes, 48 << 10) != 0)
            DIE("no such stack");
        if (pthread_create(&thread, &attributes, little, NULL) != 0)
            DIE("no thread");
        pthread_join(thread, NULL);
        AGREE("the thread");
        tell_books(how);
    } else if (strcmp(how, "overflow") == 0) {
        return deeper(1);
    } else {
        DIE("no such way: %s", how);
    }
    return 14;
}
