"""sim_cudnn_calls.py CHECK: the simulated libcudnn.so.9 called as C programs do, without PyTorch."""

import ctypes
import sys
from ctypes import byref, c_char_p, c_float, c_int, c_int64, c_size_t, c_void_p

import simulator

cudnn = ctypes.CDLL("libcudnn.so.9")
cudart = ctypes.CDLL("libcudart.so.13")
cudnn.cudnnGetErrorString.restype = c_char_p
cudnn.cudnnGetVersion.restype = c_size_t
MIB = 1 << 20
INT64, DATA_TYPE, VOID_PTR, DESCRIPTOR = 3, 1, 6, 15
SUCCESS, NOT_INITIALIZED, BAD_PARAM, NULL_POINTER, NOT_SUPPORTED = 0, 1001, 2000, 2002, 3000
CUDA_DRIVER_FAILED = 5001


def made(function, *arguments):
    """The handle that a function gives."""
    handle = c_void_p()
    assert function(*arguments, byref(handle)) == SUCCESS
    return handle


def put(descriptor, attribute, element, kind, *values):
    array = (kind * len(values))(*values)
    count = c_int64(len(values))
    assert cudnn.cudnnBackendSetAttribute(descriptor, attribute, element, count, array) == SUCCESS


def descriptor(kind, children=(), numbers=()):
    """A finalized descriptor."""
    made_one = made(cudnn.cudnnBackendCreateDescriptor, kind)
    for attribute, child in children:
        put(made_one, attribute, DESCRIPTOR, c_void_p, child.value)
    for attribute, element, c_kind, values in numbers:
        put(made_one, attribute, element, c_kind, *values)
    assert cudnn.cudnnBackendFinalize(made_one) == SUCCESS
    return made_one


def tensor(*extents):
    n, c, h, w = extents
    strides = (c * h * w, h * w, w, 1)
    numbers = [(901, DATA_TYPE, c_int, (0,)), (902, INT64, c_int64, extents), (903, INT64, c_int64, strides)]
    return descriptor(17, numbers=numbers)


def plans():
    """Plans of a forward convolution of floats in NCHW, best first, with their workspaces."""
    parts = [descriptor(1), tensor(16, 8, 1, 1), tensor(4, 8, 32, 32), tensor(4, 16, 32, 32)]
    graph = descriptor(15, [(801, descriptor(10, zip(range(702, 706), parts)))])
    heuristics = descriptor(4, [(201, graph)])
    found = (c_void_p * 5)(*(made(cudnn.cudnnBackendCreateDescriptor, 3).value for _ in range(5)))
    count = c_int64()
    ask = cudnn.cudnnBackendGetAttribute
    assert ask(heuristics, 202, DESCRIPTOR, c_int64(5), byref(count), found) == SUCCESS
    for configuration in found[: count.value]:
        plan, workspace = descriptor(5, [(401, c_void_p(configuration))]), c_int64()
        assert ask(plan, 402, INT64, c_int64(1), None, byref(workspace)) == SUCCESS
        yield plan, workspace.value


def pack(workspace):
    """Addresses, which nothing follows, and the workspace's."""
    numbers = [
        (1000, INT64, c_int64, (1, 2)), (1001, VOID_PTR, c_void_p, (4096, 8192)),
        (1003, VOID_PTR, c_void_p, (workspace,)),
    ]
    return descriptor(16, numbers=numbers)


