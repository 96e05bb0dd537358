/* A library that its program loads with RTLD_DEEPBIND by its bare name: only the program's own
 * RUNPATH finds it, and it prints a line. */
#include <stdio.h>

void use(const char *way) {
    printf("found by the caller's RUNPATH: %s\n", way);
    fflush(stdout);
}
