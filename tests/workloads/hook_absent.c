/* A program without CUDA that looks CUDA up in every way, and other functions, whose lookups must not change. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const NAMES[] = {
    "cuInit", "cuMemAlloc_v2", "cuMemAlloc", "cuMemFree_v2", "cuMemCreate", "cuGetProcAddress",
    "cuGetProcAddress_v2", "cuMemAllocAsync_ptsz", "cuCtxCreate_v4", "cudaMalloc", "cudaFree",
    "cudaMallocAsync", "cublasCreate_v2", "cudnnCreate", "curl_easy_init", "customer", "cu", "c", "",
};

int main(void) {
    void *self = dlopen(NULL, RTLD_NOW);
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        void *places[] = {RTLD_DEFAULT, RTLD_NEXT, self};
        for (int j = 0; j < 3; j++) {
            dlerror();
            void *found = dlsym(places[j], NAMES[i]);
            const char *error = dlerror();
            if (found != NULL || error == NULL)
                printf("%s in place %d: %s, %s\n", NAMES[i], j, found ? "found" : "none",
                       error ? "error" : "no error");
            if (dlvsym(places[j], NAMES[i], "GLIBC_2.2.5") != NULL)
                printf("%s in place %d by version: found\n", NAMES[i], j);
        }
    }
    void *(*next_malloc)(size_t) = dlsym(RTLD_NEXT, "malloc");
    void (*next_free)(void *) = dlsym(RTLD_NEXT, "free");
    dlerror();
    free(malloc(10));
    next_free(next_malloc(10));
    void *versioned = dlvsym(RTLD_DEFAULT, "memcpy", "GLIBC_2.2.5");
    void *newer = dlvsym(RTLD_DEFAULT, "memcpy", "GLIBC_2.14");
    printf("memcpy: %s\n", versioned && newer && versioned != newer ? "two versions" : "one version");
    dlsym(RTLD_DEFAULT, "no_such_function_anywhere");
    const char *error = dlerror();
    printf("%s\n", error && strstr(error, "no_such_function_anywhere") ? "named" : "not named");
    printf("%s\n", dlerror() == NULL ? "told once" : "told twice");
    return 0;
}
