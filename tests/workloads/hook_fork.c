/* hook_fork HOW: processes that fork around their first CUDA call. Each prints its own books. */
#include "hook_client.h"
#include <pthread.h>
#include <sys/wait.h>

static alloc_t alloc;
static free_t release;

static void open_driver(void) {
    alloc = need(driver(), "cuMemAlloc_v2");
    release = need(driver(), "cuMemFree_v2");
    start();
}

static void use(size_t bytes) {
    pointer_t pointer;
    CHECK(alloc(&pointer, bytes));
}

static void reap(pid_t child, int wanted) {
    int status;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != wanted)
        DIE("the child ended with %#x", status);
}

static volatile int stop;
static void *churn(void *unused) {
    start();
    while (!stop) {
        pointer_t pointer;
        CHECK(alloc(&pointer, 512));
        CHECK(release(pointer));
    }
    return unused;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    if (strcmp(how, "before") == 0) { /* the child is the one with CUDA, then the parent as well */
        pid_t child = fork();
        if (child == 0) {
            open_driver();
            use(1000);
            tell_books("child");
            return 7;
        }
        reap(child, 7);
        open_driver();
        use(2000);
    } else if (strcmp(how, "after") == 0) { /* the child inherits an open capture and calls on */
        open_driver();
        use(3000);
        pid_t child = fork();
        if (child == 0) { /* a driver refuses a forked child, as the simulator does: the child gets the same result */
            pointer_t pointer = 0;
            printf("child: %d", alloc(&pointer, 4000));
            printf(" %d\n", release(pointer));
            return 7;
        }
        reap(child, 7);
        use(6000);
    } else if (strcmp(how, "busy") == 0) { /* many children while threads hold whatever they hold */
        pthread_t threads[4];
        open_driver();
        for (int i = 0; i < 4; i++)
            pthread_create(&threads[i], NULL, churn, NULL);
        for (int i = 0; i < 30; i++) {
            pid_t child = fork();
            if (child == 0) {
                /* Not the simulator's functions: its own locks may be held. Ours must not be needed. */
                void *(*ask)(int, int, void *) = dlsym(RTLD_DEFAULT, "gpumem_counters");
                unsigned long long out[4];
                if (ask != NULL)
                    ask(0, 1, out);
                exit(7);
            }
            reap(child, 7);
        }
        stop = 1;
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
        use(7000);
    } else {
        DIE("no such way: %s", how);
    }
    tell_books("parent");
    return 0;
}
