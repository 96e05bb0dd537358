/* The recorder's threads beside a thread of the program with another scheduling, as the argument selects: fifo
 * (SCHED_FIFO, pinned to the first processor), pinned, or openmp (in a parallel region, on its last thread). That
 * thread makes the first CUDA call. Prints `main processors`, from the start of the program, then for each of the
 * recorder's threads `name policy processors blocked-signals`; `not permitted` where the kernel refuses the policy. */
#define _GNU_SOURCE
#include <dirent.h>
#include <sched.h>
#include <time.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#include "hook_client.h"

/* A line of /proc/self/task/<id>/status. */
static void status(const char *id, const char *name, char *value, size_t size) {
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/self/task/%s/status", id);
    FILE *file = fopen(path, "r");
    snprintf(value, size, "?");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            sscanf(line + strlen(name), ": %255s", value);
    if (file != NULL)
        fclose(file);
}

static unsigned letter(char c) { return 1U << (c - 'a'); }

/* Whether the recorder's drain (or lines), file and nvml threads exist, each once, and no other of its threads (some
 * are short-lived). Prints them if `print`. */
static int ours(int print) {
    char name[256], processors[256], blocked[256];
    unsigned initials = 0;
    int found = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        status(task->d_name, "Name", name, sizeof name);
        if (strncmp(name, "gpumem-", 7) != 0)
            continue;
        found++;
        initials |= letter(name[7]);
        if (!print)
            continue;
        status(task->d_name, "Cpus_allowed_list", processors, sizeof processors);
        status(task->d_name, "SigBlk", blocked, sizeof blocked);
        int policy = sched_getscheduler(atoi(task->d_name));
        if (policy < 0 || processors[0] == '?' || blocked[0] == '?') /* it ended */
            continue;
        printf("%s %d %s %s\n", name, policy, processors, blocked);
    }
    closedir(tasks);
    unsigned always = letter('f') | letter('n');
    return found == 3 && (initials == (always | letter('d')) || initials == (always | letter('l')));
}

static void pin(void) {
    cpu_set_t all, first;
    CPU_ZERO(&first);
    CHECK(sched_getaffinity(0, sizeof all, &all));
    for (int processor = 0; processor < CPU_SETSIZE && CPU_COUNT(&first) == 0; processor++)
        if (CPU_ISSET(processor, &all))
            CPU_SET(processor, &first);
    CHECK(sched_setaffinity(0, sizeof first, &first));
}

static void allocate(void) {
    pointer_t block;
    start();
    CHECK(((alloc_t)need(driver(), "cuMemAlloc_v2"))(&block, 1 << 20));
}

int main(int count, char **arguments) {
    const char *how = count > 1 ? arguments[1] : "";
    char processors[256], id[32];
    snprintf(id, sizeof id, "%d", getpid());
    status(id, "Cpus_allowed_list", processors, sizeof processors);
    printf("main %s\n", processors);
    if (strcmp(how, "openmp") == 0) {
#ifdef _OPENMP
#pragma omp parallel
        if (omp_get_thread_num() == omp_get_num_threads() - 1)
            allocate();
#else
        DIE("built without OpenMP");
#endif
    } else {
        struct sched_param lowest = {.sched_priority = 1};
        pin();
        if (strcmp(how, "fifo") == 0 && sched_setscheduler(0, SCHED_FIFO, &lowest) != 0) {
            puts("not permitted");
            return 0;
        }
        allocate();
    }
    /* They name themselves once they run. */
    for (time_t began = time(NULL); !ours(0);)
        if (time(NULL) - began > 20)
            DIE("the recorder's threads do not run");
    ours(1);
    return 0;
}
