/* confined HOW [ARGUMENT]: a process that drops privileges or access, before or after its first allocation.
 *   chroot FOLDER       before it: neither /proc nor a library can be found any more
 *   chroot later FOLDER after it
 *   uid                 before it: becomes another user, who may not write here
 *   uid later           after it, while the recorder's thread runs
 *   no files            before it: a filter refuses to create files
 *   no writes           after it: a filter on all threads refuses pwrite and open
 *   deleted FOLDER      after it: removes the folder with the capture
 *   nowhere FOLDER      before it: removes its working folder
 *   is it another       prints its user, and whether the recorder is loaded */
#include "../hook_client.h"
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static alloc_t alloc;
static free_t release;

static void work(int rounds) {
    for (int i = 0; i < rounds; i++) {
        pointer_t pointer;
        CHECK(alloc(&pointer, 512 + 512 * (size_t)(i % 11)));
        if (i % 100 != 0)
            CHECK(release(pointer));
    }
}

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define REFUSE(number)                                                                             \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),                                             \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1)
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void filter(struct sock_filter *code, size_t length) {
    struct sock_fprog program = {.len = (unsigned short)length, .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
        DIE("no filters here");
}

static void no_new_files(void) {
    struct sock_filter code[] = {
        LOAD(nr),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
        LOAD(args[2]),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_CREAT, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
        ALLOW,
    };
    filter(code, sizeof code / sizeof *code);
}

static void no_writes(void) {
    struct sock_filter code[] = {
        LOAD(nr), REFUSE(SYS_pwrite64), REFUSE(SYS_openat), ALLOW,
    };
    filter(code, sizeof code / sizeof *code);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    const char *folder = argc > 2 ? argv[2] : "";
    int after = strstr(how, "later") != NULL || strcmp(how, "no writes") == 0 ||
                strcmp(how, "deleted") == 0;
    if (strcmp(how, "is it another") == 0) {
        void *library = dlopen(folder, RTLD_NOW | RTLD_LOCAL);
        printf("uid %d, euid %d, recorder %s\n", (int)getuid(), (int)geteuid(),
               dlsym(RTLD_DEFAULT, "gpumem_counters") != NULL ? "there" : "not there");
        if (library == NULL)
            DIE("%s", dlerror());
        CHECK(((int (*)(unsigned))need(library, "cuInit"))(0));
        return 19;
    }
    alloc = need(driver(), "cuMemAlloc_v2");
    release = need(driver(), "cuMemFree_v2");
    if (after) {
        start();
        work(100);
    }
    if (strncmp(how, "chroot", 6) == 0) {
        if (chroot(folder) != 0 || chdir("/") != 0)
            DIE("no chroot");
        if (access("/proc/self/maps", F_OK) == 0)
            DIE("/proc is still there");
    } else if (strncmp(how, "uid", 3) == 0) {
        if (setgid(65534) != 0 || setuid(65534) != 0)
            DIE("cannot become another");
    } else if (strcmp(how, "no files") == 0) {
        no_new_files();
    } else if (strcmp(how, "no writes") == 0) {
        no_writes();
    } else if (strcmp(how, "deleted") == 0) {
        char capture[4096];
        snprintf(capture, sizeof capture, "%s/report.bin", folder);
        unlink(capture);
        if (rmdir(folder) != 0)
            DIE("cannot remove %s", folder);
    } else if (strcmp(how, "nowhere") == 0) {
        char here[4096];
        if (mkdir(folder, 0755) != 0 || chdir(folder) != 0 || getcwd(here, sizeof here) == NULL ||
            rmdir(here) != 0)
            DIE("cannot remove %s", folder);
    }
    start();
    work(5000);
    AGREE("the work");
    tell_books(how);
    return 19;
}
