/* host HOW: programs that a recorder of any kind has disturbed. Each uses the card a little, and does what others do.
 * Its last output is the simulator's books, where it has blocks. */
#include "../hook_client.h"
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef THREAD_LOCAL
static __thread char large[THREAD_LOCAL];
#endif

static alloc_t alloc;
static free_t release;
static void *context;

static pointer_t use(size_t bytes) {
    pointer_t pointer = 0;
    CHECK(alloc(&pointer, bytes));
    return pointer;
}

static void enter_context(void) {
    CHECK(((int (*)(void *))need(driver(), "cuCtxSetCurrent"))(context));
}

static void begin(void) {
    context = start();
    *(void **)&alloc = need(driver(), "cuMemAlloc_v2");
    *(void **)&release = need(driver(), "cuMemFree_v2");
}

static void *cancelled(void *failures) {
    pointer_t pointer;
    enter_context();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cancel(pthread_self());
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    for (intptr_t i = 0; i < (intptr_t)failures; i++)
        if (alloc(&pointer, (size_t)1 << 50) != 2) abort();
    /* Nothing above was a cancellation point of the program's. */
    printf("not yet\n");
    fflush(stdout);
    pthread_testcancel();
    return NULL;
}

static int first_thread_lives(void) {
    char state = 0;
    FILE *file = fopen("/proc/self/stat", "r");
    if (file == NULL || fscanf(file, "%*d (%*[^)]) %c", &state) != 1) abort();
    fclose(file);
    return state != 'Z';
}

static void *outlives(void *argument) {
    (void)argument;
    enter_context();
    while (first_thread_lives()) sched_yield();
    CHECK(release(use(5000)));
    use(6000);
    tell_books("last");
    fflush(stdout);
    return NULL;
}

static void *on_a_small_stack(void *argument) {
    (void)argument;
    enter_context();
    for (int i = 0; i < 10; i++) CHECK(release(use(4096)));
    return NULL;
}

static void *switched_to, *switched_from;
__attribute__((noinline)) void switch_stack(void **save, void *to);
__asm__(".globl switch_stack\nswitch_stack:\n push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
        " mov %rsp,(%rdi)\n mov %rsi,%rsp\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n");

static void fiber(void) {
    use(7000);
    switch_stack(&switched_to, switched_from);
    abort();
}

static void on_a_fiber(void *returns_to) {
    size_t bytes = 1 << 16;
    char *memory = mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(memory + bytes, 4096, PROT_NONE);
    void **sp = (void **)(memory + bytes);
    *--sp = returns_to;
    *--sp = (void *)fiber;
    for (int i = 0; i < 6; i++) *--sp = NULL;
    switch_stack(&switched_from, sp);
}

static uintptr_t place_of(void *library) {
    struct link_map *map;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) abort();
    return map->l_addr;
}

/* Opens the driver, looks up and unloads it, so that it comes back elsewhere, as loaders that probe for CUDA do. */
static void moved(int initialise) {
    void *first = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (first == NULL || need(first, "cuMemAlloc_v2") == NULL) abort();
    need(first, "cuMemFree_v2");
    need(first, "cuDevicePrimaryCtxRetain");
    uintptr_t place = place_of(first);
    if (initialise) CHECK(((int (*)(unsigned))need(first, "cuInit"))(0));
    dlclose(first);
    int is_gone = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) == NULL;
    if (is_gone) mmap((void *)place, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    void *second = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    printf("unloaded: %d, elsewhere: %d\n", is_gone, place_of(second) != place);
}

