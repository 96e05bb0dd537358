/* Preloaded beside the recorder: clocks that run wrongly. CLOCK_SHIFT selects how:
 *   back   at every fiftieth reading all clocks are set back by an hour
 *   forth  … or forward
 *   still  they stop */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_long readings;

int clock_gettime(clockid_t clock, struct timespec *time) {
    static const char *how;
    if (how == NULL && (how = getenv("CLOCK_SHIFT")) == NULL)
        how = "";
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    long hours = atomic_fetch_add(&readings, 1) / 50;
    if (strcmp(how, "back") == 0)
        time->tv_sec -= 3600 * hours < time->tv_sec ? 3600 * hours : time->tv_sec;
    else if (strcmp(how, "forth") == 0)
        time->tv_sec += 3600 * hours;
    else if (strcmp(how, "still") == 0)
        time->tv_sec = 1000000, time->tv_nsec = 0;
    return result;
}
