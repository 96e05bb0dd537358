/* own_descriptors FILTER HOW [FILE]: a process under a filter of system calls as containers have one. It does not end
 * before FILE is gone.
 *   FILTER  open: none. docker: Docker's default refuses unshare and clone3. old: the same on a kernel before 5.9, which
 *           has no close_range. closed: clone is refused as well, if it does not share the table of descriptors.
 *   HOW     churn: threads allocate while another one closes all descriptors from 3 on, opens `own` under their
 *           numbers and appends a line to it, over and over. once: the same, but it does so only once.
 *           list: what the recorder's thread that writes the capture has open, once there is one such thread.
 *           group: a thread changes the process's group over and over, while the recorder starts. Prints the groups of
 *           the first thread and of the one that writes the capture afterwards. */
#define _GNU_SOURCE
#include "hook_client.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_clone3
#define SYS_clone3 435
#endif

enum { THREADS = 2, ROUNDS = 50000, NUMBERS = 24 };
static alloc_t alloc;
static free_t release;
static volatile int done;
static unsigned long long most = ~0ULL;

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define REFUSE(number, error)                                                                      \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),                                             \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void install(struct sock_filter *code, size_t length) {
    struct sock_fprog program = {.len = (unsigned short)length, .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        DIE("no filters here");
}

static void refuse(const char *which) {
    struct sock_filter docker[] = {
        LOAD(nr), REFUSE(SYS_unshare, EPERM), REFUSE(SYS_clone3, ENOSYS), ALLOW,
    };
    struct sock_filter old[] = {LOAD(nr), REFUSE(SYS_close_range, ENOSYS), ALLOW};
    struct sock_filter closed[] = {
        LOAD(nr),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4),
        LOAD(args[0]),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 2),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_FILES, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        ALLOW,
    };
    if (strcmp(which, "open") == 0)
        return;
    install(docker, sizeof docker / sizeof *docker);
    if (strcmp(which, "docker") != 0)
        install(old, sizeof old / sizeof *old);
    if (strcmp(which, "closed") == 0)
        install(closed, sizeof closed / sizeof *closed);
}

static void *churn(void *unused) {
    unsigned random = 1;
    start();
    for (int i = 0; i < ROUNDS; i++) {
        pointer_t pointer;
        random = random * 1103515245 + 12345;
        CHECK(alloc(&pointer, 1 + (random >> 12))); /* sizes that do not compress: many writes */
        CHECK(release(pointer));
    }
    return unused;
}

/* What daemons do once, and the numbers are its own from then on. */
static void *take_all_numbers(void *unused) {
    char line[17];
    for (unsigned long long round = 0; !done && round < most; round++) {
        if (syscall(SYS_close_range, 3, ~0U, 0) != 0)
            for (int number = 3; number < 256; number++)
                close(number);
        int own = open("own", O_CREAT | O_WRONLY | O_APPEND, 0644);
        if (own < 0)
            DIE("own: %s", strerror(errno));
        for (int number = 3; number < NUMBERS; number++)
            while (dup2(own, number) != number)
                if (errno != EBUSY) /* another thread is about to open something under that number */
                    DIE("%d: %s", number, strerror(errno));
        snprintf(line, sizeof line, "%015llu\n", round);
        if (write(3 + (int)(round % (NUMBERS - 3)), line, 16) != 16)
            DIE("own: %s", strerror(errno));
    }
    return unused;
}

/* A link below /proc/self/task/<task>. */
static int link_of(const char *task, const char *name, char *target, size_t size) {
    char path[600];
    snprintf(path, sizeof path, "/proc/self/task/%s/fd/%s", task, name);
    ssize_t length = readlink(path, target, size - 1);
    target[length > 0 ? length : 0] = 0;
    return length > 0;
}

static int is_file_thread(const char *task) {
    char path[512], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", task);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 0;
    if (fgets(name, sizeof name, file) == NULL)
        name[0] = 0;
    fclose(file);
    return strcmp(name, "gpumem-file\n") == 0;
}

/* Whether the recorder's thread has the capture open. Prints what it has open then. */
static int list(int print) {
    char target[4096], path[512], all[8192] = "";
    int writers = 0, has_capture = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        if (task->d_name[0] == '.')
            continue;
        if (!is_file_thread(task->d_name))
            continue;
        writers++;
        snprintf(path, sizeof path, "/proc/self/task/%s/fd", task->d_name);
        DIR *open = opendir(path);
        for (struct dirent *entry; open != NULL && (entry = readdir(open)) != NULL;)
            if (link_of(task->d_name, entry->d_name, target, sizeof target)) {
                const char *end = strrchr(target, '/');
                has_capture |= strcmp(end != NULL ? end + 1 : target, "report.bin") == 0;
                strncat(strncat(all, target, 4096), "\n", 2);
            }
        if (open != NULL)
            closedir(open);
    }
    closedir(tasks);
    if (has_capture && writers == 1 && print)
        fputs(all, stdout);
    return has_capture && writers == 1;
}

static void await_capture(int print) {
    while (!list(print))
        sched_yield();
}

static void *change_groups(void *unused) {
    while (!done)
        if (setegid(65534) != 0 || setegid(getgid()) != 0)
            DIE("not permitted");
    if (setegid(65534) != 0)
        DIE("not permitted");
    return unused;
}

static void print_groups(void) {
    char path[512], line[512];
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        if (!is_file_thread(task->d_name) && atoi(task->d_name) != getpid())
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *status = fopen(path, "r");
        while (status != NULL && fgets(line, sizeof line, status) != NULL)
            if (strncmp(line, "Gid:", 4) == 0)
                fputs(line, stdout);
        if (status != NULL)
            fclose(status);
    }
    closedir(tasks);
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS], other;
    pointer_t pointer;
    if (argc < 3)
        return 2;
    refuse(argv[1]);
    alloc = need(driver(), "cuMemAlloc_v2");
    release = need(driver(), "cuMemFree_v2");
    if (strcmp(argv[2], "group") == 0)
        pthread_create(&other, NULL, change_groups, NULL);
    start();
    CHECK(alloc(&pointer, 3000));
    if (strcmp(argv[2], "list") == 0) {
        await_capture(1);
        return 0;
    }
    if (strcmp(argv[2], "group") == 0) {
        await_capture(0);
        done = 1;
        pthread_join(other, NULL);
        print_groups();
        return 0;
    }
    if (strcmp(argv[2], "once") == 0)
        most = 1;
    pthread_create(&other, NULL, take_all_numbers, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, churn, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    done = 1;
    pthread_join(other, NULL);
    while (argc > 3 && access(argv[3], F_OK) == 0)
        sched_yield();
    uint64_t live, peak;
    books(0, "driver", &live, &peak);
    printf("%llu live\n", (unsigned long long)live);
    return 21;
}