int main(int count, char **arguments) {
    const char *how = arguments[1];
    int (*text)(int, const char **);
    (void)count;
#ifdef THREAD_LOCAL
    large[0] = 1;
#endif
    if (!strcmp(how, "moved")) moved(atoi(arguments[2]));
    if (!strcmp(how, "data on stderr")) {
        close(2); /* before the card is used, and closed already when this program is started so */
        if (open("data", O_RDWR | O_CREAT | O_TRUNC, 0600) != 2) return 9;
    }
    if (!strcmp(how, "few files")) {
        /* No more than the standard streams. The driver has its own by now. */
        struct rlimit few = {3, 3};
        CHECK(((int (*)(unsigned))need(driver(), "cuInit"))(0));
        setrlimit(RLIMIT_NOFILE, &few);
    }
    if (!strcmp(how, "child")) {
        uint64_t (*scope)(const char *);
        int status;
        *(void **)&scope = dlsym(RTLD_DEFAULT, "gpumem_scope_begin");
        if (scope) scope("of the parent"); /* the recorder knows this thread now */
        if (fork() == 0) {
            begin();
            use(3000);
            tell_books("child");
            _exit(5);
        }
        wait(&status);
        return WEXITSTATUS(status);
    }
    begin();
    if (!strcmp(how, "cancelled")) {
        pthread_t thread;
        void *result;
        pthread_create(&thread, NULL, cancelled, (void *)(intptr_t)atoi(arguments[2]));
        pthread_join(thread, &result);
        printf("%s\n", result == PTHREAD_CANCELED ? "cancelled" : "returned");
    } else if (!strcmp(how, "main ends")) {
        pthread_t thread;
        pthread_create(&thread, NULL, outlives, NULL);
        pthread_exit(NULL);
    } else if (!strcmp(how, "signal")) {
        sigset_t all;
        int taken;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, NULL);
        use(3000);
        kill(getpid(), atoi(arguments[2]));
        sigwait(&all, &taken);
        if (taken != atoi(arguments[2])) return 9;
    } else if (!strcmp(how, "small files")) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_FSIZE, &none);
        for (int i = 0; i < 2000; i++) CHECK(release(use(512 + i)));
        use(3000);
    } else if (!strcmp(how, "small stack")) {
        pthread_attr_t attributes;
        pthread_t thread;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, (size_t)atoi(arguments[2]) << 10);
        pthread_create(&thread, &attributes, on_a_small_stack, NULL);
        pthread_join(thread, NULL);
        use(3000);
    } else if (!strcmp(how, "fiber")) {
        void *nowhere[] = {NULL, (char *)main + 4, (char *)use + 4, (void *)8, (char *)sigwait + 4};
        for (size_t i = 0; i < sizeof nowhere / sizeof *nowhere; i++) on_a_fiber(nowhere[i]);
    } else if (!strcmp(how, "texts")) {
        const char *said;
        *(void **)&text = need(driver(), "cuGetErrorString");
        use(3000);
        for (int error = 0; error < 20; error++) text(error, &said);
        pointer_t pointer;
        if (alloc(&pointer, (size_t)1 << 50) != 2) return 9;
        for (int i = 0; i < 4; i++) use(1000);
        text(2, &said); /* of what it has recovered from */
    } else if (!strcmp(how, "errors")) {
        dlerror();
        dlopen("/no/such/library", RTLD_NOW);
        errno = 77;
        use(3000);
        int kept = errno;
        printf("errno %d, %s\n", kept, dlerror());
        dlopen("/no/such/library", RTLD_NOW);
        pointer_t pointer;
        errno = 77;
        if (alloc(&pointer, (size_t)1 << 50) != 2) return 9;
        kept = errno;
        printf("errno %d, %s\n", kept, dlerror());
    } else if (!strcmp(how, "limited")) {
        pointer_t pointer;
        use(1 << 20);
        printf("2 MiB: %d\n", alloc(&pointer, 2 << 20));
        CHECK(release(use(5000)));
    } else if (!strcmp(how, "cuts")) {
        /* The file has a page by then. Without the recorder, there is no file. */
        unsigned char byte = 0;
        int file = open("report.bin", O_RDONLY);
        for (int i = 0; i < 4000; i++) CHECK(release(use(512 + i)));
        while (file >= 0 && (pread(file, &byte, 1, 24576) != 1 || byte == 0)) sched_yield();
        if (file >= 0 && truncate("report.bin", 0) != 0) return 9;
        for (int i = 0; i < 4000; i++) CHECK(release(use(512 + i)));
        use(3000);
    } else if (!strcmp(how, "data on stderr")) {
        pointer_t pointer;
        if (alloc(&pointer, (size_t)1 << 50) != 2) return 9;
        use(3000);
    } else {
        CHECK(release(use(5000)));
        use(3000);
    }
    tell_books(how);
    return 21;
}
