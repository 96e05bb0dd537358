/* Preloaded libraries of other kinds, by -D: each defines functions of the C library, and looks the next definition up
 * when it is first called, as they do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NEXT(name) (*(void **)&next = next ? *(void **)&next : dlsym(RTLD_NEXT, #name), next)

#ifdef ITERATES /* a sanitizer, a profiler */
int dl_iterate_phdr(int (*visit)(struct dl_phdr_info *, size_t, void *), void *data) {
    static int (*next)(int (*)(struct dl_phdr_info *, size_t, void *), void *);
    return NEXT(dl_iterate_phdr)(visit, data);
}
#endif

#ifdef CLOCKS /* moves the clocks, and is gone before the process is */
static int *offset;
__attribute__((constructor)) static void begin(void) { offset = calloc(1, sizeof *offset); }
__attribute__((destructor)) static void end(void) { offset = NULL; }
int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*next)(clockid_t, struct timespec *);
    int result = NEXT(clock_gettime)(clock, time);
    time->tv_sec += *(volatile int *)offset;
    return result;
}
#endif

#ifdef LIMITS /* a share of a card: it answers look-ups itself, and finds the C library's by that one's version */
#include <string.h>
static void *(*look_up)(void *, const char *);
int cuMemAlloc_v2(unsigned long long *pointer, size_t bytes) {
    static int (*next)(unsigned long long *, size_t);
    if (bytes > 1 << 20) return 2;
    if (!next) *(void **)&next = look_up(dlopen("libcuda.so.1", RTLD_NOW), "cuMemAlloc_v2");
    return next(pointer, bytes);
}
void *dlsym(void *handle, const char *name) {
    const char *const versions[] = {"GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.34"};
    for (int i = 0; !look_up && i < 3; i++) *(void **)&look_up = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    return strcmp(name, "cuMemAlloc_v2") ? look_up(handle, name) : (void *)cuMemAlloc_v2;
}
#endif

#ifdef CALLS /* logs calls; it must not be called before it is ready */
static int is_ready;
__attribute__((constructor)) static void begin(void) { is_ready = 1; }
#define READY if (!is_ready) abort()
ssize_t write(int file, const void *bytes, size_t count) {
    static ssize_t (*next)(int, const void *, size_t);
    READY;
    return NEXT(write)(file, bytes, count);
}
int poll(struct pollfd *files, nfds_t count, int limit) {
    static int (*next)(struct pollfd *, nfds_t, int);
    READY;
    return NEXT(poll)(files, count, limit);
}
int fstat(int file, struct stat *found) {
    static int (*next)(int, struct stat *);
    READY;
    return NEXT(fstat)(file, found);
}
int nanosleep(const struct timespec *time, struct timespec *left) {
    static int (*next)(const struct timespec *, struct timespec *);
    READY;
    return NEXT(nanosleep)(time, left);
}
#endif
