/* Calls time() three times; hook_next.c, preloaded, counts. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>

int main(void) {
    int sane = 0;
    for (int i = 0; i < 3; i++)
        sane += time(NULL) > 1000000;
    int *calls = dlsym(RTLD_DEFAULT, "hook_next_calls");
    printf("%d sane, %d calls\n", sane, calls ? *calls : -1);
    return 0;
}
