// Preloaded: counts calls that change files or make them durable. The process is killed before call KILL_AT; without
// that, the number of calls is written to the file COUNT at exit.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_int calls;

static void counted(void) {
    const char *at = getenv("KILL_AT");
    if (atomic_fetch_add(&calls, 1) + 1 == (at ? atoi(at) : 0)) kill(getpid(), SIGKILL);
}

__attribute__((destructor)) static void end(void) {
    const char *path = getenv("COUNT");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return;
    fprintf(file, "%d\n", atomic_load(&calls));
    fclose(file);
}

#define COUNTED(result, name, parameters, arguments)                                                                   \
    result name parameters {                                                                                           \
        result(*next) parameters = (result(*) parameters)dlsym(RTLD_NEXT, #name);                                      \
        counted();                                                                                                     \
        return next arguments;                                                                                         \
    }

COUNTED(int, mkdir, (const char *path, mode_t mode), (path, mode))
COUNTED(ssize_t, write, (int fd, const void *bytes, size_t count), (fd, bytes, count))
COUNTED(int, fsync, (int fd), (fd))
COUNTED(int, rename, (const char *from, const char *to), (from, to))
COUNTED(int, linkat, (int from_fd, const char *from, int to_fd, const char *to, int flags), (from_fd, from, to_fd, to, flags))
COUNTED(int, unlink, (const char *path), (path))
