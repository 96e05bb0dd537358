/* gpumem's C API. No library must be linked: look the functions up with dlsym(RTLD_DEFAULT, …). They exist if
 * libgpumem.so is preloaded. */
#ifndef GPUMEM_H
#define GPUMEM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GPUMEM_API_VERSION 8 /* 2: GPUMEM_PHYSICAL; 3: gpumem_step; 4: scopes, marks, gpumem_limit; 5: gpumem_read_card; 6: gpumem_name_module and its fellows; 7: gpumem_coords; 8: gpumem_holders */

enum gpumem_level {
    GPUMEM_TENSOR = 0, /* inside a framework's pool */
    GPUMEM_DRIVER = 1, /* device memory from CUDA, as requested */
    GPUMEM_HOST = 2,   /* pinned host memory */
    GPUMEM_PHYSICAL = 3 /* physical memory on the card, without managed memory */
};

struct gpumem_counters {
    uint64_t live_bytes;  /* live now */
    uint64_t peak_bytes;  /* highest live_bytes */
    uint64_t allocations; /* so far */
    uint64_t frees;       /* so far */
};

/* The API version of the library. */
int gpumem_api_version(void);

/* 1 while events of this process are recorded, else 0. */
int gpumem_recording(void);

/* 0: *out is filled. 1: nothing is recorded in this process. 2: an argument is invalid. */
int gpumem_counters(int device, int level, struct gpumem_counters *out);

/* Reports that a step of the program (of its training) has ended. From the first call on only the program reports
 * steps; before it, they are detected from PyTorch's calls. 0: recorded. 1: nothing is recorded in this process. */
int gpumem_step(void);

/* Scopes: parts of the program's work, any number, nested or not, begun and ended on any thread. Their
 * figures are exact in the order of the capture's events. */
struct gpumem_scope_figures {
    uint64_t start_bytes; /* live when it began */
    uint64_t live_bytes;  /* live now, or when it ended */
    uint64_t peak_bytes;  /* highest live bytes in between, including both ends */
    uint64_t allocations; /* in between */
    uint64_t frees;       /* in between */
};

/* Begins a scope and returns its number. It may begin before anything is recorded: all figures are zero until
 * then. 0: nothing is recorded in this process and nothing will be (it is a forked child of a recorded process, or
 * no capture can be written), or there are 1,048,576 scopes. Names are cut to 256 bytes. */
uint64_t gpumem_scope_begin(const char *name);

/* Results of the next four functions: 0: done. 1: nothing is recorded in this process. 2: an argument is invalid,
 * or there is no such scope. */

/* Reads the scope's figures of a device and level, until now or until it ended. */
int gpumem_scope_read(uint64_t scope, int device, int level, struct gpumem_scope_figures *out);

/* Restarts the scope, whether it is running or has ended. */
int gpumem_scope_reset(uint64_t scope);

/* Ends the scope; its figures stay. No effect if it has ended. */
int gpumem_scope_end(uint64_t scope);

/* Ends the scope if it is running, and makes its number invalid. */
int gpumem_scope_forget(uint64_t scope);

/* Records a mark with this name. 0: recorded. 1: nothing is recorded in this process. */
int gpumem_mark(const char *name);

/* Makes the card of a device (-1: of every device) appear to have this many bytes in total, from now on, as
 * GPUMEM_LIMIT does from the start; 0 removes the limit. 0: done. 1: nothing is recorded in this process, nor
 * will be. 2: an argument is invalid. */
int gpumem_limit(int device, uint64_t bytes);

/* Records the position of this rank in each dimension of the job's parallelism: "dp=1,tp=0,pp=3", up to 16 distinct
 * names of a-z, 0-9 and _, at most 32 bytes long. It may be called before anything is recorded, and again: the newest
 * coordinates count. 0: done. 1: nothing is recorded in this process, nor will be. 2: the text is invalid. */
int gpumem_coords(const char *coordinates);

/* Reads the card of a device (-1: of every device that the process has used) now, on the calling thread: NVML's
 * figures are recorded, and the memory that contexts and modules took since the last reading is charged. Automatic
 * readings follow a few milliseconds after the calls that require them. It may take milliseconds. 0: done. 1: nothing
 * is recorded in this process. 2: an argument is invalid. 3: NVML is missing, or does not have the device. 4: other
 * threads changed memory meanwhile, so that nothing could be charged. */
int gpumem_read_card(int device);

/* PyTorch modules (torch.nn.Module) in recorded stacks. The Python package `gpumem` calls these functions.
 *
 * Records the program's name for a module, a live Python object: its qualified name. The newest counts. 0: recorded.
 * 1: nothing is recorded in this process. 2: no stack has contained the module yet. */
int gpumem_name_module(const void *module, const char *name);

/* Writes the addresses of modules that no other module called, as far as there is room; returns how many there are,
 * at most 64. The objects may no longer exist, and their addresses may be reused. */
size_t gpumem_module_roots(uintptr_t *out, size_t room);

/* The number of modules in the recorded stacks. */
size_t gpumem_module_count(void);

/* Records the program's use of tensors: the storages that begin at these addresses. Addresses that are not live blocks
 * are skipped, and a role that was recorded for a block before is not recorded again. `role` is 1 for parameters, 2 for
 * gradients, 3 for state of optimizers, 4 for buffers. Returns how many were new. The Python package `gpumem` calls
 * this. */
size_t gpumem_tell_tensors(const uint64_t *addresses, size_t count, int role);

/* Finds the Python objects that keep the largest blocks of tensors on a device, in at most a second, and writes them as
 * text with a NUL, as far as it fits: the lines of the key "holders." in capture/SPEC.md. The thread takes the
 * interpreter's lock, unless it has it, so do not call this while another thread waits for yours under that lock. Each call
 * searches again: 64 KiB are enough for most texts. Returns the length of the whole text without the NUL. 0: nothing is
 * recorded in this process. -1: the device is invalid. -2: the thread must not take the lock: Python does not know it, it
 * runs a subinterpreter (before Python 3.12, call this without the lock there), the interpreter is ending or has no module
 * gc yet, or less than 256 KiB of the thread's stack is left. -3: there is no interpreter, or it is one that cannot be
 * read. */
ptrdiff_t gpumem_holders(int device, char *buffer, size_t size);

/* Path of this process's capture; returns its length without the NUL, 0 if nothing is recorded. */
size_t gpumem_report_path(char *buffer, size_t size);

/* The environment options as text; returns its length without the NUL. */
size_t gpumem_help_env(char *buffer, size_t size);

#ifdef __cplusplus
}
#endif
#endif
