/* symbols_main LIBRARY|jit|wait...: `grow` of each library allocates 1 MiB that is never released, from
 * the library's own code: exported, inlined and hidden functions. "jit" is an allocation through code
 * made at run time; process id and address are printed on standard output. "wait" waits until standard
 * input ends. */
#include "hook_client.h"
#include <sys/mman.h>

static alloc_t real;

__attribute__((noinline)) int allocate(pointer_t *pointer, size_t bytes) {
    int error = real(pointer, bytes);
    return error + (getenv("SYMBOLS_NEVER_SET") != NULL);
}

/* push rbp; mov rbp, rsp; call rdx; pop rbp; ret */
static const unsigned char CODE[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd2, 0x5d, 0xc3};

static int through_new_code(void) {
    void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED)
        DIE("no memory");
    memcpy(code, CODE, sizeof CODE);
    if (mprotect(code, 4096, PROT_READ | PROT_EXEC) != 0)
        DIE("no code");
    pointer_t pointer;
    printf("%d %llx\n", (int)getpid(), (unsigned long long)code);
    fflush(stdout);
    typedef int (*made_t)(pointer_t *, size_t, int (*)(pointer_t *, size_t));
    made_t made;
    memcpy(&made, &code, sizeof made);
    return made(&pointer, 1 << 20, allocate);
}

int main(int argc, char **argv) {
    start();
    real = (alloc_t)need(driver(), "cuMemAlloc_v2");
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "jit") == 0) {
            CHECK(through_new_code());
            continue;
        }
        if (strcmp(argv[i], "wait") == 0) {
            puts("waiting");
            fflush(stdout);
            while (getchar() != EOF)
                continue;
            continue;
        }
        void *library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        if (library == NULL)
            DIE("%s", dlerror());
        int (*grow)(alloc_t) = (int (*)(alloc_t))need(library, "grow");
        CHECK(grow(allocate));
    }
    return 0;
}
