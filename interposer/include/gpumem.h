/* gpumem's C API. Link nothing: look the functions up with dlsym(RTLD_DEFAULT, …); they are there
 * where libgpumem.so is preloaded. */
#ifndef GPUMEM_H
#define GPUMEM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GPUMEM_API_VERSION 4 /* 2: GPUMEM_PHYSICAL; 3: gpumem_step; 4: gpumem_limit */

enum gpumem_level {
    GPUMEM_TENSOR = 0, /* inside a framework's pool */
    GPUMEM_DRIVER = 1, /* device memory from CUDA, as requested */
    GPUMEM_HOST = 2,   /* pinned host memory */
    GPUMEM_PHYSICAL = 3 /* what the card gave; managed memory is not in it */
};

struct gpumem_counters {
    uint64_t live_bytes;  /* live now */
    uint64_t peak_bytes;  /* greatest live */
    uint64_t allocations; /* so far */
    uint64_t frees;       /* so far */
};

/* The version of the API that the library has. */
int gpumem_api_version(void);

/* 1 while events of this process are recorded, else 0. */
int gpumem_recording(void);

/* 0: *out is filled. 1: nothing is recorded in this process. 2: an argument is not valid. */
int gpumem_counters(int device, int level, struct gpumem_counters *out);

/* A step of the program (of its training) has ended. From the first call on, steps are what the program
 * says; before, they are found by what PyTorch does. 0: recorded. 1: nothing is recorded in this process. */
int gpumem_step(void);

/* Makes the card of a device (-1: of every device) look as if it had so many bytes in all, from now on, as
 * GPUMEM_LIMIT does from the start; 0 lifts the limit. 0: done. 1: nothing is recorded in this process, nor
 * will be. 2: an argument is not valid. */
int gpumem_limit(int device, uint64_t bytes);

/* Path of this process's capture; returns its length without the NUL, 0 if nothing is recorded. */
size_t gpumem_report_path(char *buffer, size_t size);

/* The environment options as text; returns its length without the NUL. */
size_t gpumem_help_env(char *buffer, size_t size);

#ifdef __cplusplus
}
#endif
#endif
