/* A library that its program loads with RTLD_DEEPBIND by its bare name: it is found by the program's own
 * RUNPATH alone, and it tells so. */
#include <stdio.h>

void use(const char *way) {
    printf("found by the caller's RUNPATH: %s\n", way);
    fflush(stdout);
}
