/* used_up before|amid KIB: uses up its address space but for so much, before or amid its use of the card, and goes on. */
#include "../hook_client.h"
#include <sys/resource.h>

static void use_up(size_t spare) {
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0;
    if (file == NULL || fscanf(file, "%ld", &pages) != 1) exit(9);
    fclose(file);
    struct rlimit limit;
    limit.rlim_cur = limit.rlim_max = (rlim_t)pages * 4096 + (4 << 20);
    setrlimit(RLIMIT_AS, &limit);
    void *last = NULL;
    for (void *block; (block = malloc(1 << 16)) != NULL; last = block) *(void **)block = last;
    for (void *block; (block = malloc(64)) != NULL;) *(void **)block = NULL;
    for (size_t given = 0; last != NULL && given < spare << 10; given += 1 << 16) {
        void *before = *(void **)last;
        free(last);
        last = before;
    }
}

int main(int count, char **arguments) {
    static pointer_t pointers[3000];
    size_t spare = (size_t)atol(arguments[count - 1]);
    static char buffer[4096];
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    driver();
    if (!strcmp(arguments[1], "before")) use_up(spare);
    start();
    alloc_t alloc;
    free_t release;
    *(void **)&alloc = need(driver(), "cuMemAlloc_v2");
    *(void **)&release = need(driver(), "cuMemFree_v2");
    for (size_t i = 0; i < 3000; i++) {
        if (i == 1000 && !strcmp(arguments[1], "amid")) use_up(spare);
        CHECK(alloc(&pointers[i], 512 + i));
    }
    for (size_t i = 0; i < 3000; i++) CHECK(release(pointers[i]));
    puts("over");
    return 17;
}
