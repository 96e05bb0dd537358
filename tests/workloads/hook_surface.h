/* Shared by hook_surface.c and its fake driver: structures of the driver's rarer functions, declared by
 * hand so that no CUDA headers are needed. */
#ifndef HOOK_SURFACE_H
#define HOOK_SURFACE_H
#include <stddef.h>
#include <stdint.h>

struct shared { unsigned char bytes[64]; };                                /* CUipcMemHandle */
struct flat { size_t width, height; unsigned format, channels; };          /* CUDA_ARRAY_DESCRIPTOR */
struct solid { size_t width, height, depth; unsigned format, channels, flags; }; /* …ARRAY3D… */
struct flat_v1 { unsigned width, height, format, channels; };
struct solid_v1 { unsigned width, height, depth, format, channels, flags; };
struct external { unsigned type; uint64_t handle[2], size; unsigned flags, reserved[16]; };
struct buffer { uint64_t offset, size; unsigned flags, reserved[16]; };
struct mipmap { uint64_t offset; struct solid array; unsigned levels, reserved[16]; };
struct multicast { unsigned devices; size_t size; uint64_t handle_types, flags; };
#endif