def executions():
    handle = made(cudnn.cudnnCreate)
    kinds = simulator.books()["devices"][0]
    assert kinds["module"]["current"] == 0
    (best, workspace), (other, nothing) = plans()
    assert (workspace, nothing) == (4 * (16 * 8 + 4 * 8 * 1024 + 4 * 16 * 1024), 0)
    execute = cudnn.cudnnBackendExecute
    assert execute(handle, best, pack(0)) == NULL_POINTER
    assert execute(None, best, pack(4096)) == BAD_PARAM
    assert execute(handle, pack(4096), best) // 1000 == 2
    assert execute(handle, best, pack(4096)) == SUCCESS
    assert simulator.books()["devices"][0]["module"]["current"] == 2 * MIB
    # The one without a workspace seems slow.
    first, last = made(cudart.cudaEventCreate), made(cudart.cudaEventCreate)
    assert cudart.cudaEventRecord(first, None) == 0
    assert execute(handle, other, pack(0)) == SUCCESS
    assert cudart.cudaEventRecord(last, None) == 0
    elapsed = c_float()
    assert cudart.cudaEventElapsedTime(byref(elapsed), first, last) == 0 and elapsed.value >= 1000
    assert simulator.books()["devices"][0]["module"]["current"] == 2 * MIB
    assert simulator.books()["devices"][0]["driver"]["peak"] == 0, "no memory of its own"
    assert cudnn.cudnnDestroy(handle) == SUCCESS
    assert cudnn.cudnnDestroy(handle) == BAD_PARAM


def captures():
    handle, stream = made(cudnn.cudnnCreate), made(cudart.cudaStreamCreate)
    (best, _), _ = plans()
    addresses = pack(4096)
    assert cudnn.cudnnSetStream(handle, stream) == SUCCESS
    assert cudart.cudaStreamBeginCapture(stream, 0) == 0
    for _ in range(3):
        assert cudnn.cudnnBackendExecute(handle, best, addresses) == SUCCESS
    graph, count = c_void_p(), c_size_t()
    assert cudart.cudaStreamEndCapture(stream, byref(graph)) == 0
    assert cudart.cudaGraphGetNodes(graph, None, byref(count)) == 0 and count.value == 3
    # A stream that invalidates another's capture, or an invalid one, gives the driver's error.
    other = made(cudart.cudaStreamCreate)
    assert cudart.cudaStreamBeginCapture(other, 0) == 0
    assert cudnn.cudnnSetStream(handle, None) == SUCCESS
    assert cudnn.cudnnBackendExecute(handle, best, addresses) == CUDA_DRIVER_FAILED
    assert cudart.cudaStreamEndCapture(other, byref(graph)) != 0
    assert cudnn.cudnnSetStream(handle, c_void_p(0x1234)) == SUCCESS
    assert cudnn.cudnnBackendExecute(handle, best, addresses) == CUDA_DRIVER_FAILED


def unsupported():
    for _ in range(2):
        assert cudnn.cudnnOpTensor() == cudnn.cudnnRNNSetClip_v9() == NOT_SUPPORTED
    text = ctypes.create_string_buffer(100)
    cudnn.cudnnGetLastErrorString(text, c_size_t(100))
    assert text.value == b"CUDNN_STATUS_NOT_SUPPORTED"
    assert cudnn.cudnnGetErrorString(BAD_PARAM) == b"CUDNN_STATUS_BAD_PARAM"
    assert cudnn.cudnnGetVersion() == 92600


def no_driver():
    handle = c_void_p()
    assert cudnn.cudnnCreate(byref(handle)) == NOT_INITIALIZED and not handle


def dropout_states():
    handle, bytes_ = made(cudnn.cudnnCreate), c_size_t()
    assert cudnn.cudnnDropoutGetStatesSize(handle, byref(bytes_)) == SUCCESS
    assert bytes_.value == 132 * 49_152
    descriptor_ = made(cudnn.cudnnCreateDropoutDescriptor)
    arguments = (handle, c_float(0.5), c_void_p(4096))
    few, seed = c_size_t(100), ctypes.c_uint64(1)
    assert cudnn.cudnnSetDropoutDescriptor(descriptor_, *arguments, few, seed) // 1000 == 2
    assert cudnn.cudnnSetDropoutDescriptor(descriptor_, *arguments, bytes_, seed) == SUCCESS


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print(sys.argv[1], "holds")
