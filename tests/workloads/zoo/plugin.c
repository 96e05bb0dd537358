/* A library to be loaded and unloaded while other threads allocate: its frames are on recorded stacks. */
#include <stddef.h>
#include <stdint.h>

int plugin_use(int (*alloc)(uint64_t *, size_t), int (*release)(uint64_t)) {
    uint64_t pointer = 0;
    int result = alloc(&pointer, 1536);
    if (result == 0)
        result = release(pointer);
    __asm__ volatile("" : "+r"(result)); /* no tail call: this frame must be on the stack */
    return result;
}
