/* Trains with PyTorch's C++ API: no Python in the process. */
#include <ATen/core/Tensor.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <cstdio>

int main()
{
    auto on = at::TensorOptions().device(at::kCUDA);
    auto a = at::ones({128, 128}, on).set_requires_grad(true), b = at::ones({128, 128}, on).set_requires_grad(true);
    for (int step = 0; step < 3; step++)
        at::mm(a, b).sum().backward();
    std::printf("%d\n", (int)a.grad().numel());
}
