/* For scripts/bench, where threads allocate and free tensors at once: a library for ctypes, which releases the
   GIL meanwhile. */
#include <ATen/ops/empty.h>

extern "C" void make_and_drop(int device, unsigned times) {
    auto options = at::TensorOptions().device(at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device)));
    for (unsigned i = 0; i < times; i++)
        at::empty({256}, options);
}
