/* The places at which a release of PyTorch keeps what libgpumem.so reads, by that release's own headers.
   Compiled, not run: the numbers are in the assembly (g++ -std=c++20 -fno-access-control -I…/torch/include -S). */
#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

using torch::autograd::AccumulateGrad;
using torch::autograd::Node;

extern "C" const unsigned long LAYOUT[];
const unsigned long LAYOUT[] = {
    __builtin_offsetof(Node, sequence_nr_),        __builtin_offsetof(Node, thread_id_),
    __builtin_offsetof(AccumulateGrad, variable),  __builtin_offsetof(c10::TensorImpl, storage_),
    __builtin_offsetof(c10::StorageImpl, data_ptr_),
};
