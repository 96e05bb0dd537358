/* A preloaded library with another sigaction, as libjsig: it counts the calls and passes them to the next one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stddef.h>

static int calls;

int sigaction(int signal, const struct sigaction *new, struct sigaction *old) {
    static int (*next)(int, const struct sigaction *, struct sigaction *);
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "sigaction");
    calls++;
    return next(signal, new, old);
}

int calls_of_the_other(void) { return calls; }
