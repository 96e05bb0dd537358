/* gpumem's C API. Link nothing: look the functions up with dlsym(RTLD_DEFAULT, …); they are there
 * where libgpumem.so is preloaded. */
#ifndef GPUMEM_H
#define GPUMEM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GPUMEM_API_VERSION 7 /* 2: GPUMEM_PHYSICAL; 3: gpumem_step; 4: scopes, marks, gpumem_limit; 5: gpumem_read_card; 6: gpumem_name_module and its fellows; 7: gpumem_coords */

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

/* Scopes: stretches of the program's work, any number, nested or not, begun and ended on any thread. Their
 * figures are exact in the order of the capture's events. */
struct gpumem_scope_figures {
    uint64_t start_bytes; /* live when it began */
    uint64_t live_bytes;  /* live now, or when it ended */
    uint64_t peak_bytes;  /* most that were live at once in between: at least the start and the end */
    uint64_t allocations; /* in between */
    uint64_t frees;       /* in between */
};

/* Begins a scope and returns its number. It may begin before anything is recorded: all figures are zero until
 * then. 0: nothing is recorded in this process and nothing will be (a child forked from one that is
 * recorded, or no capture can be written), or 1,048,576 scopes are kept. A name beyond 256 bytes is cut. */
uint64_t gpumem_scope_begin(const char *name);

/* All of these: 0: done. 1: nothing is recorded in this process. 2: an argument is not valid, or there is no
 * such scope. */

/* What the scope says of a device and level, until now or until it ended. */
int gpumem_scope_read(uint64_t scope, int device, int level, struct gpumem_scope_figures *out);

/* The scope begins anew, whether it goes on or has ended. */
int gpumem_scope_reset(uint64_t scope);

/* The scope ends; its figures stay. Nothing changes if it has ended. */
int gpumem_scope_end(uint64_t scope);

/* The scope ends, if it goes on, and its number means nothing any more. */
int gpumem_scope_forget(uint64_t scope);

/* Marks this moment in the capture. 0: recorded. 1: nothing is recorded in this process. */
int gpumem_mark(const char *name);

/* Makes the card of a device (-1: of every device) look as if it had so many bytes in all, from now on, as
 * GPUMEM_LIMIT does from the start; 0 lifts the limit. 0: done. 1: nothing is recorded in this process, nor
 * will be. 2: an argument is not valid. */
int gpumem_limit(int device, uint64_t bytes);

/* Where this rank stands in each dimension of the job's parallelism: "dp=1,tp=0,pp=3", up to 16 names of a-z, 0-9 and _,
 * each once, at most 32 bytes long. It may be called before anything is recorded, and again: the newest coordinates
 * count. 0: done. 1: nothing is recorded in this process, nor will be. 2: the text is no such one. */
int gpumem_coords(const char *coordinates);

/* Reads the card of a device (-1: of every device that the process has used) now, on the calling thread: what NVML
 * says is recorded, and what contexts and modules took since the last reading is charged. Readings come by themselves
 * too, a few milliseconds after they are called for. It may take milliseconds. 0: done. 1: nothing is recorded in this
 * process. 2: an argument is not valid. 3: NVML is not there, or does not know the device. 4: other threads moved
 * memory meanwhile, so that nothing could be charged. */
int gpumem_read_card(int device);

/* Modules of PyTorch's (torch.nn.Module) that were at work in recorded stacks. `gpumem` for Python calls these.
 *
 * Records what the program calls a module, a live Python object: its qualified name. The newest counts. 0: recorded.
 * 1: nothing is recorded in this process. 2: no stack has had the module yet. */
int gpumem_name_module(const void *module, const char *name);

/* Writes the addresses of modules that were called by no other one, as far as there is room; returns how many there
 * are, 64 at the most. The objects may be gone, and something else may be there. */
size_t gpumem_module_roots(uintptr_t *out, size_t room);

/* How many modules recorded stacks have had. */
size_t gpumem_module_count(void);

/* Records what the program uses tensors for: the storages that begin at these addresses. Those that are no live block
 * are passed over, and what was recorded of a block before is not recorded again. `role` is 1 for parameters, 2 for
 * gradients, 3 for state of optimizers, 4 for buffers. Returns how many were new. `gpumem` for Python calls this. */
size_t gpumem_tell_tensors(const uint64_t *addresses, size_t count, int role);

/* Path of this process's capture; returns its length without the NUL, 0 if nothing is recorded. */
size_t gpumem_report_path(char *buffer, size_t size);

/* The environment options as text; returns its length without the NUL. */
size_t gpumem_help_env(char *buffer, size_t size);

#ifdef __cplusplus
}
#endif
#endif
