/* A library that wraps a function of the same name, as preloaded libraries do: RTLD_NEXT must mean "after
 * this library". Loaded by hook_next_main: the count increases by one per call, without recursion. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int hook_next_calls;

time_t time(time_t *out) {
    static time_t (*next)(time_t *);
    if (next == NULL)
        next = (time_t(*)(time_t *))dlsym(RTLD_NEXT, "time");
    if (next == NULL || next == time || ++hook_next_calls > 10)
        abort();
    return next(out);
}
