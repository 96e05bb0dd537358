/* children HOW: a recording process with children of every kind, whose calls must not appear in its capture. */
#include "../hook_client.h"
#include <fcntl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;
/* Rounds of a thread: all together find room in the ring however little the recorder's thread gets to run. */
enum { MOST = 8000 };
static alloc_t alloc;
static free_t release;
static volatile int stop;

static void use(size_t bytes) {
    pointer_t pointer;
    CHECK(alloc(&pointer, bytes));
}

static void open_driver(void) {
    alloc = need(driver(), "cuMemAlloc_v2");
    release = need(driver(), "cuMemFree_v2");
    start();
}

static void reap(pid_t child, int wanted) {
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child)
        DIE("no child");
    if (wanted >= 0 ? !WIFEXITED(status) || WEXITSTATUS(status) != wanted
                    : !WIFSIGNALED(status) || WTERMSIG(status) != -wanted)
        DIE("the child ended with %#x", status);
}

static void *churn(void *unused) {
    pointer_t pointer;
    start();
    for (int round = 0; !stop; round++) {
        if (round >= MOST) {
            usleep(1000);
            continue;
        }
        CHECK(alloc(&pointer, 512));
        CHECK(release(pointer));
    }
    return unused;
}

static void *forks(void *unused) { /* from a thread that is not the first, while others allocate */
    for (int i = 0; i < 30; i++) {
        pid_t child = fork();
        if (child == 0)
            i % 2 ? _exit(3) : (void)execlp("true", "true", NULL), _exit(4);
        reap(child, i % 2 ? 3 : 0);
    }
    return unused;
}

/* A typical daemon: two forks, a new session, every descriptor closed and opened again. The numbers that
 * the recorder may have had now lead to files of the daemon's. */
static void become_daemon(const char *data) {
    char empty[] = "";
    for (int fd = 3; fd < 64; fd++)
        close(fd);
    int fd = open(data, O_CREAT | O_RDWR | O_TRUNC, 0644);
    for (int i = 0; i < 40; i++)
        if (dup(fd) < 0)
            DIE("no descriptor");
    if (write(fd, empty, 0) != 0)
        DIE("cannot write");
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    pid_t child;
    if (strcmp(how, "daemon") == 0) { /* the grandchild is the one that uses the card */
        int done[2];
        if (pipe(done) != 0)
            return 2;
        if ((child = fork()) == 0) {
            setsid();
            if (fork() != 0)
                _exit(0);
            if (chdir("daemon") != 0)
                _exit(2);
            open_driver();
            use(1 << 20);
            become_daemon("data");
            for (int i = 0; i < 3000; i++) {
                pointer_t pointer;
                CHECK(alloc(&pointer, 512 + 512 * (size_t)(i % 5)));
                CHECK(release(pointer));
            }
            AGREE("the daemon's work");
            tell_books("daemon");
            exit(0); /* the pipe was closed with the others: the end of this process is reported in another way */
        }
        reap(child, 0);
        close(done[1]);
        char byte;
        return read(done[0], &byte, 1) == 0 ? 18 : 2;
    }
    open_driver();
    use(3000);
    if (strcmp(how, "vfork") == 0) {
        for (int i = 0; i < 20; i++) {
            if ((child = vfork()) == 0) {
                execlp("true", "true", NULL);
                _exit(4);
            }
            reap(child, 0);
        }
    } else if (strcmp(how, "spawn") == 0) {
        char *const arguments[] = {"sh", "-c", "exit 5", NULL};
        for (int i = 0; i < 10; i++) {
            if (posix_spawnp(&child, "sh", NULL, NULL, arguments, environ) != 0)
                return 2;
            reap(child, 5);
        }
        if (system("true") != 0)
            return 2;
    } else if (strcmp(how, "thread") == 0) {
        pthread_t threads[3], forking;
        for (int i = 0; i < 3; i++)
            pthread_create(&threads[i], NULL, churn, NULL);
        pthread_create(&forking, NULL, forks, NULL);
        pthread_join(forking, NULL);
        stop = 1;
        for (int i = 0; i < 3; i++)
            pthread_join(threads[i], NULL);
    } else if (strcmp(how, "generations") == 0) { /* each generation ends in a way of its own */
        if ((child = fork()) == 0) {
            if ((child = fork()) == 0) {
                if ((child = fork()) == 0)
                    abort();
                reap(child, -SIGABRT);
                raise(SIGKILL);
            }
            reap(child, -SIGKILL);
            int *volatile nowhere = NULL;
            *(volatile int *)nowhere = 1;
        }
        reap(child, -SIGSEGV);
    } else if (strcmp(how, "confined") == 0) { /* only read, write and the exit are left to it */
        if ((child = fork()) == 0) {
            volatile unsigned long long sum = 0;
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
            for (int i = 0; i < 1000000; i++)
                sum += (unsigned long long)i;
            if (write(1, "confined\n", 9) != 9)
                syscall(SYS_exit, 6);
            syscall(SYS_exit, 7);
        }
        reap(child, 7);
    } else {
        DIE("no such way: %s", how);
    }
    use(6000);
    AGREE("the children");
    tell_books("parent");
    return 18;
}
